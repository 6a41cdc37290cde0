"""Orders, previews and outcomes as JSON: what is hashed, stored, and read by the model."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import rfc8785
from pydantic import BaseModel

from minara_core.actions import (
    ActionOutcome,
    ActionPreview,
    ActionState,
    Instrument,
    MarginMode,
    MoveKind,
    OrderType,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.errors import InvalidRequest
from minara_core.ids import PendingActionId
from minara_core.money import canonical
from minara_core.reasons import ErrorReason

JsonObject = dict[str, Any]


def order_to_json(order: ResolvedOrder) -> JsonObject:
    return _plain(order, skip={"instrument"}) | {"instrument": _plain(order.instrument)}


def order_from_json(stored: Mapping[str, Any]) -> ResolvedOrder:
    return ResolvedOrder(
        mode=TradingMode(stored["mode"]),
        venue=stored["venue"],
        account=stored["account"],
        instrument=Instrument(**stored["instrument"]),
        side=Side(stored["side"]),
        order_type=OrderType(stored["order_type"]),
        quantity=Decimal(stored["quantity"]),
        quantity_unit=QuantityUnit(stored["quantity_unit"]),
        limit_price=Decimal(stored["limit_price"]),
        time_in_force=TimeInForce(stored["time_in_force"]),
        reduce_only=stored["reduce_only"],
        leverage=Decimal(stored["leverage"]),
        margin_mode=MarginMode(stored["margin_mode"]),
        max_spend=Decimal(stored["max_spend"]),
        max_spend_asset=stored["max_spend_asset"],
        min_receipt=Decimal(stored["min_receipt"]),
        min_receipt_asset=stored["min_receipt_asset"],
        max_fee=Decimal(stored["max_fee"]),
        max_fee_asset=stored["max_fee_asset"],
        recipient=stored["recipient"],
        kind=MoveKind(stored["kind"]),
        memo=stored["memo"],
        cancels=stored["cancels"],
    )


def preview_to_json(preview: ActionPreview) -> JsonObject:
    return _plain(preview)


def preview_from_json(stored: Mapping[str, Any]) -> ActionPreview:
    return ActionPreview(
        price=Decimal(stored["price"]),
        notional_usd=Decimal(stored["notional_usd"]),
        estimated_receipt=Decimal(stored["estimated_receipt"]),
        estimated_receipt_asset=stored["estimated_receipt_asset"],
        estimated_fee=Decimal(stored["estimated_fee"]),
        estimated_fee_asset=stored["estimated_fee_asset"],
        price_impact=Decimal(stored["price_impact"]),
        slippage_bound=Decimal(stored["slippage_bound"]),
        quote_time=_time(stored["quote_time"]),
        warnings=tuple(stored["warnings"]),
        source=stored["source"],
    )


def outcome_to_json(outcome: ActionOutcome) -> JsonObject:
    return _plain(outcome)


def outcome_from_json(stored: Mapping[str, Any]) -> ActionOutcome:
    return ActionOutcome(
        state=ActionState(stored["state"]),
        message=stored["message"],
        reason=stored["reason"],
        filled_quantity=Decimal(stored["filled_quantity"]),
        filled_asset=stored["filled_asset"],
        average_price=Decimal(stored["average_price"]),
        spent=Decimal(stored["spent"]),
        spent_asset=stored["spent_asset"],
        received=Decimal(stored["received"]),
        received_asset=stored["received_asset"],
        fee=Decimal(stored["fee"]),
        fee_asset=stored["fee_asset"],
        client_order_id=stored["client_order_id"],
        venue_order_id=stored["venue_order_id"],
        decide_time=_time(stored["decide_time"]) if stored["decide_time"] else None,
        finish_time=_time(stored["finish_time"]) if stored["finish_time"] else None,
        replaced_by=stored["replaced_by"],
    )


def canonical_json(value: JsonObject) -> str:
    """RFC 8785 text: equal values have equal bytes. Money in it is text."""
    return rfc8785.dumps(value).decode("utf-8")


def canonical_arguments(arguments: BaseModel) -> str:
    """RFC 8785 JSON of a call's validated arguments without `intent`."""
    return canonical_json(arguments.model_dump(mode="json", exclude={"intent"}))


def read_json(text: str) -> JsonObject:
    """What `canonical_json` wrote."""
    return json.loads(text)


def action_hash(order: ResolvedOrder, preview: ActionPreview) -> str:
    """SHA-256 (hex) of the RFC 8785 JSON of order and preview; a confirmation binds it."""
    both: JsonObject = {"order": order_to_json(order), "preview": preview_to_json(preview)}
    return hashlib.sha256(rfc8785.dumps(both)).hexdigest()


def client_order_id(pending_action_id: PendingActionId) -> str:
    """32 hex digits of the operation's id, which is the action's; always the same for one id."""
    digits = pending_action_id.replace("-", "").lower()
    if len(digits) == 32 and set(digits) <= set("0123456789abcdef"):
        return digits
    return hashlib.sha256(pending_action_id.encode()).hexdigest()[:32]


def _plain(value: Any, skip: frozenset[str] | set[str] = frozenset()) -> JsonObject:
    return {
        field.name: _scalar(getattr(value, field.name))
        for field in fields(value)
        if field.name not in skip
    }


def _scalar(value: Any) -> Any:
    match value:
        case Decimal():
            return canonical(value)
        case float():
            raise InvalidRequest("money is no float", reason=ErrorReason.AMOUNT_INVALID)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case tuple():
            return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - tuples of text
        case str():
            return str(value)
        case _:
            return value


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
