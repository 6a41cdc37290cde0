"""Token safety: one instrument of the venue's own, and a recipient that is meant."""

from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.actions import Instrument, ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_tools.domain.stage_token import token_safety
from support.actions import NOW
from support.tools.funds import (
    BITCOIN_ADDRESS,
    EVM_ADDRESS,
    a_cancel,
    a_fund_context,
    a_trade,
    a_transfer,
    a_withdrawal,
    an_entry,
    denied,
    funds_of,
    given,
)

OTHER_EVM = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"
POISONED = "0x5aaeb6" + "0" * 28 + "1beaed"


def test_a_listed_token_passes() -> None:
    assert token_safety(given()) == ()
    assert token_safety(given(a_trade(Side.SELL))) == ()


@pytest.mark.parametrize(
    "instrument",
    [
        Instrument(symbol="PEPE2/USDC", base="PEPE2", quote="USDC"),
        Instrument(symbol="ETH/USDC", base="WETH", quote="USDC"),
        Instrument(symbol="ETH/USDC", base="ETH", quote="USDT"),
        Instrument(symbol="ETH/USDC", base="ETH", quote="USDC", chain="base", address=EVM_ADDRESS),
    ],
)
def test_what_is_not_the_venues_own_listing_is_denied_to_buyers(instrument: Instrument) -> None:
    order = a_trade(instrument=instrument)
    refused = denied(DenialReason.TOKEN_UNVERIFIED, token_safety, given(order))
    assert refused.gate == "token_safety"
    assert refused.metadata["instrument"] == instrument.symbol


def test_an_exit_from_a_token_nobody_lists_is_warned_and_not_denied() -> None:
    gone = Instrument(symbol="OLD/USDC", base="OLD", quote="USDC")
    order = a_trade(Side.SELL, instrument=gone)
    assert token_safety(given(order)) == ("TOKEN_UNVERIFIED:USDC",)


def test_an_asset_that_the_venue_does_not_list_is_denied_even_under_a_listed_symbol() -> None:
    funds = a_fund_context(funds_of("ETH", is_listed=False))
    denied(DenialReason.TOKEN_UNVERIFIED, token_safety, given(funds=funds))


def test_a_listed_token_that_nobody_classified_is_mentioned() -> None:
    funds = a_fund_context(funds_of("SOL", asset_class=None))
    assert token_safety(given(a_trade(base="SOL"), funds)) == ("TOKEN_UNCLASSIFIED:SOL",)


@pytest.mark.parametrize(
    ("price", "warnings"),
    [
        ("1.005", ()),
        ("0.995", ()),
        ("1.0051", ("STABLECOIN_OFF_PEG:USDC",)),
        ("0.9949", ("STABLECOIN_OFF_PEG:USDC",)),
    ],
)
def test_a_stablecoin_off_its_peg_is_told(price: str, warnings: tuple[str, ...]) -> None:
    funds = a_fund_context(funds_of("USDC", "100000", usd_price=Decimal(price)))
    assert token_safety(given(funds=funds)) == warnings


@pytest.mark.parametrize("recipient", ["paper-1", "paper-3", "", EVM_ADDRESS])
def test_a_transfer_goes_to_another_own_account_only(recipient: str) -> None:
    refused = denied(DenialReason.ADDRESS_INVALID, token_safety, given(a_transfer(recipient)))
    assert refused.metadata["expected"] == "paper-2"
    assert token_safety(given(a_transfer("paper-2"))) == ()


def test_a_withdrawal_without_a_chain_is_asked_which() -> None:
    refused = denied(DenialReason.CHAIN_UNSPECIFIED, token_safety, given(a_withdrawal(chain="")))
    assert refused.metadata == {"asset": "ETH", "chains": "ethereum"}


@pytest.mark.parametrize(
    ("order", "chain"),
    [
        (a_withdrawal(chain="tron"), "tron"),
        (a_withdrawal(asset="BTC", chain="ethereum"), "ethereum"),
        (a_withdrawal(BITCOIN_ADDRESS), "ethereum"),
        (a_withdrawal(asset="BTC", chain="bitcoin"), "bitcoin"),
    ],
)
def test_asset_chain_and_address_belong_together(order: ResolvedOrder, chain: str) -> None:
    refused = denied(DenialReason.CHAIN_MISMATCH, token_safety, given(order))
    assert refused.metadata["chain"] == chain


@pytest.mark.parametrize(
    "address", ["", "0x", EVM_ADDRESS[:-1], EVM_ADDRESS.replace("5aA", "5aa"), "paper-2"]
)
def test_a_misspelt_address_is_denied(address: str) -> None:
    denied(DenialReason.ADDRESS_INVALID, token_safety, given(a_withdrawal(address)))


def test_a_chain_that_needs_a_memo_gets_one() -> None:
    solana = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
    order = a_withdrawal(solana, asset="SOL", chain="solana")
    denied(DenialReason.MEMO_MISSING, token_safety, given(order))
    told = a_withdrawal(solana, asset="SOL", chain="solana", memo="42")
    assert token_safety(given(told)) == ("RECIPIENT_NEW",)


@pytest.mark.parametrize("memo", ["42", "a\x1b[2J"])
def test_a_chain_without_memos_takes_none_so_that_none_hides_a_young_entry(memo: str) -> None:
    young = an_entry(EVM_ADDRESS, create_time=NOW)
    funds = a_fund_context(addresses=(young,))
    denied(DenialReason.ADDRESS_NOT_USABLE, token_safety, given(a_withdrawal(EVM_ADDRESS), funds))
    order = a_withdrawal(EVM_ADDRESS, memo=memo)
    denied(DenialReason.ADDRESS_INVALID, token_safety, given(order, funds))


@pytest.mark.parametrize("entered", [EVM_ADDRESS, EVM_ADDRESS.lower()])
def test_a_known_recipient_is_usable_after_a_day(entered: str) -> None:
    young = an_entry(entered, create_time=NOW - timedelta(hours=24) + timedelta(seconds=1))
    refused = denied(
        DenialReason.ADDRESS_NOT_USABLE,
        token_safety,
        given(a_withdrawal(), a_fund_context(addresses=(young,))),
    )
    assert refused.metadata["until"] == (NOW + timedelta(seconds=1)).isoformat()
    old = an_entry(entered, create_time=NOW - timedelta(hours=24))
    assert token_safety(given(a_withdrawal(), a_fund_context(addresses=(old,)))) == (
        "RECIPIENT_NEW",
    )
    used = an_entry(entered, create_time=NOW, used=True)
    assert token_safety(given(a_withdrawal(), a_fund_context(addresses=(used,)))) == ()


def test_an_address_made_to_look_like_a_known_one_is_denied() -> None:
    funds = a_fund_context(addresses=(an_entry(used=True),))
    refused = denied(
        DenialReason.ADDRESS_LOOKALIKE, token_safety, given(a_withdrawal(POISONED), funds)
    )
    assert refused.metadata == {"address": POISONED, "known": EVM_ADDRESS}
    assert token_safety(given(a_withdrawal(OTHER_EVM), funds)) == ("RECIPIENT_NEW",)


def test_a_cancel_has_no_token_to_check() -> None:
    assert token_safety(given(a_cancel(), a_fund_context(listings={}))) == ()
