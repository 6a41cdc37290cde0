"""The paper venue: spot orders matched against a simulated book, in a database of its own.

Whatever it is asked about an account, it first fills the account's resting orders at the prices of
that moment, so what it answers depends on clock and market alone. Money never appears or vanishes:
each change of a balance is a fact, and the house is the other side of it.

Trades cost 0.1 % of what is taken from the book and 0.05 % of what rests in it
(`venue_paper_book`).
"""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import sqlalchemy as sa

from minara_core.actions import MoveKind, PlacedOrder, ResolvedOrder, Side, TradingMode
from minara_core.clock import Clock, pause
from minara_core.errors import InvalidRequest
from minara_core.ids import UserId
from minara_core.money import Rounding, divide, finite, quantize, subtract
from minara_core.reasons import DenialReason
from minara_runtime.database import Database
from minara_tools.adapters import venue_paper_settle as settling
from minara_tools.adapters import venue_paper_store as store
from minara_tools.adapters.venue_paper_book import book_side, booked, take
from minara_tools.adapters.venue_paper_books import Books
from minara_tools.adapters.venue_paper_listings import asset_step, paper_listings
from minara_tools.adapters.venue_paper_networks import paper_networks
from minara_tools.adapters.venue_paper_orders import ORDER_UNSUPPORTED
from minara_tools.adapters.venue_paper_prices import ReferencePrices
from minara_tools.adapters.venue_paper_settle import References
from minara_tools.adapters.venue_paper_signing import (
    REQUEST_VALIDITY,
    build_request,
    check_deadline,
    read_move,
)
from minara_tools.app.ports import MarketData
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    Balance,
    ClientIdLife,
    InstrumentRules,
    VenueAccount,
    VenueAnswer,
    VenueCapabilities,
    VenueFact,
    VenueQuote,
    VenueRequest,
)

PAPER_VERSIONS = Path(__file__).parent / "paper_migrations" / "versions"
PAPER_NAME = "paper"
PAPER_CAPABILITIES = VenueCapabilities(
    client_id_alphabet="0123456789abcdef",
    client_id_length=32,
    client_id_life=ClientIdLife.FOR_EVER,
    client_id_found_for=timedelta(days=3650),
    request_validity=REQUEST_VALIDITY,
    has_native_protections=False,
    has_transfer_id=True,
    has_testnet=False,
    position_modes=frozenset(),
    margin_modes=frozenset(),
)

_IMPACT_STEP = Decimal("0.000001")
_SECRET_BYTES = 32
_MATCH_SECONDS = 1.0


class PaperVenue:
    """Implements Venue. `starting_balances` are what each new primary account holds, by asset.

    `secret` signs and verifies requests; without one the venue takes only those that this very
    object prepared. `clock` is the venue's own.
    """

    def __init__(
        self,
        database: Database,
        market: MarketData,
        clock: Clock,
        *,
        starting_balances: Mapping[str, Decimal],
        secret: bytes | None = None,
    ) -> None:
        if any(finite(amount) < 0 for amount in starting_balances.values()):
            raise InvalidRequest("a starting balance is not negative")
        self._database = database
        self._prices = ReferencePrices(database, market, clock)
        self._clock = clock
        self._starting = dict(starting_balances)
        self._secret = secrets.token_bytes(_SECRET_BYTES) if secret is None else secret

    async def migrate(self) -> None:
        """Bring the venue's tables up to date."""
        await self._database.migrate(PAPER_VERSIONS, owner="the paper venue")

    @property
    def name(self) -> str:
        return PAPER_NAME

    @property
    def mode(self) -> TradingMode:
        return TradingMode.PAPER

    @property
    def capabilities(self) -> VenueCapabilities:
        return PAPER_CAPABILITIES

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return tuple(listing.rules for listing in paper_listings().values())

    async def networks(self) -> tuple[AssetNetwork, ...]:
        return tuple(paper_networks().values())

    async def account(self, user_id: UserId) -> str:
        return (await self.accounts(user_id))[0].account

    async def accounts(self, user_id: UserId) -> tuple[VenueAccount, ...]:
        found = await self._database.read(lambda c: store.accounts_of(c, user_id))
        if found:
            return found
        return await self._database.transaction(lambda c: self._open(c, user_id))

    async def balances(self, account: str) -> tuple[Balance, ...]:
        await self._catch_up(account)
        return await self._database.read(lambda c: store.balances_of(c, account))

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        """As the port says; a sale is quoted at the last good price where there is no fresh one,
        and `source` says so."""
        listing = paper_listings().get(symbol)
        if listing is None or finite(quantity) <= 0:
            raise ToolFailed(ORDER_UNSUPPORTED, f"the paper venue has no such market: {symbol!r}")
        reference = (await self._prices.of((symbol,))).get(symbol)
        if reference is None or not (reference.is_fresh or side is Side.SELL):
            raise _no_price(symbol)
        levels = book_side(listing, reference.price, side)
        taken = take(listing, levels, side, quantity)
        if taken.quantity <= 0:
            raise _no_price(symbol)
        best = levels[0].price
        away = divide(abs(subtract(taken.average_price, best)), best)
        sums = booked(listing, side, taken.fills)
        old = "" if reference.is_fresh else f", last price of {reference.time:%H:%M:%SZ}"
        return VenueQuote(
            instrument=symbol,
            side=side,
            quantity=taken.quantity,
            average_price=taken.average_price,
            best_price=best,
            cost=sums.spent,
            receipt=sums.received,
            receipt_asset=listing.rules.base if side is Side.BUY else listing.rules.quote,
            fee=taken.fee,
            fee_asset=listing.fee_asset(side),
            price_impact=quantize(away, _IMPACT_STEP, Rounding.UP),
            quote_time=self._clock.now(),
            source=f"{reference.source}{old}",
        )

    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        check_request(order, client_order_id)
        return build_request(self._secret, order, client_order_id, self._clock)

    async def send(self, request: VenueRequest) -> VenueAnswer:
        check_deadline(request, self._clock)
        return await self.receive(request.body, request.signature)

    async def receive(self, body: str, signature: str) -> VenueAnswer:
        """The venue's side of `send`. A client id that it knows is answered whatever the time; what
        comes late is refused (ToolFailed REQUEST_EXPIRED) and not recorded; all other refusals of
        an account's own requests are recorded as REJECTED orders, which ends their client ids.

        Raises ToolFailed (SIGNATURE_INVALID, ORDER_UNSUPPORTED) for what it cannot record.
        """
        move = read_move(self._secret, body, signature)
        check_request(move.order, move.client_order_id)
        references = await self._references(move.order.account, move.order.instrument.symbol)
        return await self._database.transaction(
            lambda c: settling.settle(c, move, references, self._clock.now)
        )

    async def cancel_order(self, account: str, client_order_id: str) -> VenueAnswer:
        references = await self._references(account)
        return await self._database.transaction(
            lambda c: settling.settle_cancel(
                c, account, client_order_id, references, self._clock.now
            )
        )

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        await self._catch_up(account)
        found = await self._database.read(
            lambda c: store.recorded_order(c, account, client_order_id)
        )
        return None if found is None else found[1].placed

    async def open_orders(self, account: str) -> tuple[PlacedOrder, ...]:
        await self._catch_up(account)
        found = await self._database.read(lambda c: store.open_orders(c, account))
        return tuple(recorded.placed for recorded in found)

    async def closed_orders(self, account: str, since: datetime) -> tuple[PlacedOrder, ...]:
        await self._catch_up(account)
        return await self._database.read(lambda c: store.closed_orders(c, account, since))

    async def facts(self, account: str, since: datetime) -> tuple[VenueFact, ...]:
        await self._catch_up(account)
        return await self._database.read(lambda c: store.facts_since(c, account, since))

    async def every_order(self) -> tuple[tuple[str, MoveKind, PlacedOrder], ...]:
        """All that was ever asked for, with account and kind, oldest first: for tests."""
        return await self._database.read(store.all_orders)

    async def deposit(self, account: str, asset: str, amount: Decimal) -> None:
        """Money from outside, for tests and the dev server. Raises ToolFailed (ORDER_UNSUPPORTED)
        for an unknown account or an amount that is not positive whole steps of the asset."""
        step = asset_step(asset)
        is_amount = finite(amount) > 0 and quantize(amount, step, Rounding.DOWN) == amount
        if not is_amount or not await self._database.transaction(
            lambda c: settling.deposit(c, account, asset, amount, self._clock.now)
        ):
            raise ToolFailed(ORDER_UNSUPPORTED, "there is no such account or amount")

    async def advance(self) -> None:
        """Fill what the prices of this moment have crossed, in every account."""
        for account in await self._database.read(store.accounts_with_open_orders):
            await self._catch_up(account)

    async def advance_forever(self) -> None:
        """A background job: resting orders are filled within a second or two of their price."""
        while True:
            await self.advance()
            await pause(_MATCH_SECONDS)

    def _open(self, connection: sa.Connection, user_id: UserId) -> tuple[VenueAccount, ...]:
        now = self._clock.now()
        digest = hashlib.sha256(user_id.encode()).hexdigest()[:12]
        primary, perps = f"paper-{digest}", f"paper-{digest}-perps"
        if store.insert_account(connection, primary, user_id, store.PRIMARY, now):
            store.insert_account(connection, perps, user_id, store.PERPS, now)
            row = store.lock_account(connection, primary)
            assert row is not None
            books = Books(connection, row, now)
            for asset, amount in sorted(self._starting.items()):
                if amount > 0:
                    settling.book_deposit(books, asset, amount)
            books.write()
        return store.accounts_of(connection, user_id)

    async def _catch_up(self, account: str) -> None:
        resting = await self._database.read(lambda c: store.open_orders(c, account))
        if not resting:
            return
        references = await self._prices.of(one.order.instrument.symbol for one in resting)
        now = self._clock.now()
        if all(settling.due(one, references, now) <= 0 for one in resting):
            return
        await self._database.transaction(
            lambda c: settling.settle_resting(c, account, references, self._clock.now)
        )

    async def _references(self, account: str, *symbols: str) -> References:
        """What settling a request of `account` may need: prices are read outside transactions."""
        resting = await self._database.read(lambda c: store.open_orders(c, account))
        return await self._prices.of((*symbols, *(r.order.instrument.symbol for r in resting)))


def check_request(order: ResolvedOrder, client_order_id: str) -> None:
    """Raises ToolFailed (ORDER_UNSUPPORTED) for what the paper venue has no request for."""
    known = PAPER_CAPABILITIES
    is_id = 0 < len(client_order_id) <= known.client_id_length
    if not is_id or not set(client_order_id) <= set(known.client_id_alphabet):
        raise ToolFailed(ORDER_UNSUPPORTED, "a client id is up to 32 hex digits")
    if (order.venue, order.mode) != (PAPER_NAME, TradingMode.PAPER):
        raise ToolFailed(ORDER_UNSUPPORTED, f"this is no order for {PAPER_NAME}")


def _no_price(symbol: str) -> ToolFailed:
    return ToolFailed(DenialReason.PRICE_UNAVAILABLE, f"nobody trades {symbol} right now")
