"""Pending actions, their orders, previews and outcomes: core ↔ minara.agent.v1."""

from datetime import UTC, datetime
from decimal import Decimal

from google.protobuf.timestamp_pb2 import Timestamp

from minara.agent.v1 import pending_action_pb2 as action_pb
from minara.type.v1 import decimal_pb2 as decimal_pb
from minara_core import actions as core
from minara_core.errors import InvalidRequest
from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId
from minara_core.money import canonical, finite
from minara_core.reasons import ErrorReason
from minara_runtime import convert_enums as enums


def decimal_to_pb(value: Decimal) -> decimal_pb.Decimal:
    return decimal_pb.Decimal(value=canonical(value))


def decimal_from_pb(message: decimal_pb.Decimal) -> Decimal:
    """Raises InvalidRequest (AMOUNT_INVALID) for text that is no finite plain decimal."""
    text = message.value
    if not text or len(text) > 64 or not set(text) <= set("0123456789.-"):
        raise InvalidRequest("not a plain decimal", reason=ErrorReason.AMOUNT_INVALID)
    try:
        return finite(Decimal(text))
    except ArithmeticError as error:
        raise InvalidRequest("not a plain decimal", reason=ErrorReason.AMOUNT_INVALID) from error


def time_to_pb(value: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(value)
    return message


def time_from_pb(message: Timestamp) -> datetime:
    return message.ToDatetime(tzinfo=UTC)


def _order_to_pb(order: core.ResolvedOrder) -> action_pb.ResolvedOrder:
    return action_pb.ResolvedOrder(
        mode=enums.TRADING_MODE.to_pb(order.mode),
        venue=order.venue,
        account=order.account,
        instrument=action_pb.Instrument(
            symbol=order.instrument.symbol,
            base=order.instrument.base,
            quote=order.instrument.quote,
            chain=order.instrument.chain,
            address=order.instrument.address,
        ),
        side=enums.SIDE.to_pb(order.side),
        order_type=enums.ORDER_TYPE.to_pb(order.order_type),
        quantity=decimal_to_pb(order.quantity),
        quantity_unit=enums.QUANTITY_UNIT.to_pb(order.quantity_unit),
        limit_price=decimal_to_pb(order.limit_price),
        time_in_force=enums.TIME_IN_FORCE.to_pb(order.time_in_force),
        reduce_only=order.reduce_only,
        leverage=decimal_to_pb(order.leverage),
        margin_mode=enums.MARGIN_MODE.to_pb(order.margin_mode),
        max_spend=decimal_to_pb(order.max_spend),
        max_spend_asset=order.max_spend_asset,
        min_receipt=decimal_to_pb(order.min_receipt),
        min_receipt_asset=order.min_receipt_asset,
        max_fee=decimal_to_pb(order.max_fee),
        max_fee_asset=order.max_fee_asset,
        recipient=order.recipient,
        kind=enums.MOVE_KIND.to_pb(order.kind),
        memo=order.memo,
        cancels=order.cancels,
    )


def _order_from_pb(message: action_pb.ResolvedOrder) -> core.ResolvedOrder:
    return core.ResolvedOrder(
        mode=enums.TRADING_MODE.from_pb(message.mode),
        venue=message.venue,
        account=message.account,
        instrument=core.Instrument(
            symbol=message.instrument.symbol,
            base=message.instrument.base,
            quote=message.instrument.quote,
            chain=message.instrument.chain,
            address=message.instrument.address,
        ),
        side=enums.SIDE.from_pb(message.side),
        order_type=enums.ORDER_TYPE.from_pb(message.order_type),
        quantity=decimal_from_pb(message.quantity),
        quantity_unit=enums.QUANTITY_UNIT.from_pb(message.quantity_unit),
        limit_price=decimal_from_pb(message.limit_price),
        time_in_force=enums.TIME_IN_FORCE.from_pb(message.time_in_force),
        reduce_only=message.reduce_only,
        leverage=decimal_from_pb(message.leverage),
        margin_mode=enums.MARGIN_MODE.from_pb(message.margin_mode),
        max_spend=decimal_from_pb(message.max_spend),
        max_spend_asset=message.max_spend_asset,
        min_receipt=decimal_from_pb(message.min_receipt),
        min_receipt_asset=message.min_receipt_asset,
        max_fee=decimal_from_pb(message.max_fee),
        max_fee_asset=message.max_fee_asset,
        recipient=message.recipient,
        kind=enums.MOVE_KIND.from_pb(message.kind),
        memo=message.memo,
        cancels=message.cancels,
    )


def _preview_to_pb(preview: core.ActionPreview) -> action_pb.ActionPreview:
    return action_pb.ActionPreview(
        price=decimal_to_pb(preview.price),
        notional_usd=decimal_to_pb(preview.notional_usd),
        estimated_receipt=decimal_to_pb(preview.estimated_receipt),
        estimated_receipt_asset=preview.estimated_receipt_asset,
        estimated_fee=decimal_to_pb(preview.estimated_fee),
        estimated_fee_asset=preview.estimated_fee_asset,
        price_impact=decimal_to_pb(preview.price_impact),
        slippage_bound=decimal_to_pb(preview.slippage_bound),
        quote_time=time_to_pb(preview.quote_time),
        warnings=preview.warnings,
        source=preview.source,
    )


def _preview_from_pb(message: action_pb.ActionPreview) -> core.ActionPreview:
    return core.ActionPreview(
        price=decimal_from_pb(message.price),
        notional_usd=decimal_from_pb(message.notional_usd),
        estimated_receipt=decimal_from_pb(message.estimated_receipt),
        estimated_receipt_asset=message.estimated_receipt_asset,
        estimated_fee=decimal_from_pb(message.estimated_fee),
        estimated_fee_asset=message.estimated_fee_asset,
        price_impact=decimal_from_pb(message.price_impact),
        slippage_bound=decimal_from_pb(message.slippage_bound),
        quote_time=time_from_pb(message.quote_time),
        warnings=tuple(message.warnings),
        source=message.source,
    )


def outcome_to_pb(outcome: core.ActionOutcome) -> action_pb.ActionOutcome:
    return action_pb.ActionOutcome(
        state=enums.ACTION_STATE.to_pb(outcome.state),
        message=outcome.message,
        reason=outcome.reason,
        filled_quantity=decimal_to_pb(outcome.filled_quantity),
        filled_asset=outcome.filled_asset,
        average_price=decimal_to_pb(outcome.average_price),
        spent=decimal_to_pb(outcome.spent),
        spent_asset=outcome.spent_asset,
        received=decimal_to_pb(outcome.received),
        received_asset=outcome.received_asset,
        fee=decimal_to_pb(outcome.fee),
        fee_asset=outcome.fee_asset,
        client_order_id=outcome.client_order_id,
        venue_order_id=outcome.venue_order_id,
        decide_time=time_to_pb(outcome.decide_time) if outcome.decide_time else None,
        finish_time=time_to_pb(outcome.finish_time) if outcome.finish_time else None,
        replaced_by=outcome.replaced_by,
    )


def outcome_from_pb(message: action_pb.ActionOutcome) -> core.ActionOutcome:
    return core.ActionOutcome(
        state=enums.ACTION_STATE.from_pb(message.state),
        message=message.message,
        reason=message.reason,
        filled_quantity=decimal_from_pb(message.filled_quantity),
        filled_asset=message.filled_asset,
        average_price=decimal_from_pb(message.average_price),
        spent=decimal_from_pb(message.spent),
        spent_asset=message.spent_asset,
        received=decimal_from_pb(message.received),
        received_asset=message.received_asset,
        fee=decimal_from_pb(message.fee),
        fee_asset=message.fee_asset,
        client_order_id=message.client_order_id,
        venue_order_id=message.venue_order_id,
        decide_time=time_from_pb(message.decide_time) if message.HasField("decide_time") else None,
        finish_time=time_from_pb(message.finish_time) if message.HasField("finish_time") else None,
        replaced_by=message.replaced_by,
    )


def action_to_pb(action: core.PendingAction) -> action_pb.PendingAction:
    return action_pb.PendingAction(
        pending_action_id=action.pending_action_id,
        user_id=action.user_id,
        session_id=action.session_id,
        turn_id=action.turn_id,
        tool_call_id=action.tool_call_id,
        tool_name=action.tool_name,
        state=enums.ACTION_STATE.to_pb(action.state),
        order=_order_to_pb(action.order),
        preview=_preview_to_pb(action.preview),
        action_hash=action.action_hash,
        create_time=time_to_pb(action.create_time),
        expire_time=time_to_pb(action.expire_time),
        solicited=action.solicited,
        possible_duplicate=action.possible_duplicate,
        read_sources=action.read_sources,
        outcome=outcome_to_pb(action.outcome) if action.outcome else None,
    )


def action_from_pb(message: action_pb.PendingAction) -> core.PendingAction:
    return core.PendingAction(
        pending_action_id=PendingActionId(message.pending_action_id),
        user_id=UserId(message.user_id),
        session_id=SessionId(message.session_id),
        turn_id=TurnId(message.turn_id),
        tool_call_id=ToolCallId(message.tool_call_id),
        tool_name=message.tool_name,
        state=enums.ACTION_STATE.from_pb(message.state),
        order=_order_from_pb(message.order),
        preview=_preview_from_pb(message.preview),
        action_hash=message.action_hash,
        create_time=time_from_pb(message.create_time),
        expire_time=time_from_pb(message.expire_time),
        solicited=message.solicited,
        possible_duplicate=message.possible_duplicate,
        read_sources=tuple(message.read_sources),
        outcome=outcome_from_pb(message.outcome) if message.HasField("outcome") else None,
    )
