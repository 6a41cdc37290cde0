"""Everything stored that a prompt needs; writes nothing."""

from dataclasses import dataclass
from decimal import Decimal

from minara_core.ids import SessionId, TurnId, UserId
from minara_workspace.app.ports import CommitTokens, Documents, Sessions
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

REFRESHED_NOTICE = "the pages were read again; a new prefix begins"


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
            notices=(REFRESHED_NOTICE,) if stored.was_refreshed else (),
            spent_today_usd=stored.spent_today_usd,
        )

    async def _pages(self, user_id: UserId, names: tuple[str, ...]) -> list[Document]:
        return [await self._documents.read(user_id, name) for name in names]
