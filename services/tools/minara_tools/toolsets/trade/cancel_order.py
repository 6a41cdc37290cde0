"""Cancelling one order that rests at the venue."""

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.actions import (
    ActionPreview,
    Instrument,
    MoveKind,
    OrderType,
    PlacedOrder,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.clock import Clock
from minara_core.lexicon_terms import Direction
from minara_core.money import subtract
from minara_core.named_moves import NamedMove
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import Venue
from minara_tools.domain.intent import ticker_of
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.domain.venue_terms import InstrumentRules
from minara_tools.toolsets.trade.listings import listing_named
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText

ORDER_NOT_FOUND = "ORDER_NOT_FOUND"
ORDER_AMBIGUOUS = "ORDER_AMBIGUOUS"

_ZERO = Decimal(0)
_SHORTEST_ID = 4


class CancelOrderArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    order_id: Annotated[
        str,
        Field(
            min_length=_SHORTEST_ID,
            max_length=64,
            pattern=r"^[0-9a-fA-F-]+$",
            description="The order's `id` from get_orders, or its first characters.",
        ),
    ]
    symbol: Annotated[
        str,
        Field(min_length=1, max_length=60, description="The `instrument` of that order."),
    ]
    intent: IntentText


def cancel_order(venue: Venue, clock: Clock) -> ToolEntry:
    """The tool `cancel_order`."""

    async def quote(arguments: CancelOrderArguments, context: ToolContext) -> Quotation:
        rules = await listing_named(venue, arguments.symbol)
        account = await venue.account(context.user_id)
        target = _named_order(
            await venue.open_orders(account), _reference(arguments.order_id), rules
        )
        return Quotation(
            order=_cancel(venue, account, rules, target),
            preview=ActionPreview(
                price=target.limit_price,
                notional_usd=_ZERO,
                estimated_receipt=_ZERO,
                estimated_receipt_asset=rules.base,
                estimated_fee=_ZERO,
                estimated_fee_asset=rules.quote,
                price_impact=_ZERO,
                slippage_bound=_ZERO,
                quote_time=clock.now(),
                source=venue.name,
            ),
        )

    return ToolEntry(
        name="cancel_order",
        tool_set="trade",
        description=(
            "Prepare the cancel of exactly one open order; read get_orders first for its id. What "
            "was filled stays. " + ONLY_A_PREVIEW
        ),
        arguments=CancelOrderArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        quote=quote,
        untrusted_output=False,
        names=_named,
        may_exit=True,
    )


def _reference(order_id: str) -> str:
    # Nothing is left of "----": such a reference would name every order.
    return order_id.replace("-", "").lower() or order_id


def _named(arguments: CancelOrderArguments) -> NamedMove:
    return NamedMove(
        direction=Direction.CANCEL,
        asset=ticker_of(arguments.symbol),
        amount=None,
        amount_unit=None,
        reference=_reference(arguments.order_id),
    )


def _named_order(
    resting: tuple[PlacedOrder, ...], reference: str, rules: InstrumentRules
) -> PlacedOrder:
    """Raises ToolFailed (ORDER_NOT_FOUND, ORDER_AMBIGUOUS)."""
    found = [
        one
        for one in resting
        if one.client_order_id.startswith(reference) and one.instrument == rules.symbol
    ]
    if not found:
        raise ToolFailed(
            ORDER_NOT_FOUND,
            f"no open order of {rules.symbol} has the id {reference[:32]}; get_orders lists them",
        )
    if len(found) > 1:
        ids = ", ".join(one.client_order_id for one in found[:6])
        raise ToolFailed(ORDER_AMBIGUOUS, f"{reference[:32]} begins several ids: {ids}")
    return found[0]


def _cancel(
    venue: Venue, account: str, rules: InstrumentRules, target: PlacedOrder
) -> ResolvedOrder:
    spends, brings = rules.quote, rules.base
    if target.side is Side.SELL:
        spends, brings = brings, spends
    return ResolvedOrder(
        kind=MoveKind.CANCEL,
        cancels=target.client_order_id,
        mode=venue.mode,
        venue=venue.name,
        account=account,
        instrument=Instrument(symbol=rules.symbol, base=rules.base, quote=rules.quote),
        side=target.side,
        order_type=OrderType.LIMIT,
        quantity=subtract(target.quantity, target.filled_quantity),
        quantity_unit=QuantityUnit.BASE,
        limit_price=target.limit_price,
        time_in_force=TimeInForce.GTC,
        max_spend=_ZERO,
        max_spend_asset=spends,
        min_receipt=_ZERO,
        min_receipt_asset=brings,
        max_fee=_ZERO,
        max_fee_asset=rules.quote,
    )
