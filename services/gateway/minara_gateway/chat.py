"""`/v1/chat`: a message in, a reply or a stream of events out."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from google.protobuf import json_format

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.errors import InternalError, InvalidRequest, MinaraError, NotFound, Unavailable
from minara_core.ids import IdSource, turn_id_for
from minara_core.reasons import ErrorReason, error_reason
from minara_core.taxonomy import Origin, Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import ChatBody, PromptBody
from minara_gateway.outgoing import Outgoing
from minara_gateway.sse import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    OPENING,
    frame,
    last_event_id,
    resume_hint,
)
from minara_gateway.store import Caller
from minara_gateway.turns import Ask, RunningTurn, Turns

router = APIRouter(prefix="/v1/chat")

_DOUBLE_TEXTING = {
    "enqueue": agent_pb.DOUBLE_TEXTING_ENQUEUE,
    "reject": agent_pb.DOUBLE_TEXTING_REJECT,
    "interrupt": agent_pb.DOUBLE_TEXTING_INTERRUPT,
    "interject": agent_pb.DOUBLE_TEXTING_INTERJECT,
}.get
_ON_DISCONNECT = {
    "continue": agent_pb.ON_DISCONNECT_CONTINUE,
    "cancel": agent_pb.ON_DISCONNECT_CANCEL,
}.get
_KEY_LIMIT = 255

Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]
Key = Annotated[str, Header(alias="Idempotency-Key", max_length=_KEY_LIMIT)]


@router.post("")
async def chat(request: Request, body: ChatBody, caller: Chatter, key: Key = "") -> dict[str, Any]:
    """Run a turn to its end and answer with its reply."""
    turn = await _start(request, body, caller, key)
    return await reply_of(turn)


@router.post("/stream")
async def stream(
    request: Request, body: ChatBody, caller: Chatter, key: Key = ""
) -> StreamingResponse:
    """Run a turn and stream its events; refusals before the first event are problem documents."""
    return await _streaming(request, await _start(request, body, caller, key))


@router.get("/stream/resume")
async def resume(
    request: Request,
    caller: Chatter,
    turn_id: str = "",
    session_id: str = "",
    after: Annotated[int, Query(le=2**31 - 1)] = 0,
    last_event: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> StreamingResponse:
    """Watch a turn from where the client stopped; without turn_id the session's live turn."""
    if not turn_id and not session_id:
        raise InvalidRequest(
            "name a turn_id or a session_id",
            reason=ErrorReason.FIELD_REQUIRED,
            metadata={"field": "turn_id"},
        )
    turns: Turns = request.app.state.turns
    turn = turns.attach(
        caller,
        turn_id=turn_id,
        session_id=session_id,
        after=last_event_id(last_event, max(0, after)),
        language="en",
    )
    return await _streaming(request, turn)


@router.post("/prompt")
async def prompt(request: Request, body: PromptBody, caller: Chatter) -> dict[str, Any]:
    """The prompt this message would produce, block by block; changes nothing but a new session."""
    ids: IdSource = request.app.state.ids
    ask = Ask(
        message=body.message,
        session_id=body.session_id,
        turn_id=ids.new(),
        new_session_id=ids.new(),
        origin=Origin.HTTP,
    )
    turns: Turns = request.app.state.turns
    return as_json(await turns.render_prompt(caller, ask))


async def _start(request: Request, body: ChatBody, caller: Caller, key: str) -> RunningTurn:
    turns: Turns = request.app.state.turns
    ids: IdSource = request.app.state.ids
    return await turns.start(
        caller,
        Ask(
            message=body.message,
            session_id=body.session_id,
            turn_id=turn_id_for(caller.user_id, key) if key else ids.new(),
            new_session_id=turn_id_for(caller.user_id, f"session:{key}") if key else ids.new(),
            origin=Origin.REPL if body.surface == "repl" and caller.is_interactive else Origin.HTTP,
            idempotency_key=key,
            body_hash=hashlib.sha256(body.model_dump_json().encode()).hexdigest() if key else "",
            shown_action_id=body.shown_action_id,
            file_keys=body.file_keys,
            double_texting=_DOUBLE_TEXTING(body.double_texting)
            or agent_pb.DOUBLE_TEXTING_UNSPECIFIED,
            on_disconnect=_ON_DISCONNECT(body.on_disconnect) or agent_pb.ON_DISCONNECT_UNSPECIFIED,
        ),
    )


async def _streaming(request: Request, turn: RunningTurn) -> StreamingResponse:
    """A response whose status is known: the first event is there before the 200 is sent."""
    leaving: asyncio.Event = request.app.state.leaving
    events = turn.events
    try:
        first = await anext(events)
    except StopAsyncIteration:
        return StreamingResponse(iter([OPENING]), media_type="text/event-stream")
    frames = _frames(first, events, leaving, turn)
    return StreamingResponse(frames, media_type="text/event-stream")


async def _frames(
    first: event_pb.TurnEvent,
    events: AsyncIterator[event_pb.TurnEvent],
    leaving: asyncio.Event,
    turn: RunningTurn,
) -> AsyncIterator[bytes]:
    """Frames of a turn to its end, or to a hint where to resume it when this gateway leaves."""
    outgoing = Outgoing(first.sequence)
    async with aclosing(cast("Any", events)):
        filling = asyncio.create_task(outgoing.fill(events))
        left = asyncio.create_task(leaving.wait())
        filling.add_done_callback(outgoing.stir)
        left.add_done_callback(outgoing.stir)
        try:
            yield OPENING + frame(first)
            while True:
                is_over = filling.done()
                is_last = is_over or left.done()
                if not is_last:
                    await outgoing.wait(HEARTBEAT_SECONDS)
                ready = outgoing.take()
                if ready:
                    yield ready
                elif is_last:
                    break
                elif not (filling.done() or left.done()):
                    yield HEARTBEAT
            # A stream that ends without a terminal event was cut: the client resumes.
            if not is_over or _was_cut(filling):
                yield resume_hint(turn.turn_id, turn.session_id, outgoing.taken)
        finally:
            outgoing.close()
            filling.cancel()
            left.cancel()
            await asyncio.wait([filling, left])


def _was_cut(filling: asyncio.Task[None]) -> bool:
    """Whether a turn's events ended in an error of ours. Raises any other."""
    error = filling.exception()
    if error is not None and not isinstance(error, MinaraError):
        raise error
    return error is not None


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
                raise Unavailable("the turn was cancelled", reason=ErrorReason.CANCELLED)
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

    def take(self, event: event_pb.TurnEvent) -> None:
        match event.WhichOneof("event"):
            case "turn_started":
                self.notices += event.turn_started.notices
            case "text_delta":
                self.text[event.sequence] = event.text_delta.text
            case "text_reset":
                since = event.text_reset.since_sequence
                self.text = {place: said for place, said in self.text.items() if place <= since}
            case "model_switched":
                switched = event.model_switched
                left, took = switched.from_model, switched.to_model
                self.notices.append(f"{left} did not answer ({switched.reason}); {took} went on")
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
        previews = [str(action["rendered_preview"]) for action in self.actions]
        parts = [*self.receipts, "".join(self.text.values()), *previews]
        return {
            "reply": "\n\n".join(part for part in parts if part) or completed.rendered_end,
            "tool_calls": self.calls,
            "pending_actions": self.actions,
            "finish_reason": finish_reason_name(completed.finish_reason),
            "limit": completed.limit,
            "rendered_end": completed.rendered_end,
            "usage": as_json(completed.usage),
            "notices": self.notices,
        }


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
