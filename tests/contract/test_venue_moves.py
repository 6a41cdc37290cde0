"""Venue: transfers between own accounts, and withdrawals."""

from dataclasses import replace
from decimal import Decimal

import pytest

from minara_core.actions import PlacedState
from minara_core.reasons import DenialReason
from minara_tools.domain.venue_terms import FactKind
from support.tools.venue_places import FIRST, ME, SECOND, SOMEBODY, Place, a_transfer, a_withdrawal

MUCH = Decimal(100_000)
ADDRESS = "0x52908400098527886E0F7030069857D2E4169EE7"


async def test_a_transfer_moves_to_the_other_account_of_the_same_person(place: Place) -> None:
    primary, perps = await place.venue.accounts(ME)
    move = a_transfer(place.venue, primary.account, perps.account, "250.5")
    placed = await place.placed(move, FIRST)
    assert (placed.state, placed.spent, placed.fee) == (PlacedState.FILLED, Decimal("250.5"), 0)
    assert await place.free("USDC", primary.account) == MUCH - Decimal("250.5")
    assert await place.free("USDC", perps.account) == Decimal("250.5")
    back = a_transfer(place.venue, perps.account, primary.account, "0.5")
    assert (await place.placed(back, SECOND)).state is PlacedState.FILLED
    assert await place.free("USDC", perps.account) == Decimal(250)
    await place.check_books()


async def test_a_transfer_is_two_facts_that_name_each_other(place: Place) -> None:
    primary, perps = await place.venue.accounts(ME)
    move = a_transfer(place.venue, primary.account, perps.account, "10")
    await place.placed(move, FIRST)
    leaves = (await place.facts(primary.account))[-1]
    (arrives,) = await place.facts(perps.account)
    assert (leaves.kind, arrives.kind) == (FactKind.TRANSFER_OUT, FactKind.TRANSFER_IN)
    assert leaves.trade_id == arrives.trade_id
    assert (leaves.counterparty, arrives.counterparty) == (perps.account, primary.account)
    assert dict(leaves.changes) == {"USDC": Decimal(-10)}
    assert dict(arrives.changes) == {"USDC": Decimal(10)}
    assert leaves.client_order_id == FIRST
    assert leaves.instrument == "USDC"


async def test_a_transfer_to_somebody_else_is_rejected(place: Place) -> None:
    account, theirs = await place.account(), await place.account(SOMEBODY)
    for recipient in (theirs, account, "nobody", ""):
        placed = await place.placed(a_transfer(place.venue, account, recipient, "10"))
        assert (placed.state, placed.reason) == (PlacedState.REJECTED, "RECIPIENT_UNKNOWN")
    assert await place.free("USDC") == await place.free("USDC", theirs) == MUCH


async def test_nobody_transfers_what_is_not_free(place: Place) -> None:
    primary, perps = await place.venue.accounts(ME)
    for amount in ("100000.000001", "999999999999"):
        move = a_transfer(place.venue, primary.account, perps.account, amount)
        placed = await place.placed(move)
        assert placed.reason == DenialReason.BALANCE_INSUFFICIENT
    none = replace(a_transfer(place.venue, primary.account, perps.account, "1"), quantity=-MUCH)
    assert (await place.placed(none)).state is PlacedState.REJECTED
    assert await place.free("USDC", perps.account) == 0


async def test_a_withdrawal_takes_amount_and_network_fee(place: Place) -> None:
    (network,) = [n for n in await place.venue.networks() if (n.asset, n.chain) == ("USDC", "base")]
    move = a_withdrawal(place.venue, await place.account(), "25", address=ADDRESS)
    answer = await place.sent(move, FIRST)
    placed = answer.order
    assert placed.state is PlacedState.FILLED
    assert (placed.filled_quantity, placed.fee) == (Decimal(25), network.fee)
    assert (placed.spent, placed.fee_asset) == (Decimal(25) + network.fee, "USDC")
    out, fee = answer.facts
    assert (out.kind, fee.kind) == (FactKind.WITHDRAWAL, FactKind.FEE)
    assert out.trade_id == fee.trade_id
    assert (dict(out.changes), out.counterparty) == ({"USDC": Decimal(-25)}, ADDRESS)
    assert dict(fee.changes) == {"USDC": -network.fee}
    assert await place.free("USDC") == MUCH - placed.spent
    await place.check_books()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chain": ""}, DenialReason.CHAIN_UNSPECIFIED),
        ({"chain": "nowhere"}, DenialReason.CHAIN_MISMATCH),
        ({"chain": "xrpl"}, DenialReason.CHAIN_MISMATCH),
        ({"address": ""}, DenialReason.ADDRESS_INVALID),
        ({"amount": "0.5"}, DenialReason.QUANTITY_BELOW_MIN),
        ({"amount": "100000"}, DenialReason.BALANCE_INSUFFICIENT),
        ({"asset": "XRP", "chain": "xrpl", "address": "rN7n", "amount": "5"}, "MEMO_REQUIRED"),
    ],
)
async def test_a_withdrawal_that_leads_nowhere_is_rejected(
    place: Place, changes: dict[str, str], reason: str
) -> None:
    account = await place.account()
    await place.venue.deposit(account, "XRP", Decimal(100))
    told = {"amount": "25"} | changes
    placed = await place.placed(a_withdrawal(place.venue, account, **told), FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, reason)
    assert await place.venue.find_order(account, FIRST) == placed
    assert await place.free("USDC") == MUCH
    assert await place.free("XRP") == Decimal(100)


async def test_a_memo_goes_with_its_address(place: Place) -> None:
    account = await place.account()
    await place.venue.deposit(account, "XRP", Decimal(100))
    move = a_withdrawal(
        place.venue, account, "5", asset="XRP", chain="xrpl", address="rN7n7otQ", memo="71"
    )
    assert (await place.placed(move, FIRST)).state is PlacedState.FILLED


async def test_a_deposit_is_a_fact(place: Place) -> None:
    account = await place.account()
    await place.venue.deposit(account, "DOGE", Decimal("12.5"))
    told = (await place.facts())[-1]
    assert (told.kind, dict(told.changes)) == (FactKind.DEPOSIT, {"DOGE": Decimal("12.5")})
    assert (told.client_order_id, told.venue_order_id) == ("", "")
    assert await place.free("DOGE") == Decimal("12.5")


async def test_every_network_says_what_it_takes(place: Place) -> None:
    networks = await place.venue.networks()
    assert {"USDC", "XRP"} <= {network.asset for network in networks}
    assert len({(n.asset, n.chain) for n in networks}) == len(networks)
    for network in networks:
        assert network.fee >= 0
        assert min(network.min_amount, network.amount_increment) > 0
        assert network.min_amount % network.amount_increment == 0
    assert any(network.needs_memo for network in networks)
