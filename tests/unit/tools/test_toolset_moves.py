"""Quotes of swaps, limit orders, cancels, transfers and withdrawals: which move is decided."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from minara_core.actions import MoveKind, OrderType, PlacedState, Side, TimeInForce
from minara_core.audit import AuditRecord
from minara_core.denial_docs import denial_docs
from minara_core.errors import NotFound
from minara_core.ids import UserId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.tooling import dump_json
from minara_tools.app.limit_store import NewAddress
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.arguments import validated
from minara_tools.domain.intent import is_solicited, named_move
from minara_tools.domain.outcomes import ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import Quotation, ToolEntry
from minara_tools.toolsets.trade.cancel_order import cancel_order
from minara_tools.toolsets.trade.place_limit_order import place_limit_order
from minara_tools.toolsets.trade.swap_tokens import swap_tokens
from minara_tools.toolsets.transfer.transfer_token import transfer_token
from minara_tools.toolsets.transfer.withdrawals import send_external, withdraw_token
from support.actions import NOW
from support.clock import FixedClock
from support.tools.funds import BITCOIN_ADDRESS, EVM_ADDRESS
from support.tools.venue import FakeVenue
from support.tools_world import FakeMarket, a_context

HELD = {"USDC": Decimal(100_000), "ETH": Decimal(3), "BTC": Decimal("0.5")}
FIRST, SECOND = "3fa2" + "0" * 28, "3fb9" + "0" * 28


class Book:
    """Implements AddressBook with one entry."""

    def __init__(self, entry: AddressEntry) -> None:
        self.entry = entry

    async def page(self, user_id: UserId) -> tuple[AddressEntry, ...]:
        return (self.entry,)

    async def add(
        self,
        user_id: UserId,
        new: NewAddress,
        check: Callable[[tuple[AddressEntry, ...]], None],
        audit: Callable[[AddressEntry], AuditRecord],
    ) -> AddressEntry:
        return self.entry

    async def remove(
        self, user_id: UserId, address_id: str, audit: Callable[[datetime], AuditRecord]
    ) -> None:
        """Nobody asks it to."""


WALLET = AddressEntry(
    address_id="entry-1",
    name="My wallet",
    chain="base",
    address=EVM_ADDRESS,
    memo="",
    create_time=NOW - timedelta(days=2),
)


class Desk:
    def __init__(self) -> None:
        self.clock = FixedClock()
        self.market = FakeMarket(self.clock)
        self.venue = FakeVenue(self.market, self.clock, HELD, pairs=("ETH/BTC",))
        self.swap = swap_tokens(self.venue, self.market)
        self.limit = place_limit_order(self.venue, self.market)
        self.cancel = cancel_order(self.venue, self.clock)
        self.transfer = transfer_token(self.venue, self.market, self.clock)
        self.withdraw = withdraw_token(self.venue, self.market, Book(WALLET), self.clock)
        self.send = send_external(self.venue, self.market, self.clock)

    async def quote(self, entry: ToolEntry, **arguments: str) -> Quotation:
        assert entry.quote is not None
        return await entry.quote(validated(entry, dump_json(arguments)), a_context())

    async def rest(self, client_order_id: str, side: str = "buy", price: str = "2000") -> None:
        """Have a limit order of the person's rest at the venue."""
        quotation = await self.quote(
            self.limit, side=side, symbol="ETH", amount="0.1", amount_unit="base",
            limit_price=price, intent="as asked",
        )  # fmt: skip
        answer = await self.venue.send(await self.venue.prepare(quotation.order, client_order_id))
        assert answer.order.state is PlacedState.OPEN


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def refusal(desk: Desk, entry: ToolEntry, **arguments: str) -> ToolCallBlockedError:
    with pytest.raises(ToolCallBlockedError) as refused:
        await desk.quote(entry, **arguments)
    blocked = refused.value
    assert denial_docs()[blocked.reason].allows(blocked.metadata), blocked.metadata
    return blocked


def swap(gives: str, takes: str, amount: str, unit: str = "from") -> dict[str, str]:
    return {
        "from_symbol": gives,
        "to_symbol": takes,
        "amount": amount,
        "amount_unit": unit,
        "intent": "as asked",
    }


async def test_a_swap_sells_the_base_of_the_market_that_joins_both(desk: Desk) -> None:
    order = (await desk.quote(desk.swap, **swap("ETH", "BTC", "1"))).order
    assert (order.instrument.symbol, order.side) == ("ETH/BTC", Side.SELL)
    assert (order.max_spend, order.max_spend_asset) == (Decimal(1), "ETH")
    assert (order.min_receipt_asset, order.max_fee_asset) == ("BTC", "BTC")
    assert Decimal("0.0247") < order.min_receipt < Decimal("0.02475")


async def test_a_swap_the_other_way_buys_it_and_pays_its_fee_in_it(desk: Desk) -> None:
    quotation = await desk.quote(desk.swap, **swap("bitcoin", "ether", "0.05"))
    order = quotation.order
    assert (order.instrument.symbol, order.side) == ("ETH/BTC", Side.BUY)
    assert (order.max_spend, order.max_spend_asset) == (Decimal("0.05"), "BTC")
    assert order.max_fee_asset == order.min_receipt_asset == "ETH"
    assert order.max_fee == quotation.preview.estimated_fee
    assert order.min_receipt < order.quantity - order.max_fee
    assert quotation.preview.notional_usd == Decimal(5000)


async def test_a_swap_of_dollars_worth_gives_that_much(desk: Desk) -> None:
    order = (await desk.quote(desk.swap, **swap("ETH", "BTC", "100", "usd"))).order
    assert order.quantity == Decimal("0.04")


async def test_a_swap_of_everything_gives_what_is_free(desk: Desk) -> None:
    everything = {k: v for k, v in swap("ETH", "BTC", "", "all").items() if k != "amount"}
    assert (await desk.quote(desk.swap, **everything)).order.quantity == Decimal(3)
    nothing = everything | {"from_symbol": "DOGE", "to_symbol": "USDC"}
    refused = await refusal(desk, desk.swap, **nothing)
    assert refused.reason is DenialReason.BALANCE_INSUFFICIENT


async def test_no_market_between_two_coins_is_denied_with_the_two_steps_that_would_do(
    desk: Desk,
) -> None:
    refused = await refusal(desk, desk.swap, **swap("DOGE", "BTC", "100"))
    assert refused.reason is DenialReason.MARKET_CLOSED
    assert "sell DOGE first, then buy BTC" in refused.message


async def test_a_swap_of_something_unknown_is_never_picked(desk: Desk) -> None:
    refused = await refusal(desk, desk.swap, **swap("NOSUCH", "BTC", "1"))
    assert refused.reason is DenialReason.TOKEN_AMBIGUOUS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("swap 1 ETH to BTC", True),
        ("把 1 ETH 換成 BTC", True),
        ("1 ETH를 BTC로 바꿔줘", True),
        ("swap 1 ETH to SOL", False),
        ("swap 1 BTC to ETH", False),
        ("buy 1 ETH", False),
    ],
)
def test_a_swap_is_solicited_by_words_that_name_both_ends(
    desk: Desk, text: str, expected: bool
) -> None:
    arguments = validated(desk.swap, dump_json(swap("ETH", "BTC", "1")))
    assert is_solicited((text,), named_move(desk.swap, arguments)) is expected


def limit(side: str, amount: str, unit: str, price: str) -> dict[str, str]:
    return {
        "side": side,
        "symbol": "ETH",
        "amount": amount,
        "amount_unit": unit,
        "limit_price": price,
        "intent": "as asked",
    }


async def test_a_limit_order_holds_the_takers_fee_at_its_limit(desk: Desk) -> None:
    quotation = await desk.quote(desk.limit, **limit("buy", "0.1", "base", "2000"))
    order = quotation.order
    assert (order.order_type, order.time_in_force) == (OrderType.LIMIT, TimeInForce.GTC)
    assert (order.quantity, order.limit_price) == (Decimal("0.1"), Decimal(2000))
    assert order.max_fee == Decimal("0.2")
    assert order.max_spend == Decimal("200.2")
    assert quotation.preview.price == Decimal(2500)
    assert quotation.preview.notional_usd == Decimal(200)


async def test_a_limit_order_for_money_spends_no_more_than_that(desk: Desk) -> None:
    order = (await desk.quote(desk.limit, **limit("buy", "200", "quote", "2000"))).order
    assert Decimal("199.99") < order.max_spend <= Decimal(200)


async def test_a_limit_sale_may_fill_better_and_then_pays_more_fee(desk: Desk) -> None:
    order = (await desk.quote(desk.limit, **limit("sell", "1", "base", "2000"))).order
    assert (order.max_spend, order.max_spend_asset) == (Decimal(1), "ETH")
    assert order.min_receipt == Decimal(1998)
    assert order.max_fee >= Decimal("2.5")


async def test_a_limit_order_that_is_nothing_is_denied(desk: Desk) -> None:
    refused = await refusal(desk, desk.limit, **limit("buy", "0.0000001", "base", "2000"))
    assert refused.reason is DenialReason.QUANTITY_ROUNDS_TO_ZERO
    refused = await refusal(desk, desk.limit, **limit("buy", "1", "base", "0"))
    assert refused.reason is DenialReason.PRICE_PRECISION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("buy 0.1 ETH at 2000", True),
        ("在 2000 限價買入 0.1 ETH", True),
        ("ETH 0.1개 2000달러에 지정가 매수해줘", True),
        ("buy 0.1 ETH at 2100", False),
        ("buy 0.1 ETH", False),
    ],
)
def test_a_limit_order_is_solicited_by_words_with_its_price(
    desk: Desk, text: str, expected: bool
) -> None:
    arguments = validated(desk.limit, dump_json(limit("buy", "0.1", "base", "2000")))
    assert is_solicited((text,), named_move(desk.limit, arguments)) is expected


def cancel(order_id: str, symbol: str = "ETH/USDC") -> dict[str, str]:
    return {"order_id": order_id, "symbol": symbol, "intent": "cancel the order"}


async def test_a_cancel_ends_exactly_the_order_it_names(desk: Desk) -> None:
    await desk.rest(FIRST)
    await desk.rest(SECOND, side="sell", price="3000")
    quotation = await desk.quote(desk.cancel, **cancel("3FB9"))
    order = quotation.order
    assert (order.kind, order.cancels, order.side) == (MoveKind.CANCEL, SECOND, Side.SELL)
    assert (order.quantity, order.limit_price) == (Decimal("0.1"), Decimal(3000))
    assert quotation.preview.notional_usd == order.max_spend == order.max_fee == 0


@pytest.mark.parametrize(
    ("order_id", "symbol", "reason"),
    [
        ("dead", "ETH", "ORDER_NOT_FOUND"),
        ("3fa2", "BTC", "ORDER_NOT_FOUND"),
        ("3fa2" + "0" * 6, "ETH", "ORDER_AMBIGUOUS"),
    ],
)
async def test_a_cancel_of_none_or_several_is_no_cancel(
    desk: Desk, order_id: str, symbol: str, reason: str
) -> None:
    await desk.rest(FIRST)
    await desk.rest(FIRST[:-1] + "1")
    with pytest.raises(ToolFailed) as failed:
        await desk.quote(desk.cancel, **cancel(order_id, symbol))
    assert failed.value.reason == reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cancel my ETH order", True),
        ("cancel order 3fa2", True),
        ("取消我的 ETH 訂單", True),
        ("ETH 매수 주문 취소해줘", True),
        ("cancel my BTC order", False),
        ("cancel order 9fa2", False),
        ("don't cancel my ETH order", False),
        ("cancel", False),
        ("buy 0.1 ETH", False),
    ],
)
def test_a_cancel_is_solicited_by_words_that_ask_for_it(
    desk: Desk, text: str, expected: bool
) -> None:
    arguments = validated(desk.cancel, dump_json(cancel("3fa2")))
    assert is_solicited((text,), named_move(desk.cancel, arguments)) is expected


def transfer(amount: str = "100", to: str = "perps") -> dict[str, str]:
    return {
        "symbol": "USDC",
        "amount": amount,
        "amount_unit": "base",
        "from_account": "spot",
        "to_account": to,
        "intent": "as asked",
    }


async def test_a_transfer_goes_between_the_accounts_the_venue_lists(desk: Desk) -> None:
    quotation = await desk.quote(desk.transfer, **transfer())
    order = quotation.order
    assert (order.kind, order.account, order.recipient) == (
        MoveKind.TRANSFER, "fake-local", "fake-local-perps"
    )  # fmt: skip
    assert order.quantity == order.max_spend == order.min_receipt == Decimal(100)
    assert quotation.preview.notional_usd == Decimal(100)
    everything = {k: v for k, v in transfer().items() if k != "amount"} | {"amount_unit": "all"}
    assert (await desk.quote(desk.transfer, **everything)).order.quantity == HELD["USDC"]


async def test_a_transfer_to_anybody_else_is_denied(desk: Desk) -> None:
    refused = await refusal(desk, desk.transfer, **transfer(to="fake-somebody"))
    assert refused.reason is DenialReason.ADDRESS_INVALID


@pytest.mark.parametrize(
    "text",
    [
        "transfer 100 USDC to my perps account",
        "轉 100 USDC 到合約帳戶",
        "100 USDC를 선물 계정으로 이체해줘",
    ],
)
def test_a_transfer_is_solicited_in_three_languages(desk: Desk, text: str) -> None:
    arguments = validated(desk.transfer, dump_json(transfer()))
    assert is_solicited((text,), named_move(desk.transfer, arguments))
    assert not is_solicited(("withdraw 100 USDC",), named_move(desk.transfer, arguments))


def card(**changes: str) -> dict[str, str]:
    known = {"symbol": "USDC", "amount": "50", "address": "entry-1", "last_six": EVM_ADDRESS[-6:]}
    return known | changes


@pytest.mark.parametrize("address", ["entry-1", "my wallet"])
async def test_a_withdrawal_goes_to_the_entry_in_full_and_holds_its_fee(
    desk: Desk, address: str
) -> None:
    order = (await desk.quote(desk.withdraw, **card(address=address))).order
    assert (order.kind, order.recipient) == (MoveKind.WITHDRAWAL, EVM_ADDRESS)
    assert (order.instrument.symbol, order.instrument.chain) == ("USDC", "base")
    assert (order.quantity, order.max_fee) == (Decimal(50), Decimal("0.1"))
    assert order.max_spend == Decimal("50.1")


@pytest.mark.parametrize("last_six", ["000000", EVM_ADDRESS[-7:-1], EVM_ADDRESS[-5:] + "x"])
async def test_a_recipient_whose_end_was_not_typed_is_denied(desk: Desk, last_six: str) -> None:
    refused = await refusal(desk, desk.withdraw, **card(last_six=last_six))
    assert refused.reason is DenialReason.ADDRESS_INVALID
    sending = {"chain": "base", "address": EVM_ADDRESS, "last_six": last_six}
    refused = await refusal(desk, desk.send, **card(**sending))
    assert refused.reason is DenialReason.ADDRESS_INVALID


async def test_an_entry_that_is_not_in_the_book_is_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound) as missing:
        await desk.quote(desk.withdraw, **card(address="somebody"))
    assert missing.value.reason == ErrorReason.ADDRESS_NOT_FOUND


async def test_a_pasted_address_is_sent_to_by_the_chain_that_was_said(desk: Desk) -> None:
    order = (
        await desk.quote(
            desk.send,
            **card(chain="Base", address=EVM_ADDRESS, last_six=EVM_ADDRESS[-6:].lower()),
        )
    ).order
    assert (order.instrument.chain, order.recipient) == ("base", EVM_ADDRESS)
    foreign = card(
        symbol="BTC", chain="nowhere", address=BITCOIN_ADDRESS, last_six=BITCOIN_ADDRESS[-6:]
    )
    order = (await desk.quote(desk.send, **foreign)).order
    assert (order.instrument.chain, order.max_fee) == ("nowhere", Decimal(0))
