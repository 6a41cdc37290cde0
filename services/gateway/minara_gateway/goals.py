"""`/v1/sessions/ID/goal`: the standing goal of a session, and the turns that work on it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from minara.orchestrator.v1 import goal_service_pb2 as goal_pb
from minara_core.taxonomy import Origin, Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import ContinueBody, GoalBody
from minara_gateway.chat import DOUBLE_TEXTING, Key, hash_of, key_of_turn
from minara_gateway.known_sessions import KnownSessions
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller
from minara_gateway.streaming import stream_of
from minara_gateway.turns import Ask, Turns

router = APIRouter(prefix="/v1/sessions")

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]


@router.get("/{session_id}/goal")
async def get(request: Request, session_id: str, caller: Reader) -> dict[str, Any]:
    """The session's goal, or null."""
    return _told(await _read(request, session_id, caller))


@router.post("/{session_id}/goal")
async def set_goal(
    request: Request, session_id: str, body: GoalBody, caller: Chatter
) -> dict[str, Any]:
    """Set a goal; the same one again is answered with what stands."""
    peers, grants = await _peers(request, session_id, caller)
    response = await peers.goals.SetGoal(
        goal_pb.SetGoalRequest(
            session_id=session_id,
            text=body.text,
            max_turns=body.max_turns,
            subgoals=body.subgoals,
        ),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return _told(response)


@router.post("/{session_id}/goal:pause")
async def pause(request: Request, session_id: str, caller: Chatter) -> dict[str, Any]:
    """No turn works on it until it is resumed."""
    return await _update(request, session_id, caller, goal_pb.GOAL_STEP_PAUSE)


@router.post("/{session_id}/goal:resume")
async def resume(request: Request, session_id: str, caller: Chatter) -> dict[str, Any]:
    """Work on it again, with all its turns."""
    return await _update(request, session_id, caller, goal_pb.GOAL_STEP_RESUME)


@router.post("/{session_id}/goal:clear")
async def clear(request: Request, session_id: str, caller: Chatter) -> dict[str, Any]:
    """Forget it."""
    return await _update(request, session_id, caller, goal_pb.GOAL_STEP_CLEAR)


@router.post("/{session_id}/goal:continue")
async def work_on(
    request: Request,
    session_id: str,
    caller: Chatter,
    body: ContinueBody | None = None,
    key: Key = "",
) -> StreamingResponse:
    """Run one turn that works on it, and stream its events. The caller decides whether another one
    follows, by the verdict in `goal_judged`."""
    body = body or ContinueBody()
    standing = await _read(request, session_id, caller)
    turns: Turns = request.app.state.turns
    turn = await turns.work_on_goal(
        caller,
        Ask(
            message=standing.goal.text,
            session_id=session_id,
            turn_id=key_of_turn(request, caller, key),
            new_session_id="",
            origin=Origin.GOAL,
            idempotency_key=key,
            body_hash=hash_of(body, key, about=session_id),
            double_texting=DOUBLE_TEXTING[body.double_texting],
            ends_when_left=body.on_disconnect == "cancel",
        ),
    )
    return await stream_of(request, caller, turn)


async def _peers(request: Request, session_id: str, caller: Caller) -> tuple[Peers, GrantDesk]:
    """For a call about the caller's session: a goal's keeper knows no sessions. Raises NotFound
    (SESSION_NOT_FOUND)."""
    sessions: KnownSessions = request.app.state.known_sessions
    await sessions.check(caller, session_id)
    return request.app.state.peers, request.app.state.grants


async def _read(request: Request, session_id: str, caller: Caller) -> goal_pb.GetGoalResponse:
    peers, grants = await _peers(request, session_id, caller)
    return await peers.goals.GetGoal(
        goal_pb.GetGoalRequest(session_id=session_id),
        metadata=grants.lookup(caller),
        timeout=READ_SECONDS,
    )


async def _update(
    request: Request, session_id: str, caller: Caller, step: goal_pb.GoalStep.ValueType
) -> dict[str, Any]:
    peers, grants = await _peers(request, session_id, caller)
    response = await peers.goals.UpdateGoal(
        goal_pb.UpdateGoalRequest(session_id=session_id, step=step),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return _told(response)


def _told(
    response: goal_pb.GetGoalResponse | goal_pb.SetGoalResponse | goal_pb.UpdateGoalResponse,
) -> dict[str, Any]:
    return {"goal": as_json(response.goal) if response.HasField("goal") else None}
