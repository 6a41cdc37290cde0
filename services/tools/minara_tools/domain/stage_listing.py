"""What a venue's listing lets an order be: increments, minima and maxima, and a sane price."""

from decimal import Decimal

from minara_core.actions import MoveKind, OrderType, QuantityUnit, ResolvedOrder, Side
from minara_core.money import (
    Rounding,
    canonical,
    divide,
    multiply,
    quantize,
    subtract,
)
from minara_core.reasons import DenialReason
from minara_tools.domain.exits import is_exit
from minara_tools.domain.funds import StageInput
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.venue_terms import AssetNetwork, InstrumentRules
from minara_tools.domain.warning_codes import WarningCode

GATE = "exposure"
FARTHEST_PRICE = Decimal("0.5")
"""A limit worse than the market by more than this is a slip of the finger, and denied."""
NOTICED_PRICE = Decimal("0.05")

_ONE = Decimal(1)


def check_listing(given: StageInput) -> tuple[str, ...]:
    """The warnings of an order that the venue takes as it is. Raises ToolCallBlockedError
    (MARKET_CLOSED, QUANTITY_ROUNDS_TO_ZERO, QUANTITY_PRECISION, QUANTITY_BELOW_MIN,
    QUANTITY_ABOVE_MAX, PRICE_PRECISION, PRICE_OUT_OF_RANGE, PRICE_UNAVAILABLE)."""
    order = given.order
    match order.kind:
        case MoveKind.CANCEL:
            return ()
        case MoveKind.TRANSFER:
            _check_positive(order.quantity, Decimal(0))
            return ()
        case MoveKind.WITHDRAWAL:
            _check_network(given)
            return ()
        case MoveKind.TRADE:
            rules = given.funds.listings.get(order.instrument.symbol)
            if rules is None:
                raise ToolCallBlockedError(
                    DenialReason.MARKET_CLOSED,
                    gate=GATE,
                    message=f"{order.venue} does not trade {order.instrument.symbol}",
                    metadata={"instrument": order.instrument.symbol, "venue": order.venue},
                )
            _check_quantity(order, rules)
            return _check_price(given, rules)


def market_price(given: StageInput) -> Decimal | None:
    """The base's price in the quote asset now: by the fresh quote, else by the market, else as a
    market order's preview had it. None when nobody knows."""
    if given.fresh is not None:
        return given.fresh.best_price
    instrument = given.order.instrument
    base, quote = (given.funds.assets.get(a) for a in (instrument.base, instrument.quote))
    if base and quote and base.usd_price and quote.usd_price:
        return divide(base.usd_price, quote.usd_price)
    is_market = given.order.order_type is OrderType.MARKET
    return given.preview.price if is_market and given.preview.price > 0 else None


def _check_quantity(order: ResolvedOrder, rules: InstrumentRules) -> None:
    increment = rules.quantity_increment
    _check_positive(order.quantity, increment)
    if order.quantity_unit is not QuantityUnit.BASE:
        raise _precision(order.quantity, increment, f"a quantity of {rules.base} is needed")
    if quantize(order.quantity, increment, Rounding.DOWN) != order.quantity:
        raise _precision(order.quantity, increment, f"{rules.symbol} takes whole steps only")
    if order.quantity < rules.min_quantity:
        raise _below(order.quantity, rules.min_quantity, rules.base)
    if rules.max_quantity is not None and order.quantity > rules.max_quantity:
        raise _above(order.quantity, rules.max_quantity, rules.base)


def _check_price(given: StageInput, rules: InstrumentRules) -> tuple[str, ...]:
    order = given.order
    if order.limit_price <= 0 or not _is_multiple(order.limit_price, rules.price_increment):
        raise ToolCallBlockedError(
            DenialReason.PRICE_PRECISION,
            gate=GATE,
            message=(
                f"{rules.symbol} takes prices in steps of {canonical(rules.price_increment)} "
                f"{rules.quote}"
            ),
            metadata={
                "price": canonical(order.limit_price),
                "increment": canonical(rules.price_increment),
            },
        )
    market = market_price(given)
    _check_notional(order, rules, market)
    if market is None:
        if is_exit(order):
            return (WarningCode.PRICE_UNKNOWN,)
        raise ToolCallBlockedError(
            DenialReason.PRICE_UNAVAILABLE,
            gate=GATE,
            message=f"there is no usable price of {rules.symbol}",
            metadata={"instrument": rules.symbol},
        )
    return _distance_warnings(order, market)


def _check_notional(order: ResolvedOrder, rules: InstrumentRules, market: Decimal | None) -> None:
    """An order at the market is worth the market's price, one that rests its own."""
    price = order.limit_price
    if order.order_type is OrderType.MARKET and market is not None:
        price = market
    value = multiply(order.quantity, price)
    if value < rules.min_notional:
        raise _below(value, rules.min_notional, rules.quote)
    if rules.max_notional is not None and value > rules.max_notional:
        raise _above(value, rules.max_notional, rules.quote)


def _distance_warnings(order: ResolvedOrder, market: Decimal) -> tuple[str, ...]:
    """`worse` is how much worse than the market, as a fraction, the order may fill."""
    change = divide(subtract(order.limit_price, market), market)
    worse = change if order.side is Side.BUY else subtract(Decimal(0), change)
    if worse > FARTHEST_PRICE:
        raise ToolCallBlockedError(
            DenialReason.PRICE_OUT_OF_RANGE,
            gate=GATE,
            message=(
                f"a limit of {canonical(order.limit_price)} is more than "
                f"{canonical(multiply(FARTHEST_PRICE, Decimal(100)))} % worse than the market, "
                f"{canonical(_shown(market))}"
            ),
            metadata={
                "price": canonical(order.limit_price),
                "market": canonical(_shown(market)),
                "limit": canonical(FARTHEST_PRICE),
            },
        )
    if order.order_type is OrderType.MARKET:
        return ()
    if worse > NOTICED_PRICE:
        return (WarningCode.LIMIT_WORSE_THAN_MARKET,)
    return (WarningCode.LIMIT_FAR_FROM_MARKET,) if worse < -FARTHEST_PRICE else ()


def _check_network(given: StageInput) -> None:
    order = given.order
    network = network_of(given)
    increment = Decimal(0) if network is None else network.amount_increment
    _check_positive(order.quantity, increment)
    if network is None:
        return
    if not _is_multiple(order.quantity, increment):
        raise _precision(order.quantity, increment, f"{network.chain} takes whole steps only")
    if order.quantity < network.min_amount:
        raise _below(order.quantity, network.min_amount, network.asset)


def network_of(given: StageInput) -> AssetNetwork | None:
    """The chain by which a withdrawal leaves, if the venue has it for this asset."""
    instrument = given.order.instrument
    for network in given.funds.networks:
        if (network.asset, network.chain) == (instrument.base, instrument.chain):
            return network
    return None


def _check_positive(quantity: Decimal, increment: Decimal) -> None:
    is_nothing = quantity <= 0
    if increment > 0 and not is_nothing:
        is_nothing = quantize(quantity, increment, Rounding.DOWN) <= 0
    if is_nothing:
        raise ToolCallBlockedError(
            DenialReason.QUANTITY_ROUNDS_TO_ZERO,
            gate=GATE,
            message="this is less than the smallest amount that can be moved",
            metadata={"quantity": canonical(quantity), "increment": canonical(increment)},
        )


def _is_multiple(value: Decimal, increment: Decimal) -> bool:
    return quantize(value, increment, Rounding.DOWN) == value


def _shown(price: Decimal) -> Decimal:
    digits = price.adjusted()
    return quantize(price, _ONE.scaleb(digits - 5), Rounding.DOWN)


def _precision(quantity: Decimal, increment: Decimal, message: str) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.QUANTITY_PRECISION,
        gate=GATE,
        message=message,
        metadata={"quantity": canonical(quantity), "increment": canonical(increment)},
    )


def _below(value: Decimal, minimum: Decimal, asset: str) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.QUANTITY_BELOW_MIN,
        gate=GATE,
        message=f"{canonical(minimum)} {asset} is the least that can be moved here",
        metadata={"value": canonical(value), "minimum": canonical(minimum), "asset": asset},
    )


def _above(value: Decimal, maximum: Decimal, asset: str) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.QUANTITY_ABOVE_MAX,
        gate=GATE,
        message=f"{canonical(maximum)} {asset} is the most that one order may have here",
        metadata={"value": canonical(value), "maximum": canonical(maximum), "asset": asset},
    )
