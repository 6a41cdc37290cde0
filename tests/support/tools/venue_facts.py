"""What the fake venue charges, refuses and tells; pure functions over orders and facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from minara_core.actions import (
    MoveKind,
    OrderType,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.ids import UserId
from minara_core.money import Rounding, add, multiply, quantize, subtract
from minara_core.reasons import DenialReason
from minara_tools.domain.venue_terms import FactKind, InstrumentRules, VenueFact

_ZERO = Decimal(0)
_DOLLAR_STEP, _COIN_STEP = Decimal("0.000001"), Decimal("0.00000001")
_MEMO_ASSETS = frozenset({"XRP"})
_CHAINS = frozenset({("USDC", "base"), ("XRP", "xrpl")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    spent: Decimal
    received: Decimal
    fee: Decimal
    fee_asset: str


def rules_of(symbol: str) -> InstrumentRules:
    """Listings against USDC, and pairs of coins."""
    base, quote = symbol.split("/")
    is_dollar = quote == "USDC"
    return InstrumentRules(
        symbol=symbol,
        base=base,
        quote=quote,
        quantity_increment=Decimal("0.000001"),
        price_increment=Decimal("0.0001" if is_dollar else "0.0000001"),
        min_quantity=Decimal("0.000001"),
        min_notional=Decimal("0.5" if is_dollar else "0.000005"),
    )


def paid_for(symbol: str, side: Side, quantity: Decimal, price: Decimal, rate: Decimal) -> Paid:
    """A purchase of a pair of coins pays its fee in the base asset, all else in the quote asset."""
    base, quote = symbol.split("/")
    step = _DOLLAR_STEP if quote == "USDC" else _COIN_STEP
    against = Rounding.UP if side is Side.BUY else Rounding.DOWN
    turnover = quantize(multiply(quantity, price), step, against)
    if side is Side.BUY and quote != "USDC":
        fee = quantize(multiply(quantity, rate), _COIN_STEP, Rounding.UP)
        return Paid(spent=turnover, received=subtract(quantity, fee), fee=fee, fee_asset=base)
    fee = quantize(multiply(turnover, rate), step, Rounding.UP)
    if side is Side.BUY:
        return Paid(spent=add(turnover, fee), received=quantity, fee=fee, fee_asset=quote)
    return Paid(spent=quantity, received=subtract(turnover, fee), fee=fee, fee_asset=quote)


def arrived(order: ResolvedOrder, client_order_id: str, now: datetime | None) -> PlacedOrder:
    """An order of which nothing is filled."""
    spends, brings = order.instrument.quote, order.instrument.base
    if order.side is Side.SELL:
        spends, brings = brings, spends
    if order.kind in {MoveKind.TRANSFER, MoveKind.WITHDRAWAL}:
        brings = spends
    return PlacedOrder(
        client_order_id=client_order_id,
        venue_order_id=f"venue-{order.account}-{client_order_id}",
        state=PlacedState.OPEN,
        filled_quantity=_ZERO,
        average_price=_ZERO,
        spent=_ZERO,
        spent_asset=spends,
        received=_ZERO,
        received_asset=brings,
        fee=_ZERO,
        fee_asset=order.max_fee_asset,
        instrument=order.instrument.symbol,
        side=order.side,
        quantity=order.quantity,
        limit_price=order.limit_price,
        create_time=now,
    )


def rejected(new: PlacedOrder, reason: str) -> PlacedOrder:
    return replace(new, state=PlacedState.REJECTED, reason=reason)


def refusal(
    order: ResolvedOrder, users: Mapping[str, UserId], pairs: tuple[InstrumentRules, ...]
) -> str | None:
    """Why it takes no such order, whatever price and balance."""
    match order.kind:
        case MoveKind.TRADE:
            return _trade_refusal(order, pairs)
        case MoveKind.CANCEL:
            return None
        case MoveKind.TRANSFER:
            owner = users[order.account]
            is_own = order.recipient != order.account and users.get(order.recipient) == owner
            return _amount_refusal(order) or (None if is_own else "RECIPIENT_UNKNOWN")
        case MoveKind.WITHDRAWAL:
            return _amount_refusal(order) or _way_refusal(order)


def facts_of(
    order: ResolvedOrder,
    before: PlacedOrder | None,
    after: PlacedOrder,
    now: datetime,
    trade_id: str,
) -> tuple[VenueFact, ...]:
    """What `after` has booked and `before` had not."""
    had = (_ZERO, _ZERO, _ZERO) if before is None else (before.spent, before.received, before.fee)
    spent, received, fee = (
        subtract(is_now, was)
        for is_now, was in zip((after.spent, after.received, after.fee), had, strict=True)
    )
    if spent == received == fee == 0:
        return ()

    def fact(kind: FactKind, changes: Mapping[str, Decimal], **told: str) -> VenueFact:
        return VenueFact(
            kind=kind,
            account=told.get("account", order.account),
            instrument=order.instrument.symbol,
            trade_id=trade_id,
            venue_order_id=after.venue_order_id,
            client_order_id=after.client_order_id,
            changes=changes,
            time=now,
            quantity=after.filled_quantity if kind is not FactKind.FEE else _ZERO,
            price=after.average_price if kind is FactKind.FILL else _ZERO,
            counterparty=told.get("counterparty", ""),
        )

    asset, to = order.instrument.base, order.recipient
    charged = (fact(FactKind.FEE, {after.fee_asset: -fee}),) if fee else ()
    match order.kind:
        case MoveKind.TRANSFER:
            return (
                fact(FactKind.TRANSFER_OUT, {asset: -spent}, counterparty=to),
                fact(FactKind.TRANSFER_IN, {asset: spent}, account=to, counterparty=order.account),
            )
        case MoveKind.WITHDRAWAL:
            return (fact(FactKind.WITHDRAWAL, {asset: -received}, counterparty=to), *charged)
        case _:
            changes = {after.spent_asset: -spent, after.received_asset: received}
            changes[after.fee_asset] = add(changes[after.fee_asset], fee)
            return (fact(FactKind.FILL, changes), *charged)


def a_deposit(account: str, asset: str, amount: Decimal, trade_id: str, now: datetime) -> VenueFact:
    return VenueFact(
        kind=FactKind.DEPOSIT,
        account=account,
        instrument=asset,
        trade_id=trade_id,
        venue_order_id="",
        client_order_id="",
        changes={asset: amount},
        time=now,
        quantity=amount,
    )


def sums(facts: Iterable[VenueFact]) -> dict[str, Decimal]:
    """The balance of each asset that the facts make."""
    totals: dict[str, Decimal] = {}
    for fact in facts:
        for asset, change in fact.changes.items():
            totals[asset] = add(totals.get(asset, _ZERO), change)
    return totals


def _trade_refusal(order: ResolvedOrder, pairs: tuple[InstrumentRules, ...]) -> str | None:
    rules = rules_of(order.instrument.symbol)
    is_listed = rules.quote == "USDC" or rules in pairs
    pays_in_base = order.side is Side.BUY and rules.quote != "USDC"
    is_plain = (
        is_listed
        and order.max_fee_asset == (rules.base if pays_in_base else rules.quote)
        and not (order.recipient or order.cancels or order.account.endswith("-perps"))
        and (order.time_in_force is TimeInForce.IOC or order.order_type is OrderType.LIMIT)
    )
    if not is_plain:
        return "ORDER_UNSUPPORTED"
    if order.quantity <= 0:
        return DenialReason.QUANTITY_ROUNDS_TO_ZERO
    if multiply(order.quantity, order.limit_price) < rules.min_notional:
        return DenialReason.QUANTITY_BELOW_MIN
    return None


def _amount_refusal(order: ResolvedOrder) -> str | None:
    return None if order.quantity > 0 else DenialReason.QUANTITY_ROUNDS_TO_ZERO


def _way_refusal(order: ResolvedOrder) -> str | None:
    asset, chain = order.instrument.base, order.instrument.chain
    if not chain:
        return DenialReason.CHAIN_UNSPECIFIED
    if (asset, chain) not in _CHAINS:
        return DenialReason.CHAIN_MISMATCH
    if not order.recipient:
        return DenialReason.ADDRESS_INVALID
    if asset in _MEMO_ASSETS and not order.memo:
        return "MEMO_REQUIRED"
    return DenialReason.QUANTITY_BELOW_MIN if order.quantity < 1 else None
