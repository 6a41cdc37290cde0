"""Orders that rest at the venue, and what became of the latest moves."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.actions import PlacedOrder
from minara_core.money import canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.fund_reads import FundReads
from minara_tools.app.ports import Venue
from minara_tools.domain.operations import Operation
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetOrdersArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    recent: Annotated[
        int, Field(ge=0, le=50, description="How many of the latest moves to tell as well.")
    ] = 10


MOST_SHOWN = 60
"""The newest open orders that one answer holds; their count is told in full."""


def get_orders(venue: Venue, reads: FundReads) -> ToolEntry:
    """The tool `get_orders`."""

    async def run(arguments: GetOrdersArguments, context: ToolContext) -> object:
        resting: list[PlacedOrder] = []
        for account in await venue.accounts(context.user_id):
            resting += await venue.open_orders(account.account)
        latest = (
            await reads.operations(context.user_id, arguments.recent) if arguments.recent else ()
        )
        return {
            "mode": venue.mode.value,
            "venue": venue.name,
            "open_order_count": len(resting),
            "open_orders": [_resting(one) for one in resting[-MOST_SHOWN:]],
            "recent_moves": [_move(one) for one in latest],
        }

    return ToolEntry(
        name="get_orders",
        tool_set="read",
        description=(
            "The person's open orders at the venue and their latest moves, newest first, each with "
            "its `id`. `state` of a move: open (resting), closed with how it ended in `end`, "
            "voided (nothing happened), uncertain (nobody knows yet). Use it before cancel_order, "
            "and when they ask about orders."
        ),
        arguments=GetOrdersArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )


def _resting(placed: PlacedOrder) -> dict[str, str]:
    return {
        "id": placed.client_order_id,
        "instrument": placed.instrument,
        "side": placed.side.value,
        "quantity": canonical(placed.quantity),
        "filled_quantity": canonical(placed.filled_quantity),
        "limit_price": canonical(placed.limit_price),
        "create_time": instant(placed.create_time) if placed.create_time else "",
    }


def _move(operation: Operation) -> dict[str, str]:
    order = operation.order
    return {
        "id": operation.client_order_id,
        "kind": order.kind.value,
        "instrument": order.instrument.symbol,
        "side": order.side.value,
        "order_type": order.order_type.value,
        "quantity": canonical(order.quantity),
        "filled_quantity": canonical(operation.filled_quantity),
        "limit_price": canonical(order.limit_price),
        "state": operation.state.value,
        "end": operation.end.value,
        "time": instant(operation.create_time),
    }
