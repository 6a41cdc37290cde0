"""Everything a finished turn leaves: rows first, in one transaction; then files that can be made
again from the rows."""

from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_workspace.app.heartbeats import Heartbeats
from minara_workspace.app.ports import CommitTokens, Documents, Sessions
from minara_workspace.domain.bootstrap import done_name, is_done
from minara_workspace.domain.document import BOOTSTRAP_DOCUMENT
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import CommittedTurn, TurnRecord


class TurnCommit:
    def __init__(
        self,
        *,
        sessions: Sessions,
        documents: Documents,
        tokens: CommitTokens,
        heartbeats: Heartbeats,
        clock: Clock,
        failpoint: Failpoint = no_failpoint,
    ) -> None:
        self._sessions = sessions
        self._documents = documents
        self._tokens = tokens
        self._heartbeats = heartbeats
        self._clock = clock
        self._failpoint = failpoint

    async def commit(self, record: TurnRecord, commit_token: str) -> CommittedTurn:
        """Record the turn, once; a second call is answered with what stands.

        Raises InvalidRequest for a foreign token, Conflict (EPOCH_STALE), NotFound
        (SESSION_NOT_FOUND).
        """
        blocks = self._tokens.open(record.turn_id, commit_token)
        recorded = await self._sessions.commit(record, blocks)
        self._failpoint("commit.recorded")
        if recorded.is_new:
            await self._leave_files(record, recorded.turn)
        return recorded.turn

    async def _leave_files(self, record: TurnRecord, turn: CommittedTurn) -> None:
        self._heartbeats.note(
            record.user_id,
            Heartbeat(
                last_seen=turn.commit_time,
                session_id=record.session_id,
                surface=record.origin.value,
                turn_count=turn.turn_number,
                open_loops=record.open_loops,
            ),
        )
        if is_done(record.assistant_text):
            new_name = done_name(BOOTSTRAP_DOCUMENT, self._clock.now())
            await self._documents.put_aside(record.user_id, BOOTSTRAP_DOCUMENT, new_name)
