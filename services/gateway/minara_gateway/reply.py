"""The JSON reply of a turn: what its events told, in one object."""

from dataclasses import dataclass, field
from typing import Any

from google.protobuf import json_format

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    MinaraError,
    NotFound,
    Unavailable,
)
from minara_core.reasons import ErrorReason, error_reason
from minara_gateway.asking import TOOL as ASK_USER
from minara_gateway.asking import Question, question_of
from minara_gateway.turns import RunningTurn


async def reply_of(turn: RunningTurn) -> dict[str, Any]:
    """The JSON reply of a turn that ran to its end. Raises the turn's own failure."""
    told = _Told()
    async for event in turn.events:
        match event.WhichOneof("event"):
            case "turn_completed":
                ids = {"turn_id": turn.turn_id, "session_id": turn.session_id}
                return told.reply(event.turn_completed) | ids
            case "turn_failed":
                raise failure_of(event.turn_failed, turn.turn_id)
            case "turn_cancelled":
                # Not for retry: somebody has stopped it.
                raise Conflict(
                    "the turn was cancelled",
                    reason=ErrorReason.CANCELLED,
                    metadata={"turn_id": turn.turn_id},
                )
            case _:
                told.take(event)
    raise Unavailable("the turn was cut off; resume it", metadata={"turn_id": turn.turn_id})


@dataclass(slots=True)
class _Told:
    """What the events of a turn have told so far."""

    text: dict[int, str] = field(default_factory=dict[int, str])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    actions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    receipts: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])
    question: Question | None = None
    verdict: dict[str, Any] | None = None

    def take(self, event: event_pb.TurnEvent) -> None:
        match event.WhichOneof("event"):
            case "turn_started":
                told = event.turn_started.notices  # again after a take-over
                self.notices += [notice for notice in told if notice not in self.notices]
            case "text_delta":
                self.text[event.sequence] = event.text_delta.text
            case "text_reset":
                since = event.text_reset.since_sequence
                self.text = {place: said for place, said in self.text.items() if place <= since}
            case "model_switched":
                switched = event.model_switched
                left, took = switched.from_model, switched.to_model
                self.notices.append(f"{left} did not answer ({switched.reason}); {took} went on")
            case "tool_call_started" if event.tool_call_started.name == ASK_USER:
                self.question = question_of(event.tool_call_started.arguments_json)
            case "goal_judged":
                self.verdict = as_json(event.goal_judged)
            case "tool_call_finished":
                self.calls.append(as_json(event.tool_call_finished.result))
            case "approval_requested":
                shown = {"rendered_preview": event.approval_requested.rendered_preview}
                self.actions.append(as_json(event.approval_requested.action) | shown)
            case "action_decided":
                self.receipts.append(event.action_decided.rendered_receipt)
            case _:
                pass

    def reply(self, completed: event_pb.TurnCompleted) -> dict[str, Any]:
        is_question = completed.finish_reason == event_pb.FINISH_REASON_QUESTION
        question = self.question if is_question else None
        previews = [str(action["rendered_preview"]) for action in self.actions]
        asked = [question.rendered] if question else []
        parts = [*self.receipts, "".join(self.text.values()), *asked, *previews]
        return {
            "reply": "\n\n".join(part for part in parts if part) or completed.rendered_end,
            "tool_calls": self.calls,
            "pending_actions": self.actions,
            "question": _as_object(question),
            "finish_reason": finish_reason_name(completed.finish_reason),
            "limit": completed.limit,
            "rendered_end": completed.rendered_end,
            "usage": as_json(completed.usage),
            "notices": self.notices,
            "pending_interjections": list(completed.pending_interjections),
            "goal_judged": self.verdict,
        }


def _as_object(question: Question | None) -> dict[str, Any] | None:
    return question and {"text": question.text, "options": list(question.options)}


def failure_of(failed: event_pb.TurnFailed, turn_id: str) -> MinaraError:
    """A failed turn as the error whose status fits its reason."""
    reason = error_reason(failed.reason)
    kinds: dict[ErrorReason, type[MinaraError]] = {
        ErrorReason.SESSION_NOT_FOUND: NotFound,
        ErrorReason.ACTION_NOT_FOUND: NotFound,
        ErrorReason.CONTEXT_TOO_LARGE: InvalidRequest,
        ErrorReason.INTERNAL: InternalError,
    }
    kind = kinds.get(reason, Unavailable)
    return kind(failed.message, reason=reason, metadata={"turn_id": turn_id})


def finish_reason_name(value: event_pb.FinishReason.ValueType) -> str:
    """`FINISH_REASON_MAX_STEPS` as `max_steps`."""
    return event_pb.FinishReason.Name(value).removeprefix("FINISH_REASON_").lower()


def as_json(message: Any) -> dict[str, Any]:
    """A proto message as plain JSON with original field names and zero values."""
    return json_format.MessageToDict(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
