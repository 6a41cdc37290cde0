"""The fake venue's own books: who has accounts, what was ordered, and every fact."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from minara_core.actions import (
    MoveKind,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.clock import Clock
from minara_core.ids import UserId
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import AssetNetwork, VenueFact
from support.tools.venue_facts import (
    Paid,
    a_deposit,
    arrived,
    facts_of,
    paid_for,
    refusal,
    rejected,
    rules_of,
    sums,
)
from support.tools_world import FakeMarket

NETWORKS = (
    AssetNetwork(
        asset="USDC",
        chain="base",
        address_format="evm",
        needs_memo=False,
        fee=Decimal("0.1"),
        min_amount=Decimal(1),
        amount_increment=Decimal("0.000001"),
    ),
    AssetNetwork(
        asset="XRP",
        chain="xrpl",
        address_format="xrpl",
        needs_memo=True,
        fee=Decimal("0.2"),
        min_amount=Decimal(1),
        amount_increment=Decimal("0.000001"),
    ),
)
_ZERO = Decimal(0)
_ONE = Decimal(1)
TAKER, _MAKER = Decimal("0.001"), Decimal("0.0005")
_ROOM = Decimal(3)

Answer = Callable[[ResolvedOrder, str], PlacedOrder]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    order: ResolvedOrder
    placed: PlacedOrder
    held: Decimal = _ZERO
    end_time: datetime | None = None


class FakeBooks:
    """Balances are the sums of facts, less what resting orders hold."""

    def __init__(
        self,
        market: FakeMarket,
        clock: Clock,
        starting: Mapping[str, Decimal],
        pairs: tuple[str, ...],
    ) -> None:
        self._market = market
        self._clock = clock
        self._starting = dict(starting)
        self._pairs = pairs
        self._users: dict[str, UserId] = {}
        self.moves: dict[tuple[str, str], Kept] = {}
        self.facts: dict[str, list[VenueFact]] = {}

    def take(self, order: ResolvedOrder, outcome: PlacedOrder) -> None:
        """Have this order, with this outcome and its facts, as if a request had brought it."""
        key = (order.account, outcome.client_order_id)
        self.open(order.account, UserId(order.account))
        before = self.moves[key].placed if key in self.moves else None
        for fact in facts_of(order, before, outcome, self._clock.now(), self.trade_id(order)):
            self.facts.setdefault(fact.account, []).append(fact)
        is_over = outcome.state is not PlacedState.OPEN
        self.moves[key] = Kept(
            order=order, placed=outcome, end_time=self._clock.now() if is_over else None
        )

    def open(self, account: str, user_id: UserId) -> None:
        if account in self._users:
            return
        self._users |= {account: user_id, f"{account}-perps": user_id}
        for asset, amount in self._starting.items():
            self.deposit(account, asset, amount)

    def deposit(self, account: str, asset: str, amount: Decimal) -> None:
        facts = self.facts.setdefault(account, [])
        trade_id = f"{account}-deposit-{len(facts)}"
        facts.append(a_deposit(account, asset, amount, trade_id, self._clock.now()))

    def trade_id(self, order: ResolvedOrder) -> str:
        return f"{order.account}-{len(self.facts.get(order.account, []))}"

    def of(self, account: str) -> tuple[Kept, ...]:
        return tuple(kept for (owner, _), kept in self.moves.items() if owner == account)

    def held(self, account: str) -> dict[str, Decimal]:
        held: dict[str, Decimal] = {}
        for kept in self.of(account):
            asset = kept.placed.spent_asset
            held[asset] = add(held.get(asset, _ZERO), kept.held)
        return held

    def free(self, account: str, asset: str) -> Decimal:
        owned = sums(self.facts.get(account, [])).get(asset, _ZERO)
        return subtract(owned, self.held(account).get(asset, _ZERO))

    async def price(self, symbol: str) -> Decimal:
        base, quote = symbol.split("/")
        (point,) = await self._market.prices((base,))
        if not point.price.is_finite() or point.price <= 0:
            raise ToolFailed(DenialReason.PRICE_UNAVAILABLE, "no price")
        if quote == "USDC":
            return point.price
        (money,) = await self._market.prices((quote,))
        tick = rules_of(symbol).price_increment
        return quantize(divide(point.price, money.price), tick, Rounding.DOWN)

    async def touch(self, account: str) -> None:
        """Fill what the prices of this moment have crossed."""
        for kept in self.of(account):
            if kept.end_time is not None or kept.held == 0:
                continue
            order = kept.order
            try:
                price = await self.price(order.instrument.symbol)
            except ToolFailed:
                continue
            if _is_beyond(price, order):
                continue
            paid = paid_for(
                order.instrument.symbol, order.side, order.quantity, order.limit_price, _MAKER
            )
            self.take(order, _filled(kept.placed, paid, order.quantity, order.limit_price))

    async def do(self, order: ResolvedOrder, client_order_id: str, answer: Answer | None) -> None:
        if order.account not in self._users and answer is None:
            return
        new = arrived(order, client_order_id, self._clock.now())
        if answer is not None:
            self.take(order, answer(order, client_order_id))
            return
        reason = refusal(order, self._users, tuple(rules_of(pair) for pair in self._pairs))
        if reason is not None:
            self.take(order, rejected(new, reason))
        elif order.kind is MoveKind.TRADE:
            await self._trade(order, new)
        elif order.kind is MoveKind.CANCEL:
            self._cancel_move(order, new)
        else:
            self._move(order, new)

    async def _trade(self, order: ResolvedOrder, new: PlacedOrder) -> None:
        try:
            price = await self.price(order.instrument.symbol)
        except ToolFailed as error:
            self.take(order, rejected(new, error.reason))
            return
        rests = order.time_in_force is TimeInForce.GTC
        symbol, quantity = order.instrument.symbol, order.quantity
        if not rests and order.side is Side.BUY:
            quantity = min(quantity, _affordable(order, price))
        at, rate = (order.limit_price, _MAKER) if _is_beyond(price, order) else (price, TAKER)
        paid = paid_for(symbol, order.side, quantity, at, rate)
        needed = paid.spent if rests or order.side is Side.SELL else order.max_spend
        if self.free(order.account, new.spent_asset) < needed:
            self.take(order, rejected(new, DenialReason.BALANCE_INSUFFICIENT))
        elif paid.fee > order.max_fee:
            self.take(order, rejected(new, "FEE_EXCEEDS_MAX"))
        elif not _is_beyond(price, order):
            self.take(order, _filled(new, paid, quantity, price))
        elif rests:
            kept = Kept(order=order, placed=new, held=paid.spent)
            self.moves[order.account, new.client_order_id] = kept
        else:
            reason = DenialReason.SLIPPAGE_EXCEEDED
            self.take(order, replace(new, state=PlacedState.CANCELLED, reason=reason))

    def cancelled(self, account: str, client_order_id: str) -> Kept:
        kept = self.moves[account, client_order_id]
        if kept.end_time is None:
            ended = replace(kept.placed, state=PlacedState.CANCELLED, reason="CANCELLED_ON_REQUEST")
            kept = replace(kept, placed=ended, held=_ZERO, end_time=self._clock.now())
            self.moves[account, client_order_id] = kept
        return kept

    def _cancel_move(self, order: ResolvedOrder, new: PlacedOrder) -> None:
        if (order.account, order.cancels) not in self.moves:
            self.take(order, rejected(new, "ORDER_NOT_FOUND"))
            return
        ended = self.cancelled(order.account, order.cancels).placed
        self.take(order, replace(new, state=ended.state, reason=ended.reason))

    def _move(self, order: ResolvedOrder, new: PlacedOrder) -> None:
        fee = _ZERO
        if order.kind is MoveKind.WITHDRAWAL:
            fee = next(n.fee for n in NETWORKS if n.asset == order.instrument.base)
        spent = add(order.quantity, fee)
        if self.free(order.account, order.instrument.base) < spent:
            self.take(order, rejected(new, DenialReason.BALANCE_INSUFFICIENT))
            return
        amount = order.quantity
        paid = Paid(spent=spent, received=amount, fee=fee, fee_asset=order.instrument.base)
        self.take(order, _filled(new, paid, amount, _ZERO))


def _filled(new: PlacedOrder, paid: Paid, quantity: Decimal, price: Decimal) -> PlacedOrder:
    return replace(
        new,
        state=PlacedState.FILLED,
        filled_quantity=quantity,
        average_price=price,
        spent=paid.spent,
        received=paid.received,
        fee=paid.fee,
        fee_asset=paid.fee_asset,
    )


def _is_beyond(price: Decimal, order: ResolvedOrder) -> bool:
    limit = order.limit_price
    return price > limit if order.side is Side.BUY else price < limit


def _affordable(order: ResolvedOrder, price: Decimal) -> Decimal:
    rules = rules_of(order.instrument.symbol)
    is_in_base = order.max_fee_asset == rules.base
    rate = _ZERO if is_in_base else TAKER
    room = subtract(order.max_spend, multiply(_ROOM, Decimal("0.000001")))
    buys = divide(room, multiply(price, add(_ONE, rate)))
    return quantize(buys, rules.quantity_increment, Rounding.DOWN)
