"""A resolved order and its preview: nothing is left to choose once a person has confirmed.

A market order goes out as an immediate-or-cancel limit at the slippage bound, anchored at the
previewed average price (safety.md §3).
"""

from dataclasses import dataclass, replace
from decimal import Decimal

from minara_core.actions import (
    ActionPreview,
    Instrument,
    OrderType,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.assets import is_off_peg, is_stablecoin, usd_price
from minara_tools.domain.registry import Quotation
from minara_tools.domain.stage_slippage import EXIT_BOUND, slippage_bound
from minara_tools.domain.venue_terms import InstrumentRules, VenueQuote
from minara_tools.domain.warning_codes import WarningCode
from minara_tools.toolsets.figures import usd_value

_ZERO = Decimal(0)
_ONE = Decimal(1)
_TWO = Decimal(2)
_DOLLAR_STEP = Decimal("0.000001")
_COIN_STEP = Decimal("0.00000001")
FEE_HEADROOM = Decimal("1.1")
"""A sale at a better price pays a larger fee: up to a tenth more than previewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an order may cost and must bring at the worst price it may fill at."""

    limit_price: Decimal
    max_spend: Decimal
    min_receipt: Decimal
    max_fee: Decimal


def buy_bounds(rules: InstrumentRules, quote: VenueQuote, money: Decimal | None) -> Bounds:
    """The bounds of a purchase. With `money` that is exactly what it may spend, and a worse price
    brings less; without, the quantity is fixed and a worse price costs more. A fee in the base
    asset comes off what is bought."""
    worst = multiply(quote.average_price, add(_ONE, slippage_bound(rules.base, Side.BUY)))
    limit = quantize(worst, rules.price_increment, Rounding.DOWN)
    is_in_base = quote.fee_asset == rules.base
    step = money_step(rules.quote)
    if money is None:
        turnover = quantize(multiply(quote.quantity, limit), step, Rounding.UP)
        charged = _share(turnover, quote.fee, subtract(quote.cost, quote.fee), step, Rounding.UP)
        spend = turnover if is_in_base else add(turnover, charged)
        least = quote.quantity
    else:
        charged = _share(money, quote.fee, quote.cost, step, Rounding.UP)
        spend, least = money, _least_bought(rules, quote, limit)
    return Bounds(
        limit_price=limit,
        max_spend=spend,
        min_receipt=max(_ZERO, subtract(least, quote.fee)) if is_in_base else least,
        max_fee=quote.fee if is_in_base else charged,
    )


def sell_bounds(rules: InstrumentRules, quote: VenueQuote, bound: Decimal = EXIT_BOUND) -> Bounds:
    """The bounds of a sale: it gives the quantity, no more, and takes no price that is worse than
    the quoted one by more than `bound`, a fraction."""
    worst = multiply(quote.average_price, subtract(_ONE, bound))
    limit = quantize(worst, rules.price_increment, Rounding.UP)
    step = money_step(rules.quote)
    turnover = quantize(multiply(quote.quantity, limit), step, Rounding.DOWN)
    fee_then = _share(turnover, quote.fee, add(quote.receipt, quote.fee), step, Rounding.UP)
    return Bounds(
        limit_price=limit,
        max_spend=quote.quantity,
        min_receipt=max(_ZERO, subtract(turnover, fee_then)),
        max_fee=quantize(multiply(quote.fee, FEE_HEADROOM), step, Rounding.UP),
    )


def money_step(asset: str) -> Decimal:
    """What bounds in this asset are rounded to: no finer than a venue rounds what it charges."""
    return _DOLLAR_STEP if is_stablecoin(asset) else _COIN_STEP


def _share(
    amount: Decimal, part: Decimal, whole: Decimal, step: Decimal, rounding: Rounding
) -> Decimal:
    return quantize(divide(multiply(amount, part), whole), step, rounding)


def _least_bought(rules: InstrumentRules, quote: VenueQuote, limit: Decimal) -> Decimal:
    share = min(_ONE, divide(quote.average_price, limit))
    bought = quantize(multiply(quote.quantity, share), rules.quantity_increment, Rounding.DOWN)
    # The venue rounds cost and fee up, which can take one more step off what the money buys.
    return max(_ZERO, subtract(bought, rules.quantity_increment))


async def free_balance(venue: Venue, account: str, asset: str) -> Decimal:
    """What of `asset` no open order holds."""
    balances = {balance.asset: balance for balance in await venue.balances(account)}
    return balances[asset].available if asset in balances else _ZERO


def trade_order(
    venue: Venue,
    account: str,
    rules: InstrumentRules,
    quote: VenueQuote,
    bounds: Bounds,
    *,
    quantity: Decimal,
    rests: bool,
) -> ResolvedOrder:
    """The complete order: immediate-or-cancel at its bound, or one that `rests` at its limit."""
    spends, brings = rules.quote, rules.base
    if quote.side is Side.SELL:
        spends, brings = brings, spends
    return ResolvedOrder(
        mode=venue.mode,
        venue=venue.name,
        account=account,
        instrument=Instrument(symbol=rules.symbol, base=rules.base, quote=rules.quote),
        side=quote.side,
        order_type=OrderType.LIMIT if rests else OrderType.MARKET,
        quantity=quantity,
        quantity_unit=QuantityUnit.BASE,
        limit_price=bounds.limit_price,
        time_in_force=TimeInForce.GTC if rests else TimeInForce.IOC,
        max_spend=bounds.max_spend,
        max_spend_asset=spends,
        min_receipt=bounds.min_receipt,
        min_receipt_asset=brings,
        max_fee=bounds.max_fee,
        max_fee_asset=quote.fee_asset,
    )


async def quotation(
    venue: Venue,
    market: MarketData,
    account: str,
    rules: InstrumentRules,
    quote: VenueQuote,
    bounds: Bounds,
    *,
    is_part: bool = False,
    bound: Decimal | None = None,
) -> Quotation:
    """The complete order at the market and its preview; `is_part` when the book holds less than
    was asked for, `bound` when its bounds are not those of its side and kind."""
    order = trade_order(venue, account, rules, quote, bounds, quantity=quote.quantity, rests=False)
    usual = slippage_bound(rules.base, quote.side)
    preview = await _preview(market, rules, quote, usual if bound is None else bound)
    if is_part:
        preview = replace(preview, warnings=(*preview.warnings, WarningCode.BOOK_TOO_THIN))
    return Quotation(order=order, preview=preview)


async def _preview(
    market: MarketData, rules: InstrumentRules, quote: VenueQuote, bound: Decimal
) -> ActionPreview:
    (dollar,) = await market.prices((rules.quote,))
    traded = multiply(quote.quantity, quote.average_price)
    warnings: list[str] = []
    if is_off_peg(rules.quote, dollar.price):
        warnings.append(WarningCode.STABLECOIN_OFF_PEG.about(rules.quote))
    if multiply(_TWO, quote.price_impact) > bound:
        # Its last part is then expected near the limit price, where a small move leaves it behind.
        warnings.append(WarningCode.PART_UNFILLED)
    return ActionPreview(
        price=quote.average_price,
        notional_usd=usd_value(traded, usd_price(rules.quote, dollar.price), Rounding.UP),
        estimated_receipt=quote.receipt,
        estimated_receipt_asset=quote.receipt_asset,
        estimated_fee=quote.fee,
        estimated_fee_asset=quote.fee_asset,
        price_impact=quote.price_impact,
        slippage_bound=bound,
        quote_time=quote.quote_time,
        warnings=tuple(warnings),
        source=quote.source,
    )
