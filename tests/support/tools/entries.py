"""Tools for tests: one of each kind, over a scripted venue."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from minara_core.actions import ActionPreview, Side
from minara_core.lexicon_terms import Direction
from minara_core.taxonomy import PermissionTier
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from support.actions import NOW, an_order
from support.tools.venue import FakeVenue

Handler = Callable[[BaseModel, ToolContext], Awaitable[object]]


class NoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoteArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = ""


class MoveOfEth(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: str
    amount: AmountText | None = None
    amount_unit: Literal["quote", "base", "all"] = "quote"
    intent: str = "as asked"


def a_tool(
    name: str = "get_price",
    *,
    tool_set: str = "read",
    tier: PermissionTier = PermissionTier.READ_ONLY,
    handler: Handler | None = None,
    untrusted: bool = True,
    timeout_seconds: float = 5.0,
    needs: str | None = None,
    arguments: type[BaseModel] = NoteArguments,
) -> ToolEntry:
    """A tool that moves no money; without a handler it answers with its own name."""

    async def answer(arguments: BaseModel, context: ToolContext) -> object:
        return {"tool": name}

    return ToolEntry(
        name=name,
        tool_set=tool_set,
        description=f"Test tool {name}.",
        arguments=arguments,
        permission_tier=tier,
        handler=handler or answer,
        untrusted_output=untrusted,
        timeout_seconds=timeout_seconds,
        check=lambda: needs,
    )


def a_move_tool(
    venue: FakeVenue,
    name: str = "buy_token",
    *,
    side: Side = Side.BUY,
    tier: PermissionTier = PermissionTier.CONFIRM_ONCE,
    direction: Direction | None = Direction.BUY,
    quote_error: Exception | None = None,
) -> ToolEntry:
    """Buys or sells ETH at 2500; quotes whatever symbol it is asked for as ETH/USDC."""

    async def quote(arguments: MoveOfEth, context: ToolContext) -> Quotation:
        if quote_error is not None:
            raise quote_error
        amount = Decimal(arguments.amount or "50")
        order = replace(
            an_order(side),
            account=await venue.account(context.user_id),
            max_spend=amount * Decimal("1.02") if side is Side.BUY else amount / 2500,
            max_spend_asset="USDC" if side is Side.BUY else "ETH",
            min_receipt=amount / 2500 if side is Side.BUY else amount * Decimal("0.98"),
            min_receipt_asset="ETH" if side is Side.BUY else "USDC",
            max_fee=amount * Decimal("0.002"),
            quantity=amount / 2500,
            limit_price=Decimal(2525) if side is Side.BUY else Decimal(2475),
        )
        return Quotation(order=order, preview=a_preview(amount))

    return ToolEntry(
        name=name,
        tool_set="trade",
        description="Test move.",
        arguments=MoveOfEth,
        permission_tier=tier,
        quote=quote,
        untrusted_output=False,
        direction=direction,
        may_exit=side is Side.SELL,
    )


def a_preview(amount: Decimal = Decimal(50)) -> ActionPreview:
    return ActionPreview(
        price=Decimal(2500),
        notional_usd=amount,
        estimated_receipt=amount / 2500,
        estimated_receipt_asset="ETH",
        estimated_fee=Decimal("0.05"),
        estimated_fee_asset="USDC",
        price_impact=Decimal("0.0001"),
        slippage_bound=Decimal("0.01"),
        quote_time=NOW,
        source="test",
    )


class Rendezvous:
    """A handler that counts who is inside, and lets them out together."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._full = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def __call__(self, arguments: BaseModel, context: ToolContext) -> object:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside >= self._expected:
            self._full.set()
        await self._full.wait()
        self.inside -= 1
        return {"met": True}
