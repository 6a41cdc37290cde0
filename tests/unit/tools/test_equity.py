"""Equity: verified assets at the bid, uncertain moves at their worse case."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import Side
from minara_tools.domain.equity import equity, worst_case
from minara_tools.domain.funds import UncertainMove
from minara_tools.domain.venue_terms import Balance
from support.tools.funds import a_fund_context, funds_of

VERIFIED = frozenset({"USDC", "ETH", "DOGE"})
PRICES = {"USDC": Decimal("1.004"), "ETH": Decimal(2500)}


def owned(**assets: str) -> list[Balance]:
    return [
        Balance(asset=asset, available=Decimal(amount), held=Decimal(0))
        for asset, amount in assets.items()
    ]


def uncertain(takes: dict[str, str], brings: dict[str, str]) -> UncertainMove:
    return UncertainMove(
        instrument="ETH/USDC",
        side=Side.BUY,
        notional_usd=Decimal(1_000),
        takes={asset: Decimal(amount) for asset, amount in takes.items()},
        brings={asset: Decimal(amount) for asset, amount in brings.items()},
    )


def test_what_is_free_and_what_is_held_counts_at_its_price() -> None:
    balances = [Balance(asset="ETH", available=Decimal(1), held=Decimal("0.5"))]
    assert equity(balances, PRICES, verified=VERIFIED) == Decimal(3_750)


@pytest.mark.parametrize(
    ("price", "worth"), [("1.005", "100"), ("0.995", "100"), ("0.99", "99"), ("1.02", "102")]
)
def test_a_stablecoin_on_its_peg_counts_one(price: str, worth: str) -> None:
    prices = {"USDC": Decimal(price)}
    assert equity(owned(USDC="100"), prices, verified=VERIFIED) == Decimal(worth)


def test_what_nobody_verified_counts_nothing_and_hides_nothing() -> None:
    balances = owned(USDC="100", AIRDROP="1000000000")
    assert equity(balances, PRICES, verified=VERIFIED) == 100
    priced = PRICES | {"AIRDROP": Decimal(9)}
    assert equity(balances, priced, verified=VERIFIED) == 100


def test_an_asset_without_any_price_makes_it_unknown() -> None:
    assert equity(owned(USDC="100", DOGE="1"), PRICES, verified=VERIFIED) is None
    assert equity(owned(USDC="100", DOGE="0"), PRICES, verified=VERIFIED) == 100


@pytest.mark.parametrize(("doge", "expected"), [("5.26", "100"), ("5.27", None)])
def test_up_to_five_percent_may_lack_a_price(doge: str, expected: str | None) -> None:
    found = equity(
        owned(USDC="100", DOGE=doge), PRICES, verified=VERIFIED, last_prices={"DOGE": Decimal(1)}
    )
    assert found == (None if expected is None else Decimal(expected))


def test_an_uncertain_move_counts_as_done_when_that_is_worse() -> None:
    losing = uncertain({"USDC": "2600"}, {"ETH": "1"})
    winning = uncertain({"USDC": "2400"}, {"ETH": "1"})
    balances = owned(USDC="10000")
    assert equity(balances, PRICES, [losing], verified=VERIFIED) == 9_900
    assert equity(balances, PRICES, [winning], verified=VERIFIED) == 10_000
    assert equity(balances, PRICES, [losing, winning], verified=VERIFIED) == 9_900


def test_what_leaves_for_nothing_that_counts_is_lost_in_the_worse_case() -> None:
    gone = uncertain({"USDC": "300"}, {"AIRDROP": "5"})
    assert equity(owned(USDC="1000"), PRICES, [gone], verified=VERIFIED) == 700


_AMOUNTS = st.decimals(min_value=0, max_value=10_000, places=4)


@given(
    st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=4),
    _AMOUNTS,
    st.integers(min_value=0, max_value=15),
)
def test_no_outcome_of_uncertain_moves_is_worse_than_what_is_counted(
    moves: list[tuple[Decimal, Decimal]], cash: Decimal, done: int
) -> None:
    prices = {"USDC": Decimal(1), "ETH": Decimal(2)}
    unknown = [uncertain({"USDC": str(takes)}, {"ETH": str(brings)}) for takes, brings in moves]
    counted = equity(owned(USDC=str(cash)), prices, unknown, verified=VERIFIED)
    happened = [move for index, move in enumerate(moves) if done & (1 << index)]
    after = cash - sum(t for t, _ in happened) + sum(2 * b for _, b in happened)
    assert counted is not None
    assert counted <= after


def test_the_worse_case_of_a_position_has_purchases_done_and_sales_not_done() -> None:
    funds = a_fund_context(
        funds_of("ETH", "1", held="2"),
        uncertain=(uncertain({"USDC": "2500"}, {"ETH": "1"}), uncertain({"ETH": "2"}, {})),
    )
    assert worst_case(funds, "ETH") == 4
    assert worst_case(funds, "SOL") == 0
    assert worst_case(funds, "UNHEARD") == 0
