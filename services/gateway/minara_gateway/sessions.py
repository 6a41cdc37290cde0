"""`/v1/sessions`: conversations and their turns."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.ids import IdSource, turn_id_for
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import SessionBody
from minara_gateway.chat import Key
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller

router = APIRouter(prefix="/v1/sessions")

PageSize = Annotated[int, Query(ge=1, le=200)]
Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]


def _peers(request: Request) -> tuple[Peers, GrantDesk]:
    return request.app.state.peers, request.app.state.grants


@router.post("")
async def create(
    request: Request, body: SessionBody, caller: Chatter, key: Key = ""
) -> dict[str, Any]:
    """A fresh session; the same one again for the same Idempotency-Key."""
    peers, grants = _peers(request)
    ids: IdSource = request.app.state.ids
    request_id = turn_id_for(caller.user_id, f"session:{key}") if key else ids.new()
    response = await peers.sessions.CreateSession(
        session_pb.CreateSessionRequest(request_id=request_id, title=body.title),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response.session)


@router.get("")
async def list_all(
    request: Request, caller: Reader, page_size: PageSize = 50, page_token: str = ""
) -> dict[str, Any]:
    """The caller's sessions, most recently used first."""
    peers, grants = _peers(request)
    response = await peers.sessions.ListSessions(
        session_pb.ListSessionsRequest(page_size=page_size, page_token=page_token),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.get("/{session_id}")
async def get(request: Request, session_id: str, caller: Reader) -> dict[str, Any]:
    """One session."""
    peers, grants = _peers(request)
    response = await peers.sessions.GetSession(
        session_pb.GetSessionRequest(session_id=session_id),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response.session)


@router.get("/{session_id}/turns")
async def list_turns(
    request: Request,
    session_id: str,
    caller: Reader,
    page_size: PageSize = 50,
    page_token: str = "",
) -> dict[str, Any]:
    """A session's recorded turns, oldest first."""
    peers, grants = _peers(request)
    response = await peers.sessions.ListTurns(
        session_pb.ListTurnsRequest(
            session_id=session_id, page_size=page_size, page_token=page_token
        ),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.post("/{session_id}:refresh")
async def refresh(request: Request, session_id: str, caller: Chatter) -> dict[str, Any]:
    """Read the person's pages again from the session's next turn on, which begins a new prefix."""
    peers, grants = _peers(request)
    response = await peers.sessions.RefreshSession(
        session_pb.RefreshSessionRequest(session_id=session_id),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)
