"""Whose a session is: looked up before anything is claimed, stored or signed for it."""

from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.ids import UserId
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.store import Caller

_MOST_KNOWN = 10_000


class KnownSessions:
    """The workspace's word, remembered: a session never changes hands."""

    def __init__(self, peers: Peers, grants: GrantDesk) -> None:
        self._peers = peers
        self._grants = grants
        self._known: set[tuple[UserId, str]] = set()

    async def check(self, caller: Caller, session_id: str) -> None:
        """Raises NotFound (SESSION_NOT_FOUND) unless the session is the caller's."""
        if (caller.user_id, session_id) in self._known:
            return
        await self._peers.sessions.GetSession(
            session_pb.GetSessionRequest(session_id=session_id),
            metadata=self._grants.lookup(caller),
            timeout=READ_SECONDS,
        )
        self._remember(caller, session_id)

    async def begin(self, caller: Caller, session_id: str) -> None:
        """Make the session unless the caller has it. Raises NotFound (SESSION_NOT_FOUND) when it
        is somebody else's."""
        if (caller.user_id, session_id) in self._known:
            return
        await self._peers.sessions.CreateSession(
            session_pb.CreateSessionRequest(request_id=session_id),
            metadata=self._grants.request(caller),
            timeout=READ_SECONDS,
        )
        self._remember(caller, session_id)

    def _remember(self, caller: Caller, session_id: str) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.add((caller.user_id, session_id))
