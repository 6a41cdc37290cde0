"""An order that rests at the venue until its price comes, or until it is cancelled."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from minara_core.actions import ActionPreview, ResolvedOrder, Side
from minara_core.lexicon_terms import Direction
from minara_core.money import Rounding, add, canonical, divide, multiply, parse_amount, quantize
from minara_core.money import subtract as less
from minara_core.named_moves import NamedMove
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.intent import ticker_of
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.domain.venue_terms import InstrumentRules, VenueQuote
from minara_tools.toolsets.figures import usd_prices, usd_value
from minara_tools.toolsets.refusals import refused
from minara_tools.toolsets.trade.listings import listing_named
from minara_tools.toolsets.trade.orders import FEE_HEADROOM, Bounds, money_step, trade_order
from minara_tools.toolsets.trade.sizing import rounds_to_zero
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText

_ZERO = Decimal(0)
_ONE = Decimal(1)
_RATE_STEP = Decimal("0.000001")


class PlaceLimitOrderArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    side: Annotated[Literal["buy", "sell"], Field(description="What the person asked for.")]
    symbol: Annotated[
        str, Field(min_length=1, max_length=60, description="The token: its ticker, such as ETH.")
    ]
    amount: Annotated[
        AmountText,
        Field(description='How much, as plain digits in a string, such as "50" or "0.25".'),
    ]
    amount_unit: Annotated[
        Literal["quote", "base"],
        Field(
            description=(
                'What `amount` counts: "base" is the quantity of the token, "quote" is money: what '
                "a purchase may spend, fee included, or what a sale brings before the fee."
            )
        ),
    ]
    limit_price: Annotated[
        AmountText,
        Field(description="The worst price to trade at, in the quote asset, as plain digits."),
    ]
    intent: IntentText


def place_limit_order(venue: Venue, market: MarketData) -> ToolEntry:
    """The tool `place_limit_order`."""

    async def quote(arguments: PlaceLimitOrderArguments, context: ToolContext) -> Quotation:
        rules = await listing_named(venue, arguments.symbol)
        account = await venue.account(context.user_id)
        limit = _limit(rules, arguments.limit_price)
        side = Side(arguments.side)
        amount = parse_amount(arguments.amount)
        wanted = amount if arguments.amount_unit == "base" else divide(amount, limit)
        if quantize(wanted, rules.quantity_increment, Rounding.DOWN) <= 0:
            raise rounds_to_zero(rules, wanted)
        # What the market would take for it now tells the taker's fee, which is the worst one.
        now = await venue.quote(rules.symbol, side, _whole(rules, wanted))
        money = amount if arguments.amount_unit == "quote" else None
        quantity, bounds = _sized(rules, now, limit, _whole(rules, wanted), money)
        order = trade_order(venue, account, rules, now, bounds, quantity=quantity, rests=True)
        return Quotation(order=order, preview=await _preview(market, rules, now, order))

    return ToolEntry(
        name="place_limit_order",
        tool_set="trade",
        description=(
            "Prepare a limit order: it trades at `limit_price` or better, at once as far as the "
            "market allows, and the rest stays at the venue until it is filled or cancelled. "
            + ONLY_A_PREVIEW
        ),
        arguments=PlaceLimitOrderArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        quote=quote,
        untrusted_output=False,
        names=_named,
    )


def _named(arguments: PlaceLimitOrderArguments) -> NamedMove:
    return NamedMove(
        direction=Direction(arguments.side),
        asset=ticker_of(arguments.symbol),
        amount=parse_amount(arguments.amount),
        amount_unit=arguments.amount_unit,
        price=parse_amount(arguments.limit_price),
    )


def _limit(rules: InstrumentRules, text: str) -> Decimal:
    limit = parse_amount(text)
    if limit <= 0:
        step = canonical(rules.price_increment)
        raise refused(
            DenialReason.PRICE_PRECISION,
            f"{rules.symbol} takes prices in steps of {step} {rules.quote}",
            price=canonical(limit),
            increment=step,
        )
    return limit


def _whole(rules: InstrumentRules, quantity: Decimal) -> Decimal:
    return quantize(quantity, rules.quantity_increment, Rounding.DOWN)


def _sized(
    rules: InstrumentRules,
    now: VenueQuote,
    limit: Decimal,
    quantity: Decimal,
    money: Decimal | None,
) -> tuple[Decimal, Bounds]:
    """Quantity and bounds; a purchase with `money` spends no more than that, fee included."""
    bounds = _bounds(rules, now, limit, quantity)
    if now.side is Side.SELL or money is None:
        return quantity, bounds
    if bounds.max_spend > money:
        share = divide(money, bounds.max_spend)
        fitting = _whole(rules, multiply(quantity, share))
        if _bounds(rules, now, limit, fitting).max_spend > money:
            fitting = less(fitting, rules.quantity_increment)
        if fitting <= 0:
            raise rounds_to_zero(rules, multiply(quantity, share))
        quantity, bounds = fitting, _bounds(rules, now, limit, fitting)
    return quantity, bounds


def _bounds(rules: InstrumentRules, now: VenueQuote, limit: Decimal, quantity: Decimal) -> Bounds:
    """At the limit, with the taker's fee; a sale may fill better, and then pays a larger fee."""
    step = money_step(rules.quote)
    rate = _fee_rate(rules, now)
    if now.side is Side.SELL:
        turnover = quantize(multiply(quantity, limit), step, Rounding.DOWN)
        best = multiply(max(limit, multiply(now.best_price, FEE_HEADROOM)), quantity)
        fee_then = quantize(multiply(turnover, rate), step, Rounding.UP)
        return Bounds(
            limit_price=limit,
            max_spend=quantity,
            min_receipt=max(_ZERO, less(turnover, fee_then)),
            max_fee=quantize(multiply(best, rate), step, Rounding.UP),
        )
    turnover = quantize(multiply(quantity, limit), step, Rounding.UP)
    if now.fee_asset == rules.base:
        fee = quantize(multiply(quantity, rate), money_step(rules.base), Rounding.UP)
        spend, least = turnover, max(_ZERO, less(quantity, fee))
    else:
        fee = quantize(multiply(turnover, rate), step, Rounding.UP)
        spend, least = add(turnover, fee), quantity
    return Bounds(limit_price=limit, max_spend=spend, min_receipt=least, max_fee=fee)


def _fee_rate(rules: InstrumentRules, now: VenueQuote) -> Decimal:
    """The taker's, as a fraction of what it is charged on; rounded up, as the venue rounds fees."""
    charged_on = (
        now.quantity if now.fee_asset == rules.base else multiply(now.quantity, now.average_price)
    )
    return min(_ONE, quantize(divide(now.fee, charged_on), _RATE_STEP, Rounding.UP))


async def _preview(
    market: MarketData, rules: InstrumentRules, now: VenueQuote, order: ResolvedOrder
) -> ActionPreview:
    dollar = (await usd_prices(market, (rules.quote,))).get(rules.quote, _ZERO)
    price = order.limit_price
    if order.side is Side.SELL:
        price = max(price, now.best_price)
    return ActionPreview(
        price=now.best_price,
        notional_usd=usd_value(multiply(order.quantity, price), dollar, Rounding.UP),
        estimated_receipt=order.min_receipt,
        estimated_receipt_asset=order.min_receipt_asset,
        estimated_fee=order.max_fee,
        estimated_fee_asset=order.max_fee_asset,
        price_impact=_ZERO,
        slippage_bound=_ZERO,
        quote_time=now.quote_time,
        source=now.source,
    )
