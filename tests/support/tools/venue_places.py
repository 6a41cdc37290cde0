"""Venues as the contract suite meets them, and the moves it makes there."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from minara_core.actions import (
    Instrument,
    MoveKind,
    OrderType,
    PlacedOrder,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.ids import UserId
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.adapters.venue_paper_http import HttpPaperVenue
from minara_tools.adapters.venue_paper_http_server import venue_app
from minara_tools.app.ports import Venue
from minara_tools.dev_venue import serving
from minara_tools.domain.venue_terms import Balance, VenueAnswer, VenueFact
from support.clock import FixedClock
from support.databases import Databases
from support.tools.venue import FakeVenue
from support.tools.venue_facts import sums
from support.tools_world import STARTING, FakeMarket

ME = UserId("local")
SOMEBODY = UserId("somebody")
FIRST = "0" * 31 + "1"
SECOND = "0" * 31 + "2"
THIRD = "0" * 31 + "3"
EVER = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = b"a secret of the contract suite"
PAIR = "ETH/BTC"
PRICES = {"BTC": "100000", "ETH": "2500", "DOGE": "0.2", "PEPE": "0.00001", "USDC": "1"}
_ZERO = Decimal(0)


class OpenVenue(Venue, Protocol):
    """A venue into which a test may put money."""

    async def deposit(self, account: str, asset: str, amount: Decimal) -> None: ...


@dataclass
class Place:
    """A venue, its world, and what the tests say most."""

    venue: OpenVenue
    market: FakeMarket
    clock: FixedClock
    numbers: list[int] = field(default_factory=lambda: [100])

    async def account(self, user_id: UserId = ME) -> str:
        return await self.venue.account(user_id)

    async def trade(
        self, side: Side = Side.BUY, symbol: str = "ETH/USDC", **changes: Any
    ) -> ResolvedOrder:
        """A market order of the user's own account; see `a_trade`."""
        order = a_trade(self.venue, await self.account(), side, symbol)
        return replace(order, **changes)

    async def resting(
        self, side: Side, quantity: str, limit: str, symbol: str = "ETH/USDC"
    ) -> ResolvedOrder:
        """A limit order that stays."""
        amount, price = Decimal(quantity), Decimal(limit)
        return await self.trade(
            side,
            symbol,
            order_type=OrderType.LIMIT,
            time_in_force=TimeInForce.GTC,
            quantity=amount,
            limit_price=price,
            max_spend=amount * price * Decimal("1.001") if side is Side.BUY else amount,
        )

    async def sent(self, order: ResolvedOrder, client_order_id: str = "") -> VenueAnswer:
        """What comes of an order, by a fresh client id unless told one."""
        return await self.venue.send(
            await self.venue.prepare(order, client_order_id or self.new_id())
        )

    async def placed(self, order: ResolvedOrder, client_order_id: str = "") -> PlacedOrder:
        return (await self.sent(order, client_order_id)).order

    def new_id(self) -> str:
        self.numbers[0] += 1
        return f"{self.numbers[0]:032x}"

    async def balance(self, asset: str, account: str = "") -> Balance:
        owner = account or await self.account()
        nothing = Balance(asset=asset, available=_ZERO, held=_ZERO)
        return next((b for b in await self.venue.balances(owner) if b.asset == asset), nothing)

    async def free(self, asset: str, account: str = "") -> Decimal:
        return (await self.balance(asset, account)).available

    async def facts(self, account: str = "") -> tuple[VenueFact, ...]:
        return await self.venue.facts(account or await self.account(), EVER)

    async def check_books(self, *user_ids: UserId) -> None:
        """The facts of each account make its balances, and nothing is below zero."""
        for user_id in user_ids or (ME,):
            for listed in await self.venue.accounts(user_id):
                told = await self.venue.facts(listed.account, EVER)
                have = {
                    balance.asset: balance.available + balance.held
                    for balance in await self.venue.balances(listed.account)
                }
                made = sums(told)
                assert {a: v for a, v in made.items() if v} == {a: v for a, v in have.items() if v}
                for balance in await self.venue.balances(listed.account):
                    assert balance.available >= 0
                    assert balance.held >= 0
                keys = [(f.instrument, f.trade_id, f.venue_order_id, f.kind) for f in told]
                assert len(set(keys)) == len(keys)


def a_trade(venue: Venue, account: str, side: Side, symbol: str = "ETH/USDC") -> ResolvedOrder:
    """An immediate order for 0.02 of the base, with wide bounds."""
    base, quote = symbol.split("/")
    is_buy, is_pair = side is Side.BUY, quote != "USDC"
    quantity = Decimal("0.02")
    limit = Decimal("0.0255" if is_buy else "0.0245") if is_pair else Decimal("2525")
    if not is_buy and not is_pair:
        limit = Decimal("2475")
    spends, brings = (quote, base) if is_buy else (base, quote)
    return ResolvedOrder(
        mode=venue.mode,
        venue=venue.name,
        account=account,
        instrument=Instrument(symbol=symbol, base=base, quote=quote),
        side=side,
        order_type=OrderType.MARKET,
        quantity=quantity,
        quantity_unit=QuantityUnit.BASE,
        limit_price=limit,
        time_in_force=TimeInForce.IOC,
        max_spend=Decimal("51") if is_buy else quantity,
        max_spend_asset=spends,
        min_receipt=_ZERO,
        min_receipt_asset=brings,
        max_fee=Decimal(100),
        max_fee_asset=base if is_pair and is_buy else quote,
    )


def a_cancel(order: ResolvedOrder, client_order_id: str) -> ResolvedOrder:
    """The move that ends the order of that client id."""
    return replace(order, kind=MoveKind.CANCEL, cancels=client_order_id)


def a_transfer(
    venue: Venue, account: str, recipient: str, amount: str, asset: str = "USDC"
) -> ResolvedOrder:
    return replace(
        _a_move(venue, account, amount, asset), kind=MoveKind.TRANSFER, recipient=recipient
    )


def a_withdrawal(
    venue: Venue,
    account: str,
    amount: str,
    *,
    asset: str = "USDC",
    chain: str = "base",
    address: str = "0x52908400098527886E0F7030069857D2E4169EE7",
    memo: str = "",
) -> ResolvedOrder:
    return replace(
        _a_move(venue, account, amount, asset),
        kind=MoveKind.WITHDRAWAL,
        instrument=Instrument(symbol=asset, base=asset, quote="", chain=chain),
        recipient=address,
        memo=memo,
    )


def _a_move(venue: Venue, account: str, amount: str, asset: str) -> ResolvedOrder:
    quantity = Decimal(amount)
    return ResolvedOrder(
        mode=TradingMode.PAPER,
        venue=venue.name,
        account=account,
        instrument=Instrument(symbol=asset, base=asset, quote=""),
        side=Side.SELL,
        order_type=OrderType.MARKET,
        quantity=quantity,
        quantity_unit=QuantityUnit.BASE,
        limit_price=_ZERO,
        time_in_force=TimeInForce.IOC,
        max_spend=quantity + 10,
        max_spend_asset=asset,
        min_receipt=quantity,
        min_receipt_asset=asset,
        max_fee=Decimal(10),
        max_fee_asset=asset,
    )


def a_fake_place() -> Place:
    clock = FixedClock()
    market = FakeMarket(clock, PRICES)
    return Place(FakeVenue(market, clock, pairs=(PAIR,)), market, clock)


async def a_paper_place(databases: Databases) -> Place:
    """A paper venue in this process, with a database of its own."""
    clock = FixedClock()
    market = FakeMarket(clock, PRICES)
    database = await databases.open(PAPER_VERSIONS)
    venue = PaperVenue(database, market, clock, starting_balances=STARTING, secret=SECRET)
    return Place(venue, market, clock)


@contextlib.asynccontextmanager
async def a_served_place(databases: Databases) -> AsyncGenerator[Place]:
    """A paper venue behind a real socket, and its client."""
    place = await a_paper_place(databases)
    assert isinstance(place.venue, PaperVenue)
    async with serving(venue_app(place.venue, place.clock, SECRET)) as url:
        client = HttpPaperVenue(url, SECRET, place.clock)
        try:
            yield replace(place, venue=client)
        finally:
            await client.aclose()
