"""Builders of pending actions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from minara_core.actions import (
    ActionOutcome,
    ActionPreview,
    ActionState,
    Instrument,
    OrderType,
    PendingAction,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def an_order(side: Side = Side.BUY) -> ResolvedOrder:
    """Buy 0.02 ETH for at most 50 USDC."""
    return ResolvedOrder(
        mode=TradingMode.PAPER,
        venue="paper",
        account="paper-1",
        instrument=Instrument(symbol="ETH/USDC", base="ETH", quote="USDC"),
        side=side,
        order_type=OrderType.MARKET,
        quantity=Decimal("0.02"),
        quantity_unit=QuantityUnit.BASE,
        limit_price=Decimal(2525),
        time_in_force=TimeInForce.IOC,
        max_spend=Decimal(50),
        max_spend_asset="USDC",
        min_receipt=Decimal("0.0198"),
        min_receipt_asset="ETH",
        max_fee=Decimal("0.05"),
        max_fee_asset="USDC",
    )


def an_action(
    action_id: str = "action-1",
    *,
    state: ActionState = ActionState.PENDING,
    side: Side = Side.BUY,
    solicited: bool = True,
) -> PendingAction:
    """A pending purchase; with another state, its outcome too."""
    action = PendingAction(
        pending_action_id=PendingActionId(action_id),
        user_id=UserId("local"),
        session_id=SessionId("session-1"),
        turn_id=TurnId("turn-1"),
        tool_call_id=ToolCallId("1.0"),
        tool_name="buy_token" if side is Side.BUY else "sell_token",
        state=state,
        order=an_order(side),
        preview=ActionPreview(
            price=Decimal(2500),
            notional_usd=Decimal(50),
            estimated_receipt=Decimal("0.02"),
            estimated_receipt_asset="ETH",
            estimated_fee=Decimal("0.05"),
            estimated_fee_asset="USDC",
            price_impact=Decimal("0.0001"),
            slippage_bound=Decimal("0.01"),
            quote_time=NOW,
            source="simulated",
        ),
        action_hash="ab" * 32,
        create_time=NOW,
        expire_time=NOW + timedelta(minutes=10),
        solicited=solicited,
    )
    if state is ActionState.PENDING:
        return action
    return replace(action, outcome=ActionOutcome(state=state, message="as recorded"))
