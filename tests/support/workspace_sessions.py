"""Sessions and commit tokens in memory, and builders of what is stored."""

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

from minara_core.errors import Conflict, InvalidRequest, NotFound
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.money import add
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier
from minara_workspace.app.ports import Page, Recorded, SessionMaterial
from minara_workspace.domain.decisions import Decision
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import (
    CommittedTurn,
    Compaction,
    CompactionRecord,
    FrozenBlocks,
    Session,
    TurnRecord,
    TurnState,
    title_from,
)

ME = UserId("local")
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def a_session(session_id: str = "session-1", **changes: Any) -> Session:
    made = Session(
        session_id=SessionId(session_id),
        user_id=ME,
        title="",
        create_time=START,
        update_time=START,
    )
    return replace(made, **changes)


def a_record(turn_id: str = "turn-1", **changes: Any) -> TurnRecord:
    """A completed turn of `session-1`, with `changes` to its fields."""
    made = TurnRecord(
        turn_id=TurnId(turn_id),
        session_id=SessionId("session-1"),
        user_id=ME,
        origin=Origin.HTTP,
        epoch=1,
        state=TurnState.COMPLETED,
        message="price of BTC",
        transcript=b"",
        assistant_text="It is 100,000.",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
        finish_reason=FinishReason.STOP,
        failure_reason="",
        provider="scripted",
        model="script",
        step_count=1,
        sent_blocks=(),
        skill_ids=("market.overview",),
        scenario_ids=(),
        stage=LifecycleStage.DISCOVER,
        risk_ceiling=PermissionTier.CONFIRM_ONCE,
        open_loops=(),
        decided_action_id="",
        start_time=START,
    )
    return replace(made, **changes)


def a_compaction(through: int, history: bytes = b"cut", **changes: Any) -> Compaction:
    """What a turn leaves that made the history of the `through` turns before it fit."""
    made = Compaction(
        history=history,
        through_turn_number=through,
        sent_blocks=(),
        records=(CompactionRecord(rung="boundary", tokens_before=900, tokens_after=400),),
    )
    return replace(made, **changes)


@dataclass
class _Kept:
    session: Session
    epoch: int = 0
    blocks: FrozenBlocks | None = None
    sent_blocks: tuple[str, ...] = ()
    compaction: Compaction | None = None
    refresh_time: datetime | None = None
    turns: list[tuple[TurnRecord, CommittedTurn]] = field(
        default_factory=list[tuple[TurnRecord, CommittedTurn]]
    )


class FakeSessions:
    """Implements Sessions. `writes` counts what changed anything."""

    def __init__(self) -> None:
        self.writes = 0
        self.decisions: list[Decision] = []
        self._kept: dict[SessionId, _Kept] = {}
        self._time = START

    async def create(self, session: Session) -> Session:
        if session.session_id not in self._kept:
            self.writes += 1
            self._kept[session.session_id] = _Kept(session)
        return self._owned(session.session_id, session.user_id).session

    async def get(self, session_id: SessionId, user_id: UserId) -> Session:
        return self._owned(session_id, user_id).session

    async def material(self, session_id: SessionId, user_id: UserId) -> SessionMaterial:
        kept = self._owned(session_id, user_id)
        return SessionMaterial(
            session=kept.session,
            blocks=kept.blocks,
            history=_history(kept),
            sent_blocks=kept.sent_blocks,
            spent_today_usd=reduce(
                add, (record.usage.cost_usd or Decimal(0) for record, _ in kept.turns), Decimal(0)
            ),
            refresh_time=kept.refresh_time,
        )

    async def commit(
        self, record: TurnRecord, blocks: FrozenBlocks | None, decision: Decision | None = None
    ) -> Recorded:
        kept = self._owned(record.session_id, record.user_id)
        standing = self._standing(record)
        if standing is not None:
            return Recorded(turn=standing, is_new=False)
        if record.epoch < kept.epoch:
            raise Conflict("stale", reason=ErrorReason.EPOCH_STALE)
        _compact(kept, record.compaction)
        self.writes += 1
        self._time += timedelta(milliseconds=1)
        turn = _committed(record, kept.session.turn_count + 1, self._time)
        kept.turns.append((record, turn))
        kept.epoch = record.epoch
        self.decisions += [] if decision is None else [decision]
        if blocks is not None and blocks.refresh_time == kept.refresh_time:
            kept.blocks = kept.blocks or replace(blocks, refresh_time=None)
            kept.refresh_time = None
        kept.sent_blocks = tuple(dict.fromkeys((*kept.sent_blocks, *record.sent_blocks)))
        kept.session = replace(
            kept.session,
            title=kept.session.title or title_from(record.message),
            update_time=self._time,
            turn_count=turn.turn_number,
            latest_turn_id=turn.turn_id,
            latest_finish_reason=record.finish_reason,
        )
        return Recorded(turn=turn, is_new=True)

    async def refresh(self, session_id: SessionId, user_id: UserId) -> None:
        kept = self._owned(session_id, user_id)
        self.writes += 1
        self._time += timedelta(milliseconds=1)
        kept.blocks, kept.refresh_time = None, self._time

    async def list_sessions(self, user_id: UserId, *, size: int, token: str) -> Page:
        mine = [kept.session for kept in self._kept.values() if kept.session.user_id == user_id]
        mine.sort(key=lambda session: (session.update_time, session.session_id), reverse=True)
        start = _place(token)
        return Page(sessions=tuple(mine[start : start + size]), next_token=_next(mine, start, size))

    async def list_turns(
        self, session_id: SessionId, user_id: UserId, *, size: int, token: str
    ) -> Page:
        turns = [turn for _, turn in self._owned(session_id, user_id).turns]
        start = _place(token)
        return Page(turns=tuple(turns[start : start + size]), next_token=_next(turns, start, size))

    async def latest_heartbeats(self) -> dict[UserId, Heartbeat]:
        everything = [pair for kept in self._kept.values() for pair in kept.turns]
        everything.sort(key=lambda pair: pair[1].commit_time)
        return {
            record.user_id: Heartbeat(
                last_seen=turn.commit_time,
                session_id=record.session_id,
                surface=record.origin.value,
                turn_count=turn.turn_number,
                open_loops=record.open_loops,
            )
            for record, turn in everything
        }

    async def latest_heartbeat(self, user_id: UserId) -> Heartbeat | None:
        return (await self.latest_heartbeats()).get(user_id)

    def _owned(self, session_id: SessionId, user_id: UserId) -> _Kept:
        kept = self._kept.get(session_id)
        if kept is None or kept.session.user_id != user_id:
            raise NotFound("no such session", reason=ErrorReason.SESSION_NOT_FOUND)
        return kept

    def _standing(self, record: TurnRecord) -> CommittedTurn | None:
        for kept in self._kept.values():
            for _, turn in kept.turns:
                if turn.turn_id == record.turn_id:
                    if kept.session.session_id != record.session_id:
                        raise Conflict("elsewhere", reason=ErrorReason.IDEMPOTENCY_KEY_REUSED)
                    return turn
        return None


class FakeTokens:
    """Implements CommitTokens: a token is a number this process remembers."""

    def __init__(self) -> None:
        self._sealed: dict[str, tuple[str, FrozenBlocks]] = {}
        self._numbers = itertools.count(1)

    def seal(self, turn_id: str, blocks: FrozenBlocks) -> str:
        token = f"token-{next(self._numbers)}"
        self._sealed[token] = (turn_id, blocks)
        return token

    def open(self, turn_id: str, token: str) -> FrozenBlocks | None:
        if not token:
            return None
        bound, blocks = self._sealed.get(token, ("", FrozenBlocks(identity="", memory="")))
        if bound != turn_id:
            raise InvalidRequest("this commit_token is not of this turn")
        return blocks


def _committed(record: TurnRecord, number: int, now: datetime) -> CommittedTurn:
    return CommittedTurn(
        turn_id=record.turn_id,
        turn_number=number,
        state=record.state,
        origin=record.origin,
        transcript=record.transcript,
        usage=record.usage,
        finish_reason=record.finish_reason,
        start_time=record.start_time,
        commit_time=now,
    )


def _history(kept: _Kept) -> bytes:
    through, base = 0, b""
    if kept.compaction is not None:
        through, base = kept.compaction.through_turn_number, kept.compaction.history
    return base + b"".join(turn.transcript for _, turn in kept.turns[through:])


def _compact(kept: _Kept, compaction: Compaction | None) -> None:
    if compaction is None:
        return
    through = compaction.through_turn_number
    if not 0 <= through <= len(kept.turns):
        raise InvalidRequest("a compaction stands for turns that were recorded")
    if kept.compaction is None or through >= kept.compaction.through_turn_number:
        kept.compaction, kept.sent_blocks = compaction, compaction.sent_blocks


def _place(token: str) -> int:
    if token and not token.startswith("place-"):
        raise InvalidRequest("this page_token is not ours")
    return int(token.removeprefix("place-") or 0)


def _next(found: list[Any], start: int, size: int) -> str:
    return f"place-{start + size}" if len(found) > start + size else ""
