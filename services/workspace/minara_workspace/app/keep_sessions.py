"""Make and list conversations."""

import uuid

from minara_core.clock import Clock
from minara_core.errors import InvalidRequest
from minara_core.ids import SessionId, UserId
from minara_workspace.app.ports import Documents, Page, Sessions
from minara_workspace.domain.session import Session, title_from

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200


class SessionKeeper:
    def __init__(self, sessions: Sessions, documents: Documents, clock: Clock) -> None:
        self._sessions = sessions
        self._documents = documents
        self._clock = clock

    async def create(self, request_id: str, user_id: UserId, title: str) -> Session:
        """The session of that id, made if it is new; the person's pages are seeded with it.

        Raises InvalidRequest unless `request_id` is a UUID, NotFound when it is another user's.
        """
        try:
            session_id = SessionId(str(uuid.UUID(request_id)))
        except ValueError as error:
            raise InvalidRequest(
                "request_id is a UUID", metadata={"field": "request_id"}
            ) from error
        await self._documents.seed(user_id)
        now = self._clock.now()
        return await self._sessions.create(
            Session(
                session_id=session_id,
                user_id=user_id,
                title=title_from(title),
                create_time=now,
                update_time=now,
            )
        )

    async def get(self, session_id: SessionId, user_id: UserId) -> Session:
        return await self._sessions.get(session_id, user_id)

    async def refresh(self, session_id: SessionId, user_id: UserId) -> None:
        """Let the session's next turn read the person's pages anew. Raises NotFound."""
        await self._sessions.refresh(session_id, user_id)

    async def list_sessions(self, user_id: UserId, *, size: int, token: str) -> Page:
        return await self._sessions.list_sessions(user_id, size=page_size(size), token=token)

    async def list_turns(
        self, session_id: SessionId, user_id: UserId, *, size: int, token: str
    ) -> Page:
        return await self._sessions.list_turns(
            session_id, user_id, size=page_size(size), token=token
        )


def page_size(asked: int) -> int:
    """0 means the default. Raises InvalidRequest outside of 0 to 200."""
    if not 0 <= asked <= MAX_PAGE_SIZE:
        raise InvalidRequest(f"page_size is 0 to {MAX_PAGE_SIZE}", metadata={"field": "page_size"})
    return asked or DEFAULT_PAGE_SIZE
