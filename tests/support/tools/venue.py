"""A venue in memory: one price per instrument, endless depth, a fee of 0.1 % (0.05 % for what
rested). A test may choose its answers, hold it up, or take it away."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from minara_core.actions import (
    MoveKind,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TradingMode,
)
from minara_core.clock import Clock
from minara_core.errors import Unavailable
from minara_core.ids import UserId
from minara_core.money import subtract
from minara_tools.domain.action_json import canonical_json, order_to_json
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
from support.clock import FixedClock
from support.tools.venue_books import NETWORKS, TAKER, Answer, FakeBooks
from support.tools.venue_facts import (
    arrived,
    paid_for,
    rejected,
    rules_of,
    sums,
)
from support.tools_world import STARTING, FakeMarket

VALIDITY = timedelta(seconds=5)
_ZERO = Decimal(0)
_HEX = "0123456789abcdef"


def placed(
    order: ResolvedOrder,
    client_order_id: str,
    *,
    state: PlacedState = PlacedState.FILLED,
    filled: str = "0.02",
    reason: str = "",
) -> PlacedOrder:
    """What a venue says of an order that filled at 2500."""
    quantity = Decimal(filled)
    return replace(
        arrived(order, client_order_id, None),
        state=state,
        filled_quantity=quantity,
        average_price=Decimal(2500) if quantity else _ZERO,
        spent=quantity * 2500,
        received=quantity,
        fee=Decimal("0.05") if quantity else _ZERO,
        reason=reason,
    )


class FakeVenue:
    """Implements Venue. `answer`, when set, makes what a request comes to, or raises; `gate`, when
    set, is waited for first; `is_unavailable` makes every call raise Unavailable. `sent` has the
    client id of each request that reached it, also repeated ones."""

    def __init__(
        self,
        market: FakeMarket | None = None,
        clock: Clock | None = None,
        starting: Mapping[str, Decimal] | None = None,
        *,
        name: str = "fake",
        pairs: tuple[str, ...] = (),
        answer: Answer | None = None,
    ) -> None:
        self.name = name
        self.mode = TradingMode.PAPER
        self.account_of: Callable[[UserId], str] = lambda user: f"{self.name}-{user}"
        self.sent: list[str] = []
        self.arrived = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.answer = answer
        self.is_unavailable = False
        self._clock = clock or FixedClock()
        self._market = market or FakeMarket(self._clock)
        self._books = FakeBooks(self._market, self._clock, starting or STARTING, pairs)
        self._pairs = pairs
        self._prepared: dict[str, tuple[ResolvedOrder, str]] = {}

    @property
    def orders(self) -> Mapping[str, PlacedOrder]:
        """Everything it has taken, by client id."""
        return {client_id: kept.placed for (_, client_id), kept in self._books.moves.items()}

    @property
    def capabilities(self) -> VenueCapabilities:
        return VenueCapabilities(
            client_id_alphabet=_HEX,
            client_id_length=32,
            client_id_life=ClientIdLife.FOR_EVER,
            client_id_found_for=timedelta(days=3650),
            request_validity=VALIDITY,
            has_native_protections=False,
            has_transfer_id=True,
            has_testnet=False,
            position_modes=frozenset(),
            margin_modes=frozenset(),
        )

    def take(self, order: ResolvedOrder, outcome: PlacedOrder) -> None:
        """Have this order, with this outcome and its facts, as if a request had brought it."""
        self._books.take(order, outcome)

    def forget(self, account: str, client_order_id: str) -> None:
        """Know this order no more, as a venue that lost its database."""
        del self._books.moves[account, client_order_id]

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        self._answering()
        dollars = [f"{base}/USDC" for base in sorted(self._market.prices_usd) if base != "USDC"]
        return tuple(rules_of(symbol) for symbol in (*dollars, *self._pairs))

    async def networks(self) -> tuple[AssetNetwork, ...]:
        self._answering()
        return NETWORKS

    async def account(self, user_id: UserId) -> str:
        return (await self.accounts(user_id))[0].account

    async def accounts(self, user_id: UserId) -> tuple[VenueAccount, ...]:
        self._answering()
        primary = self.account_of(user_id)
        self._books.open(primary, user_id)
        return (
            VenueAccount(account=primary, purpose="spot", is_primary=True),
            VenueAccount(account=f"{primary}-perps", purpose="perps", is_primary=False),
        )

    async def balances(self, account: str) -> tuple[Balance, ...]:
        await self._touched(account)
        held = self._books.held(account)
        return tuple(
            Balance(
                asset=asset,
                available=subtract(amount, held.get(asset, _ZERO)),
                held=held.get(asset, _ZERO),
            )
            for asset, amount in sorted(sums(self._books.facts.get(account, [])).items())
        )

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        self._answering()
        price = await self._books.price(symbol)
        paid = paid_for(symbol, side, quantity, price, TAKER)
        return VenueQuote(
            instrument=symbol,
            side=side,
            quantity=quantity,
            average_price=price,
            best_price=price,
            cost=paid.spent,
            receipt=paid.received,
            receipt_asset=symbol.split("/")[side is Side.SELL],
            fee=paid.fee,
            fee_asset=paid.fee_asset,
            price_impact=_ZERO,
            quote_time=self._clock.now(),
            source="fake",
        )

    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        self._answering()
        is_ours = (order.venue, order.mode) == (self.name, self.mode)
        if not is_ours or not client_order_id or not set(client_order_id) <= set(_HEX):
            raise ToolFailed("ORDER_UNSUPPORTED", "no request for this")
        now = self._clock.now()
        body = canonical_json(
            {"id": client_order_id, "order": order_to_json(order), "time": now.isoformat()}
        )
        self._prepared[body] = (order, client_order_id)
        return VenueRequest(
            kind=order.kind,
            account=order.account,
            client_order_id=client_order_id,
            body=body,
            signature=hashlib.sha256(body.encode()).hexdigest(),
            sign_time=now,
            not_after=now + VALIDITY,
            deadline=self._clock.monotonic() + VALIDITY.total_seconds(),
        )

    async def send(self, request: VenueRequest) -> VenueAnswer:
        if request.deadline is not None and self._clock.monotonic() > request.deadline:
            raise ToolFailed("REQUEST_EXPIRED", "too late to send")
        if request.signature != hashlib.sha256(request.body.encode()).hexdigest():
            raise ToolFailed("SIGNATURE_INVALID", "not signed")
        self._answering()
        order, client_order_id = self._prepared[request.body]
        self.sent.append(client_order_id)
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        await self._touched(order.account)
        kept = self._books.moves.get((order.account, client_order_id))
        if kept is None:
            if request.not_after is not None and self._clock.now() > request.not_after:
                raise ToolFailed("REQUEST_EXPIRED", "it came too late")
            await self._books.do(order, client_order_id, self.answer)
        elif kept.order != order:
            refused = arrived(order, client_order_id, self._clock.now())
            return VenueAnswer(order=rejected(refused, "DUPLICATE_CLIENT_ID"))
        return self._answered(order.account, client_order_id, order)

    async def cancel_order(self, account: str, client_order_id: str) -> VenueAnswer:
        await self._touched(account)
        if (account, client_order_id) not in self._books.moves:
            raise ToolFailed("ORDER_NOT_FOUND", "no such order")
        kept = self._books.cancelled(account, client_order_id)
        return self._answered(account, client_order_id, kept.order)

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        await self._touched(account)
        kept = self._books.moves.get((account, client_order_id))
        return None if kept is None else kept.placed

    async def open_orders(self, account: str) -> tuple[PlacedOrder, ...]:
        await self._touched(account)
        return tuple(k.placed for k in self._books.of(account) if k.end_time is None)

    async def closed_orders(self, account: str, since: datetime) -> tuple[PlacedOrder, ...]:
        await self._touched(account)
        return tuple(
            kept.placed
            for kept in self._books.of(account)
            if kept.order.kind is MoveKind.TRADE and kept.end_time and kept.end_time >= since
        )

    async def facts(self, account: str, since: datetime) -> tuple[VenueFact, ...]:
        await self._touched(account)
        return tuple(fact for fact in self._books.facts.get(account, []) if fact.time >= since)

    async def deposit(self, account: str, asset: str, amount: Decimal) -> None:
        """Money from outside."""
        self._books.deposit(account, asset, amount)

    def _answering(self) -> None:
        if self.is_unavailable:
            raise Unavailable("the venue does not answer")

    async def _touched(self, account: str) -> None:
        self._answering()
        await self._books.touch(account)

    def _answered(self, account: str, client_order_id: str, order: ResolvedOrder) -> VenueAnswer:
        kept = self._books.moves.get((account, client_order_id))
        if kept is None:  # an account that it does not have
            refused = arrived(order, client_order_id, self._clock.now())
            return VenueAnswer(order=rejected(refused, "ORDER_UNSUPPORTED"))
        facts = self._books.facts.get(account, [])
        told = tuple(fact for fact in facts if fact.client_order_id == client_order_id)
        return VenueAnswer(order=kept.placed, facts=told)
