"""Events and checkpoints of turns in the orchestrator's own database."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from minara_core.clock import Clock
from minara_core.errors import Conflict
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_tables import TURN_CHECKPOINTS, TURN_EVENTS, TURNS
from minara_orchestrator.adapters.stored_turns import (
    checkpoint_from_bytes,
    checkpoint_to_bytes,
    interjections_into,
    told_by,
)
from minara_orchestrator.adapters.turn_signals import TurnSignals
from minara_orchestrator.app.turn_ports import Entry, Stirred, StoredEvent
from minara_orchestrator.domain.checkpoint import Interjection, Past
from minara_orchestrator.domain.turn import Turn
from minara_runtime.batching import GroupCommit
from minara_runtime.database import Database
from minara_runtime.outages import through_outage
from minara_runtime.statements import insert_absent

OUTAGE_SECONDS = 15.0
"""How long events wait for the database; a restart of it takes less."""
_EXPIRED_AT_ONCE = 200

_OURS = (
    sa.select(TURNS.c.turn_id)
    .where(
        TURNS.c.turn_id.in_(sa.bindparam("turns", expanding=True)),
        TURNS.c.owner == sa.bindparam("me"),
    )
    # Several processes may write at once; who claims a turn waits for them.
    .with_for_update(read=True)
)
_IS_OURS = (
    sa.select(TURNS.c.turn_id)
    .where(TURNS.c.turn_id == sa.bindparam("turn"), TURNS.c.owner == sa.bindparam("me"))
    .with_for_update(read=True)
)
"""The same for one turn, as most batches are: a list costs SQLAlchemy its work anew each time."""
_EVENTS = (
    sa.select(TURN_EVENTS.c.sequence, TURN_EVENTS.c.is_terminal, TURN_EVENTS.c.body)
    .where(
        TURN_EVENTS.c.turn_id == sa.bindparam("turn"),
        TURN_EVENTS.c.sequence > sa.bindparam("after"),
    )
    .order_by(TURN_EVENTS.c.sequence)
    .limit(1_000)
)
_BODIES = (
    sa.select(TURN_EVENTS.c.body)
    .where(TURN_EVENTS.c.turn_id == sa.bindparam("turn"))
    .order_by(TURN_EVENTS.c.sequence)
)
_CHECKPOINTS = (
    sa.select(TURN_CHECKPOINTS.c.body)
    .where(TURN_CHECKPOINTS.c.turn_id == sa.bindparam("turn"))
    .order_by(TURN_CHECKPOINTS.c.number)
)
_HAS_LOST = sa.select(TURNS.c.has_lost_events).where(TURNS.c.turn_id == sa.bindparam("turn"))
_END = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id == sa.bindparam("turn"))
    .values(is_over=True, end_time=sa.bindparam("now"))
)
_FORGET = sa.delete(TURN_CHECKPOINTS).where(TURN_CHECKPOINTS.c.turn_id == sa.bindparam("turn"))
_CLOSE = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id == sa.bindparam("turn"))
    .values(is_closing=True)
    .returning(TURNS.c.interjection_count)
)
_EXPIRED = (
    sa.select(TURNS.c.turn_id)
    .where(TURNS.c.has_lost_events == sa.false(), TURNS.c.end_time < sa.bindparam("before"))
    .order_by(TURNS.c.end_time)
    .limit(_EXPIRED_AT_ONCE)
)
_LOSE = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id.in_(sa.bindparam("turns", expanding=True)))
    .values(has_lost_events=True)
)
_DELETE = sa.delete(TURN_EVENTS).where(
    TURN_EVENTS.c.turn_id.in_(sa.bindparam("turns", expanding=True))
)


class SqlTurnEvents:
    """Implements TurnEvents. Entries of all turns that come together share one commit.

    `owner` names this process, whose life LeasedWriters keeps known.
    """

    def __init__(
        self, database: Database, *, owner: str, clock: Clock, writers: LeasedWriters
    ) -> None:
        self._database = database
        self._owner = owner
        self._writers = writers
        self._clock = clock
        self._signals = TurnSignals(database)
        self._writer = GroupCommit[_Append](self._flush)

    async def append(self, turn: Turn, entry: Entry) -> Sequence[Interjection]:
        append = _Append(turn, entry)
        await self._writer.put(append)
        if append.is_refused:
            raise Conflict(
                "another process has this turn now",
                reason=ErrorReason.LEASE_LOST,
                metadata={"turn_id": append.turn_id},
            )
        return append.heard

    async def _flush(self, batch: list["_Append"]) -> None:
        """Write a batch; a database that is away for a moment is waited for, since what cannot be
        stored cuts its turn off. What was written before the answer was lost is not written twice.
        """
        turn_ids = {append.turn_id for append in batch}
        now = self._clock.now()

        def write(connection: sa.Connection) -> set[TurnId]:
            owned = _owned(connection, turn_ids, self._owner)
            appends = [append for append in batch if append.turn_id in owned]
            _insert(connection, appends)
            for append in appends:
                if append.entry.closes:
                    append.heard = _closed(connection, append.turn_id)
                if append.is_last:
                    self._end(connection, append, now)
            if appends:
                self._signals.tell(connection, owned)
            return owned

        owned = await through_outage(
            lambda: self._database.transaction(write, brief=True), seconds=OUTAGE_SECONDS
        )
        for append in batch:
            append.is_refused = append.turn_id not in owned

    def _end(self, connection: sa.Connection, append: "_Append", now: datetime) -> None:
        connection.execute(_END, {"turn": append.turn_id, "now": now})
        if not append.entry.is_unrecorded:
            connection.execute(_FORGET, {"turn": append.turn_id})
        if append.entry.gives_up:
            session_id = append.turn.context.session_id
            self._writers.give_up(connection, session_id, append.entry.gives_up)

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        parameters = {"turn": turn_id, "after": sequence}
        rows = await self._database.read(lambda c: c.execute(_EVENTS, parameters).all())
        return [
            StoredEvent(sequence=row.sequence, is_terminal=row.is_terminal, body=bytes(row.body))
            for row in rows
        ]

    async def has_any(self, turn_id: TurnId) -> bool:
        lost = await self._database.read(
            lambda c: c.execute(_HAS_LOST, {"turn": turn_id}).scalar(), brief=True
        )
        return lost is False or lost == 0

    async def past(self, turn_id: TurnId) -> Past:
        def look(connection: sa.Connection) -> tuple[list[bytes], list[bytes]]:
            kept = connection.execute(_CHECKPOINTS, {"turn": turn_id}).scalars()
            told = connection.execute(_BODIES, {"turn": turn_id}).scalars()
            return [bytes(body) for body in kept], [bytes(body) for body in told]

        kept, told = await self._database.read(look)
        return Past(
            is_taken_over=True,
            checkpoints=tuple(checkpoint_from_bytes(body) for body in kept),
            told=told_by(told),
        )

    async def forget_checkpoints(self, turn_id: TurnId) -> None:
        await self._database.transaction(lambda c: c.execute(_FORGET, {"turn": turn_id}))

    def watch(self, turn_id: TurnId) -> AbstractContextManager[Stirred]:
        return self._signals.watch(turn_id)

    async def listen_forever(self) -> None:
        """Hear of events that other replicas store; runs until cancelled."""
        await self._signals.listen_forever()

    async def expire(self, before: datetime) -> int:
        def write(connection: sa.Connection) -> int:
            found = connection.execute(_EXPIRED, {"before": before}).scalars().all()
            if found:
                connection.execute(_DELETE, {"turns": found})
                connection.execute(_LOSE, {"turns": found})
            return len(found)

        return await self._database.transaction(write)

    async def aclose(self) -> None:
        """Write out what waits."""
        await self._writer.aclose()


@dataclass(slots=True)
class _Append:
    """An entry on its way; `is_refused` says that the turn is another process's by now."""

    turn: Turn
    entry: Entry
    is_refused: bool = False
    heard: Sequence[Interjection] = field(default_factory=tuple[Interjection, ...])

    @property
    def turn_id(self) -> TurnId:
        return self.turn.context.turn_id

    @property
    def is_last(self) -> bool:
        events = self.entry.events
        return bool(events) and events[-1].is_terminal

    def events(self) -> list[dict[str, object]]:
        return [
            {
                "turn_id": self.turn_id,
                "sequence": event.sequence,
                "is_terminal": event.is_terminal,
                "body": event.body,
            }
            for event in self.entry.events
        ]

    def checkpoints(self) -> list[dict[str, object]]:
        first = self.entry.checkpoints_before
        return [
            {"turn_id": self.turn_id, "number": number, "body": checkpoint_to_bytes(checkpoint)}
            for number, checkpoint in enumerate(self.entry.checkpoints, start=first)
        ]


def _insert(connection: sa.Connection, appends: Sequence[_Append]) -> None:
    events = [row for append in appends for row in append.events()]
    checkpoints = [
        row
        for append in appends
        if append.entry.is_unrecorded or not append.is_last
        for row in append.checkpoints()
    ]
    if events:
        insert_absent(connection, TURN_EVENTS, events)
    if checkpoints:
        insert_absent(connection, TURN_CHECKPOINTS, checkpoints)


def _closed(connection: sa.Connection, turn_id: TurnId) -> Sequence[Interjection]:
    """From here on the turn takes no more messages; those that it was given."""
    if not connection.execute(_CLOSE, {"turn": turn_id}).scalar():
        return ()
    return interjections_into(connection, [turn_id]).get(turn_id, ())


def _owned(connection: sa.Connection, turn_ids: set[TurnId], me: str) -> set[TurnId]:
    """Those of these turns that `me` runs, which nobody claims before the transaction ends."""
    if len(turn_ids) == 1:
        (turn_id,) = turn_ids
        found = connection.execute(_IS_OURS, {"turn": turn_id, "me": me})
    else:
        found = connection.execute(_OURS, {"turns": [*turn_ids], "me": me})
    return {TurnId(turn_id) for turn_id in found.scalars()}
