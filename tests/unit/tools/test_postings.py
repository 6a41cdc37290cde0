"""Double entry: every posting sums to zero, and holds, fills and fees land where they belong."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import Side
from minara_tools.domain import postings
from minara_tools.domain.postings import Booked, LedgerAccount, Posting
from minara_tools.domain.venue_terms import FactKind
from support.actions import NOW
from support.tools.operations import a_fee, a_fill, held

AMOUNTS = st.decimals(min_value="0.000000000000000001", max_value="99999999999", places=18)


def moved(posting: Posting, ledger_account: LedgerAccount, asset: str) -> Decimal:
    return sum(
        (
            entry.amount
            for entry in posting.entries
            if (entry.ledger_account, entry.asset) == (ledger_account, asset)
        ),
        Decimal(0),
    )


def is_balanced(posting: Posting) -> bool:
    return not any(postings.totals(posting.entries).values())


@given(quantity=AMOUNTS, price=AMOUNTS, side=st.sampled_from(list(Side)), ours=st.booleans())
def test_every_posting_of_a_fact_sums_to_zero(
    quantity: Decimal, price: Decimal, side: Side, ours: bool
) -> None:
    fact = replace(
        a_fill(side=side),
        quantity=quantity,
        changes={"ETH": quantity, "USDC": -price} if side is Side.BUY else {"ETH": -quantity},
    )
    for kind in FactKind:
        booked = postings.of_fact("paper", replace(fact, kind=kind), held() if ours else None)
        assert is_balanced(booked.posting)


def test_a_hold_moves_money_from_available_to_held_and_back() -> None:
    operation = held()
    hold = postings.hold(operation, NOW)
    assert moved(hold, LedgerAccount.HELD, "USDC") == 50
    assert moved(hold, LedgerAccount.AVAILABLE, "USDC") == -50
    released = postings.release(operation, NOW)
    assert released is not None
    assert moved(released.posting, LedgerAccount.AVAILABLE, "USDC") == 50
    assert released.operation is not None
    assert released.operation.hold_left == 0
    assert postings.release(released.operation, NOW) is None


def test_a_fill_is_paid_out_of_its_hold_and_shrinks_it() -> None:
    booked = postings.of_fact("paper", a_fill("0.01"), held())
    assert moved(booked.posting, LedgerAccount.HELD, "USDC") == -25
    assert moved(booked.posting, LedgerAccount.AVAILABLE, "ETH") == Decimal("0.01")
    assert moved(booked.posting, LedgerAccount.REALISED, "USDC") == 25
    assert booked.operation is not None
    assert booked.operation.hold_left == 25
    assert booked.operation.filled_quantity == Decimal("0.01")


def test_what_a_hold_does_not_cover_comes_out_of_what_is_available() -> None:
    dear = postings.of_fact("paper", a_fill("0.02", "3000"), held())
    assert moved(dear.posting, LedgerAccount.HELD, "USDC") == -50
    assert moved(dear.posting, LedgerAccount.AVAILABLE, "USDC") == -10
    assert dear.operation is not None
    assert dear.operation.hold_left == 0


def test_a_fee_is_booked_in_the_asset_that_was_charged() -> None:
    in_money = postings.of_fact("paper", a_fee(a_fill()), held())
    assert moved(in_money.posting, LedgerAccount.HELD, "USDC") == Decimal("-0.05")
    assert moved(in_money.posting, LedgerAccount.FEES, "USDC") == Decimal("0.05")
    in_coin = postings.of_fact("paper", a_fee(a_fill(), "0.00002", "ETH"), held())
    assert moved(in_coin.posting, LedgerAccount.AVAILABLE, "ETH") == Decimal("-0.00002")
    assert in_coin.operation is not None
    assert in_coin.operation.hold_left == 50


def test_what_we_did_not_cause_is_external() -> None:
    foreign = postings.of_fact("paper", a_fill(), None)
    assert moved(foreign.posting, LedgerAccount.EXTERNAL, "USDC") == 50
    assert moved(foreign.posting, LedgerAccount.AVAILABLE, "USDC") == -50
    assert not moved(foreign.posting, LedgerAccount.REALISED, "USDC")
    assert foreign.posting.operation_id == ""


def test_a_transfer_goes_through_transit_of_the_account_it_left() -> None:
    operation = held()
    leaving = replace(a_fill(), kind=FactKind.TRANSFER_OUT, changes={"USDC": Decimal(-50)})
    arriving = replace(
        leaving,
        kind=FactKind.TRANSFER_IN,
        account="paper-2",
        counterparty="paper-1",
        changes={"USDC": Decimal(50)},
    )
    out = postings.of_fact("paper", leaving, operation)
    into = postings.of_fact("paper", arriving, out.operation)
    assert moved(out.posting, LedgerAccount.IN_TRANSIT, "USDC") == 50
    assert moved(into.posting, LedgerAccount.IN_TRANSIT, "USDC") == -50
    (transit,) = {
        entry.account
        for booked in (out, into)
        for entry in booked.posting.entries
        if entry.ledger_account is LedgerAccount.IN_TRANSIT
    }
    assert transit == "paper-1"


@given(st.lists(AMOUNTS, min_size=1, max_size=20))
def test_a_hold_never_goes_below_nothing_whatever_is_filled(quantities: list[Decimal]) -> None:
    operation = held()
    entries = list(postings.hold(operation, NOW).entries)
    for number, quantity in enumerate(quantities):
        fact = replace(a_fill(trade=f"t{number}"), quantity=quantity, changes={"USDC": -quantity})
        booked: Booked = postings.of_fact("paper", fact, operation)
        assert booked.operation is not None
        operation = booked.operation
        entries += booked.posting.entries
        assert operation.hold_left >= 0
    held_now = sum(
        (one.amount for one in entries if one.ledger_account is LedgerAccount.HELD), Decimal(0)
    )
    assert held_now == operation.hold_left
    assert not any(postings.totals(entries).values())
