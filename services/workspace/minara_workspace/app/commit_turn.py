"""Everything a finished turn leaves: rows first, in one transaction; then what can be made again
from the rows."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_workspace.app.heartbeats import Heartbeats
from minara_workspace.app.ports import CommitTokens, Documents, ObserveTurn, Sessions
from minara_workspace.domain.bootstrap import done_name, is_done
from minara_workspace.domain.decisions import Decision, decision_of
from minara_workspace.domain.document import BOOTSTRAP_DOCUMENT
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import CommittedTurn, FrozenBlocks, TurnRecord, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRows:
    """What the one transaction writes. `blocks` are those that PrepareTurn offered."""

    record: TurnRecord
    blocks: FrozenBlocks | None
    decision: Decision | None = None


async def _nothing(record: TurnRecord, turn: CommittedTurn) -> None:
    """Leaves nothing behind the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTurn:
    """One thing that is done for a finished turn: `rows` says what of it is stored, `behind` does
    once, after the commit, what a crash may leave out."""

    name: str
    rows: Callable[[TurnRows], TurnRows] = lambda rows: rows
    behind: Callable[[TurnRecord, CommittedTurn], Awaitable[None]] = _nothing


class TurnCommit:
    """`post_turn` is all that happens, in this order. PrepareTurn caches nothing, so there is
    nothing of it to forget."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        documents: Documents,
        tokens: CommitTokens,
        heartbeats: Heartbeats,
        clock: Clock,
        observe: ObserveTurn,
        failpoint: Failpoint = no_failpoint,
    ) -> None:
        self._sessions = sessions
        self._documents = documents
        self._tokens = tokens
        self._heartbeats = heartbeats
        self._clock = clock
        self._observe = observe
        self._failpoint = failpoint
        self.post_turn: tuple[PostTurn, ...] = (
            PostTurn(name="conversation_record", rows=_conversation_record),
            PostTurn(name="decision_capture", rows=_decision_capture),
            PostTurn(name="workspace_state", behind=self._workspace_state),
            PostTurn(name="observability", behind=self._observability),
        )

    async def commit(self, record: TurnRecord, commit_token: str) -> CommittedTurn:
        """Record the turn, once; a second call is answered with what stands.

        Raises InvalidRequest for a foreign token, Conflict (EPOCH_STALE), NotFound
        (SESSION_NOT_FOUND).
        """
        rows = TurnRows(record=record, blocks=self._tokens.open(record.turn_id, commit_token))
        for each in self.post_turn:
            rows = each.rows(rows)
        recorded = await self._sessions.commit(rows.record, rows.blocks, rows.decision)
        self._failpoint("commit.recorded")
        if recorded.is_new:
            for each in self.post_turn:
                await each.behind(record, recorded.turn)
        return recorded.turn

    async def _workspace_state(self, record: TurnRecord, turn: CommittedTurn) -> None:
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
        if _has_completed(record) and is_done(record.assistant_text):
            new_name = done_name(BOOTSTRAP_DOCUMENT, self._clock.now())
            await self._documents.put_aside(record.user_id, BOOTSTRAP_DOCUMENT, new_name)

    async def _observability(self, record: TurnRecord, turn: CommittedTurn) -> None:
        self._observe(record, turn)


def _conversation_record(rows: TurnRows) -> TurnRows:
    """Every turn is in the history, however it ended; only a completed one consumes what
    PrepareTurn offered, so that the next one is offered it again."""
    return rows if _has_completed(rows.record) else replace(rows, blocks=None)


def _decision_capture(rows: TurnRows) -> TurnRows:
    return replace(rows, decision=decision_of(rows.record))


def _has_completed(record: TurnRecord) -> bool:
    return record.state is TurnState.COMPLETED
