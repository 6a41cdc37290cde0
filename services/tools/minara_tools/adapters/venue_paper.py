"""The paper venue: spot orders matched against a simulated book, in a database of its own.

Every order is immediate-or-cancel and is over within one transaction, which also makes its client
id taken for ever. Money never appears or vanishes: the house is the other side of each posting.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import sqlalchemy as sa

from minara_core.actions import PlacedOrder, ResolvedOrder, Side, TradingMode
from minara_core.clock import Clock
from minara_core.errors import InvalidRequest
from minara_core.ids import UserId
from minara_core.money import Rounding, add, divide, finite, quantize, subtract
from minara_core.reasons import DenialReason
from minara_runtime.database import Database
from minara_tools.adapters import venue_paper_store as store
from minara_tools.adapters.venue_paper_book import book_side, take
from minara_tools.adapters.venue_paper_listings import Listing, paper_listings
from minara_tools.adapters.venue_paper_orders import (
    DUPLICATE_CLIENT_ID,
    ORDER_UNSUPPORTED,
    fill,
    hold_of,
    refusal,
    rejected,
)
from minara_tools.app.ports import (
    Balance,
    InstrumentRules,
    MarketData,
    PricePoint,
    VenueQuote,
)
from minara_tools.domain.action_json import canonical_json, order_to_json
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.toolsets.figures import usd_price

PAPER_VERSIONS = Path(__file__).parent / "paper_migrations" / "versions"

_OLDEST_PRICE = timedelta(seconds=60)
_CLOCK_LEEWAY = timedelta(seconds=5)
_IMPACT_STEP = Decimal("0.000001")
_LONGEST_CLIENT_ID = 64


class PaperVenue:
    """Implements Venue. `starting_balances` are what each new account holds, by asset."""

    def __init__(
        self,
        database: Database,
        market: MarketData,
        clock: Clock,
        *,
        starting_balances: Mapping[str, Decimal],
    ) -> None:
        if any(finite(amount) < 0 for amount in starting_balances.values()):
            raise InvalidRequest("a starting balance is not negative")
        self._database = database
        self._market = market
        self._clock = clock
        self._starting = dict(starting_balances)

    async def migrate(self) -> None:
        """Bring the venue's tables up to date."""
        await self._database.migrate(PAPER_VERSIONS)

    @property
    def name(self) -> str:
        return "paper"

    @property
    def mode(self) -> TradingMode:
        return TradingMode.PAPER

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return tuple(listing.rules for listing in paper_listings().values())

    async def account(self, user_id: UserId) -> str:
        found = await self._database.read(lambda c: store.account_of(c, user_id))
        if found is not None:
            return found
        account = f"paper-{hashlib.sha256(user_id.encode()).hexdigest()[:12]}"
        now = self._clock.now()
        await self._database.transaction(
            lambda c: store.open_account(c, account, user_id, self._starting, now)
        )
        return account

    async def balances(self, account: str) -> tuple[Balance, ...]:
        return await self._database.read(lambda c: store.balances_of(c, account))

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        listing = paper_listings().get(symbol)
        if listing is None or finite(quantity) <= 0:
            raise ToolFailed(ORDER_UNSUPPORTED, f"the paper venue has no such market: {symbol!r}")
        reference, source = await self._reference(listing)
        levels = book_side(listing, reference, side)
        taken = take(listing, levels, side, quantity)
        if taken.quantity <= 0:
            raise ToolFailed(DenialReason.PRICE_UNAVAILABLE, f"nobody trades {symbol} right now")
        best = levels[0].price
        away = divide(abs(subtract(taken.average_price, best)), best)
        is_buy = side is Side.BUY
        brought = taken.quantity if is_buy else subtract(taken.turnover, taken.fee)
        return VenueQuote(
            instrument=symbol,
            side=side,
            quantity=taken.quantity,
            average_price=taken.average_price,
            best_price=best,
            cost=add(taken.turnover, taken.fee) if is_buy else taken.quantity,
            receipt=brought,
            receipt_asset=listing.rules.base if is_buy else listing.rules.quote,
            fee=taken.fee,
            fee_asset=listing.rules.quote,
            price_impact=quantize(away, _IMPACT_STEP, Rounding.UP),
            quote_time=self._clock.now(),
            source=source,
        )

    async def place(self, order: ResolvedOrder, client_order_id: str) -> PlacedOrder:
        """As the port says. Raises ToolFailed (PRICE_UNAVAILABLE) before anything is recorded;
        all other refusals are REJECTED orders with a reason."""
        text = canonical_json(order_to_json(order))
        known = await self._database.read(
            lambda c: store.recorded_order(c, order.account, client_order_id)
        )
        if known is not None:
            return _same_or_duplicate(known, text, order, client_order_id)
        listing = paper_listings().get(order.instrument.symbol)
        if (order.venue, order.mode) != (self.name, self.mode) or not (
            0 < len(client_order_id) <= _LONGEST_CLIENT_ID
        ):
            return rejected(order, client_order_id, ORDER_UNSUPPORTED)
        reason = refusal(order, listing)
        if listing is None or reason is not None:
            return rejected(order, client_order_id, reason or ORDER_UNSUPPORTED)
        reference, _ = await self._reference(listing)
        now = self._clock.now()
        return await self._database.transaction(
            lambda c: _settle(c, order, client_order_id, text, listing, reference, now)
        )

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        found = await self._database.read(
            lambda c: store.recorded_order(c, account, client_order_id)
        )
        return None if found is None else found[1]

    async def _reference(self, listing: Listing) -> tuple[Decimal, str]:
        """The base's price in the quote asset, and who says so."""
        rules = listing.rules
        base, quote = await self._market.prices((rules.base, rules.quote))
        now = self._clock.now()
        for point in (base, quote):
            _check_price(point, now)
        return divide(base.price, usd_price(rules.quote, quote.price)), base.source


def _settle(
    connection: sa.Connection,
    order: ResolvedOrder,
    client_order_id: str,
    text: str,
    listing: Listing,
    reference: Decimal,
    now: datetime,
) -> PlacedOrder:
    if not store.lock_account(connection, order.account):
        return rejected(order, client_order_id, ORDER_UNSUPPORTED)
    known = store.recorded_order(connection, order.account, client_order_id)
    if known is not None:
        return _same_or_duplicate(known, text, order, client_order_id)
    asset, needed = hold_of(order)
    if store.available(connection, order.account, asset) < needed:
        placed = rejected(order, client_order_id, DenialReason.BALANCE_INSUFFICIENT)
    else:
        changes = fill(order, client_order_id, listing, book_side(listing, reference, order.side))
        instrument = order.instrument
        moved = {instrument.base: changes.base, instrument.quote: changes.quote}
        store.post(connection, order.account, moved)
        placed = changes.placed
    store.record_order(connection, order.account, text, placed, now)
    return placed


def _same_or_duplicate(
    known: tuple[str, PlacedOrder], text: str, order: ResolvedOrder, client_order_id: str
) -> PlacedOrder:
    recorded, placed = known
    return placed if recorded == text else rejected(order, client_order_id, DUPLICATE_CLIENT_ID)


def _check_price(point: PricePoint, now: datetime) -> None:
    price = point.price
    is_number = isinstance(price, Decimal) and price.is_finite()  # pyright: ignore[reportUnnecessaryIsInstance] - a broken source may hand over a float
    if not is_number or price <= 0:
        raise ToolFailed(
            DenialReason.PRICE_UNAVAILABLE, f"the price of {point.symbol} is no number"
        )
    if not now - _OLDEST_PRICE <= point.as_of <= now + _CLOCK_LEEWAY:
        raise ToolFailed(DenialReason.PRICE_UNAVAILABLE, f"the price of {point.symbol} is stale")
