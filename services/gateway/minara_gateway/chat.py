"""`/v1/chat`: a message in, a reply or a stream of events out; and steering what runs."""

import hashlib
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.errors import InvalidRequest
from minara_core.ids import IdSource, turn_id_for
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import Body, ChatBody, InterjectBody, InterruptBody, PromptBody
from minara_gateway.reply import as_json
from minara_gateway.sse import last_event_id
from minara_gateway.steering import Interjection, Steering
from minara_gateway.store import Caller
from minara_gateway.streaming import reply_unless_left, stream_of
from minara_gateway.turns import Ask, RunningTurn, Turns

router = APIRouter(prefix="/v1/chat")

DOUBLE_TEXTING = MappingProxyType(
    {
        "enqueue": agent_pb.DOUBLE_TEXTING_ENQUEUE,
        "reject": agent_pb.DOUBLE_TEXTING_REJECT,
        "interrupt": agent_pb.DOUBLE_TEXTING_INTERRUPT,
        "interject": agent_pb.DOUBLE_TEXTING_INTERJECT,
    }
)
_KEY_LIMIT = 255

Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]
Key = Annotated[str, Header(alias="Idempotency-Key", max_length=_KEY_LIMIT)]


def key_of_turn(request: Request, caller: Caller, key: str) -> str:
    """The id of the turn or message that a request with this Idempotency-Key is about."""
    ids: IdSource = request.app.state.ids
    return turn_id_for(caller.user_id, key) if key else ids.new()


def hash_of(body: Body, key: str, *, about: str = "") -> str:
    """What tells a repeated request from another one with the same key; empty without one. `about`
    is what the path names."""
    return hashlib.sha256((about + body.model_dump_json()).encode()).hexdigest() if key else ""


@router.post("")
async def chat(request: Request, body: ChatBody, caller: Chatter, key: Key = "") -> dict[str, Any]:
    """Run a turn to its end and answer with its reply."""
    turn = await _start(request, body, caller, key)
    return await reply_unless_left(request, caller, turn)


@router.post("/stream")
async def stream(
    request: Request, body: ChatBody, caller: Chatter, key: Key = ""
) -> StreamingResponse:
    """Run a turn and stream its events; refusals before the first event are problem documents."""
    return await stream_of(request, caller, await _start(request, body, caller, key))


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
    _check_named(turn_id, session_id)
    turns: Turns = request.app.state.turns
    turn = turns.attach(
        caller,
        turn_id=turn_id,
        session_id=session_id,
        after=last_event_id(last_event, max(0, after)),
        language="en",
    )
    return await stream_of(request, caller, turn)


@router.post("/interject")
async def interject(
    request: Request, body: InterjectBody, caller: Chatter, key: Key = ""
) -> dict[str, Any]:
    """Put a message into the turn that runs; it is read at the next step. Never a decision."""
    steering: Steering = request.app.state.steering
    message_id = key_of_turn(request, caller, key)
    interjected = await steering.interject(
        caller,
        Interjection(
            message=body.message,
            message_id=message_id,
            session_id=body.session_id,
            origin=_origin(body.surface, caller),
            turn_id=body.turn_id,
            idempotency_key=key,
            body_hash=hash_of(body, key),
        ),
    )
    return {
        "turn_id": interjected.turn_id,
        "message_id": message_id,
        "notices": list(interjected.notices),
    }


@router.post("/interrupt")
async def interrupt(request: Request, body: InterruptBody, caller: Chatter) -> dict[str, Any]:
    """Stop a turn at its next safe point; what it has said and done is kept."""
    _check_named(body.turn_id, body.session_id)
    steering: Steering = request.app.state.steering
    return as_json(
        await steering.interrupt(caller, turn_id=body.turn_id, session_id=body.session_id)
    )


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
            turn_id=key_of_turn(request, caller, key),
            new_session_id=turn_id_for(caller.user_id, f"session:{key}") if key else ids.new(),
            origin=_origin(body.surface, caller),
            idempotency_key=key,
            body_hash=hash_of(body, key),
            shown_action_id=body.shown_action_id,
            file_keys=body.file_keys,
            double_texting=DOUBLE_TEXTING[body.double_texting],
            ends_when_left=body.on_disconnect == "cancel",
        ),
    )


def _origin(surface: str, caller: Caller) -> Origin:
    return Origin.REPL if surface == "repl" and caller.is_interactive else Origin.HTTP


def _check_named(turn_id: str, session_id: str) -> None:
    if not turn_id and not session_id:
        raise InvalidRequest(
            "name a turn_id or a session_id",
            reason=ErrorReason.FIELD_REQUIRED,
            metadata={"field": "turn_id"},
        )
