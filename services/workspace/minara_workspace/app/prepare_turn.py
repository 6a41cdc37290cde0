"""Everything stored that a prompt needs; writes nothing."""

from dataclasses import dataclass
from decimal import Decimal

from minara_core.ids import SessionId, TurnId, UserId
from minara_workspace.app.ports import CommitTokens, Documents, SessionMaterial, Sessions
from minara_workspace.domain.document import (
    BOOTSTRAP_DOCUMENT,
    HEARTBEAT_DOCUMENT,
    IDENTITY_DOCUMENTS,
    MEMORY_DOCUMENTS,
    PAGE_UNITS,
    Document,
    capped,
)
from minara_workspace.domain.session import FrozenBlocks
from minara_workspace.domain.snapshot import identity_block, memory_block

_REFRESHED = "the pages were read again ({time}); a new prefix begins"
"""With its time, so that no two are the same: what a model was told once it is not told again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMaterial:
    blocks: FrozenBlocks
    bootstrap: str
    heartbeat: str
    history: bytes
    sent_blocks: tuple[str, ...]
    turn_count: int
    commit_token: str
    notices: tuple[str, ...]
    spent_today_usd: Decimal


class TurnPreparation:
    def __init__(self, sessions: Sessions, documents: Documents, tokens: CommitTokens) -> None:
        self._sessions = sessions
        self._documents = documents
        self._tokens = tokens

    async def prepare(
        self, turn_id: TurnId, session_id: SessionId, user_id: UserId
    ) -> TurnMaterial:
        """Raises NotFound (SESSION_NOT_FOUND)."""
        stored = await self._sessions.material(session_id, user_id)
        blocks, token = stored.blocks, ""
        if blocks is None:
            blocks = FrozenBlocks(
                identity=identity_block(await self._pages(user_id, IDENTITY_DOCUMENTS)),
                memory=memory_block(
                    await self._pages(user_id, MEMORY_DOCUMENTS),
                    await self._documents.daily_logs(user_id),
                    user_id=user_id,
                ),
                refresh_time=stored.refresh_time,
            )
            token = self._tokens.seal(turn_id, blocks)
        bootstrap, heartbeat = await self._pages(user_id, (BOOTSTRAP_DOCUMENT, HEARTBEAT_DOCUMENT))
        return TurnMaterial(
            blocks=blocks,
            bootstrap=capped(bootstrap, PAGE_UNITS).text.strip(),
            heartbeat=capped(heartbeat, PAGE_UNITS).text.strip(),
            history=stored.history,
            sent_blocks=stored.sent_blocks,
            turn_count=stored.session.turn_count,
            commit_token=token,
            notices=_notices(stored),
            spent_today_usd=stored.spent_today_usd,
        )

    async def _pages(self, user_id: UserId, names: tuple[str, ...]) -> list[Document]:
        return [await self._documents.read(user_id, name) for name in names]


def _notices(stored: SessionMaterial) -> tuple[str, ...]:
    """What is new is told; to a session's first turn everything is."""
    if stored.refresh_time is None or not stored.session.turn_count:
        return ()
    return (_REFRESHED.format(time=stored.refresh_time.isoformat(timespec="milliseconds")),)
