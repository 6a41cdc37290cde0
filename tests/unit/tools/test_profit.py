"""Profit and loss at average cost, from booked facts alone."""

from decimal import Decimal

import pytest

from minara_tools.domain import postings
from minara_tools.domain.postings import Posting
from minara_tools.domain.profit import Holding, Profit, profit
from minara_tools.domain.venue_terms import FactKind, VenueFact
from support.actions import NOW
from support.tools.operations import an_operation


def a_fact(kind: FactKind, number: int, **changes: str) -> VenueFact:
    return VenueFact(
        kind=kind,
        account="paper-1",
        instrument="ETH/USDC",
        trade_id=f"t{number}",
        venue_order_id="v1",
        client_order_id="c" * 32,
        changes={asset: Decimal(change) for asset, change in changes.items()},
        time=NOW,
    )


def booked(*facts: tuple[FactKind, dict[str, str]]) -> Profit:
    """Of these facts of our own orders, in order."""
    return profit(
        postings.of_fact("paper", a_fact(kind, number, **changes), an_operation()).posting
        for number, (kind, changes) in enumerate(facts)
    )


def a_trade(**changes: str) -> tuple[FactKind, dict[str, str]]:
    return FactKind.FILL, changes


def test_a_sale_realises_what_it_brought_beyond_the_average_cost() -> None:
    found = booked(
        a_trade(ETH="1", USDC="-2000"),
        a_trade(ETH="1", USDC="-3000"),
        a_trade(ETH="-1", USDC="2800"),
    )
    assert found.holdings == {
        "ETH": Holding(costed=Decimal(1), cost=Decimal(2500), realised=Decimal(300))
    }


def test_selling_out_leaves_no_cost_behind() -> None:
    found = booked(a_trade(ETH="2", USDC="-5000"), a_trade(ETH="-2", USDC="4000"))
    assert found.holdings["ETH"] == Holding(realised=Decimal(-1000))


def test_fees_stand_apart_and_take_their_coins_with_their_cost() -> None:
    found = booked(
        a_trade(ETH="1", USDC="-2000"),
        (FactKind.FEE, {"USDC": "-2"}),
        (FactKind.FEE, {"ETH": "-0.5"}),
    )
    assert found.fees == {"USDC": Decimal(2), "ETH": Decimal("0.5")}
    assert found.holdings["ETH"] == Holding(costed=Decimal("0.5"), cost=Decimal(1000))


def test_what_came_without_a_price_makes_no_profit() -> None:
    found = booked(
        (FactKind.DEPOSIT, {"ETH": "1"}),
        a_trade(ETH="1", USDC="-2000"),
        a_trade(ETH="-1", USDC="3000"),
    )
    eth = found.holdings["ETH"]
    assert (eth.costed, eth.uncosted, eth.cost) == (Decimal("0.5"), Decimal("0.5"), Decimal(1000))
    assert eth.realised == Decimal(500)


def test_a_swap_of_coins_carries_the_cost_over() -> None:
    found = booked(
        a_trade(ETH="1", USDC="-2000"),
        a_trade(ETH="-1", BTC="0.025"),
        a_trade(BTC="-0.025", USDC="2600"),
    )
    assert found.holdings["ETH"] == Holding()
    assert found.holdings["BTC"] == Holding(realised=Decimal(600))


def test_a_withdrawal_takes_its_cost_along_and_realises_nothing() -> None:
    found = booked(a_trade(ETH="2", USDC="-4000"), (FactKind.WITHDRAWAL, {"ETH": "-1"}))
    assert found.holdings["ETH"] == Holding(costed=Decimal(1), cost=Decimal(2000))


def test_what_moves_between_own_accounts_changes_nothing() -> None:
    found = booked(a_trade(ETH="2", USDC="-4000"), (FactKind.TRANSFER_OUT, {"ETH": "-1"}))
    assert found.holdings["ETH"] == Holding(costed=Decimal(2), cost=Decimal(4000))


@pytest.mark.parametrize("history", [(), (a_trade(USDC="-1", USDT="1"),)])
def test_money_has_no_holding(history: tuple[tuple[FactKind, dict[str, str]], ...]) -> None:
    assert booked(*history).holdings == {}


def test_an_opening_balance_is_a_deposit() -> None:
    opened: Posting = postings.opening("paper", "paper-1", {"ETH": Decimal(3)}, NOW)
    assert profit([opened]).holdings == {"ETH": Holding(uncosted=Decimal(3))}
