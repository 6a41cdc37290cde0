"""Turns and their events in the orchestrator's own database."""

import json
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.ids import PendingActionId, SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_orchestrator.adapters.sql_tables import TURN_EVENTS, TURNS
from minara_orchestrator.adapters.turn_signals import TurnSignals
from minara_orchestrator.app.ports import MOST_WAITING, Admission, Stirred, StoredEvent
from minara_orchestrator.domain.turn import DecidedInput, TriggerInput, Turn, TurnInput, UserInput
from minara_runtime.batching import GroupCommit
from minara_runtime.database import Database
from minara_runtime.outages import through_outage
from minara_runtime.process_lease import lives
from minara_runtime.statements import insert_absent, insert_if_absent, lock_name

OUTAGE_SECONDS = 15.0
"""How long events wait for the database; a restart of it takes less."""

VERSIONS = Path(__file__).parent / "migrations" / "versions"

_FIND = sa.select(TURNS.c.user_id, TURNS.c.is_over).where(TURNS.c.turn_id == sa.bindparam("turn"))
_LIVE = (
    sa.select(TURNS.c.turn_id)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        TURNS.c.user_id == sa.bindparam("person"),
        TURNS.c.is_over == sa.false(),
    )
    .order_by(TURNS.c.position)
    .limit(1)
)
_MINE = TURNS.alias("mine")
_AHEAD = (
    sa.select(sa.func.count())
    .select_from(TURNS)
    .join(
        _MINE,
        sa.and_(TURNS.c.session_id == _MINE.c.session_id, TURNS.c.position < _MINE.c.position),
    )
    .where(_MINE.c.turn_id == sa.bindparam("turn"), TURNS.c.is_over == sa.false())
)
_UNFINISHED = (
    sa.select(TURNS)
    .where(
        TURNS.c.is_over == sa.false(),
        sa.or_(TURNS.c.owner == sa.bindparam("me"), ~lives(TURNS.c.owner)),
    )
    .order_by(TURNS.c.position)
)
_CLAIM = (
    sa.update(TURNS)
    .where(
        TURNS.c.turn_id == sa.bindparam("turn"),
        TURNS.c.owner == sa.bindparam("before"),
        TURNS.c.is_over == sa.false(),
    )
    .values(owner=sa.bindparam("me"))
)
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
_LAST = sa.select(sa.func.max(TURN_EVENTS.c.sequence)).where(
    TURN_EVENTS.c.turn_id == sa.bindparam("turn")
)
_END = sa.update(TURNS).where(TURNS.c.turn_id == sa.bindparam("turn")).values(is_over=True)


class SqlTurns:
    """Implements TurnStore. Events of all turns that come together share one commit.

    `owner` names this process, whose life LeasedWriters keeps known.
    """

    def __init__(self, database: Database, *, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._signals = TurnSignals(database)
        self._writer = GroupCommit[_Append](self._flush)

    async def admit(self, turn: Turn, *, alone: bool = False) -> Admission:
        values = _row(turn) | {"owner": self._owner}
        parameters = {"turn": turn.context.turn_id}

        def insert(connection: sa.Connection) -> Admission:
            if alone:
                lock_name(connection, f"session:{turn.context.session_id}")
            if insert_if_absent(connection, TURNS, values):
                ahead = connection.execute(_AHEAD, parameters).scalar_one()
                if alone and ahead:
                    raise _is_running(turn.context.session_id)
                if ahead > MOST_WAITING:
                    raise LimitExceeded(
                        f"{MOST_WAITING} messages wait in this session already",
                        metadata={"session_id": turn.context.session_id},
                    )
                return Admission(is_new=True, is_over=False, ahead=ahead)
            owner, is_over = connection.execute(_FIND, parameters).one()
            if owner != turn.context.user_id:
                raise NotFound(
                    "no such turn",
                    reason=ErrorReason.TURN_NOT_FOUND,
                    metadata={"turn_id": turn.context.turn_id},
                )
            return Admission(is_new=False, is_over=is_over)

        return await self._database.transaction(insert, brief=True)

    async def ahead(self, turn_id: TurnId) -> int:
        parameters = {"turn": turn_id}
        return await self._database.read(
            lambda c: c.execute(_AHEAD, parameters).scalar_one(), brief=True
        )

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        row = await self._database.read(
            lambda c: c.execute(_FIND, {"turn": turn_id}).first(), brief=True
        )
        if row is None or row.user_id != user_id:
            return None
        return Admission(is_new=False, is_over=row.is_over)

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        parameters = {"session": session_id, "person": user_id}
        found = await self._database.read(
            lambda c: c.execute(_LIVE, parameters).scalar(), brief=True
        )
        return None if found is None else TurnId(found)

    async def append(self, turn_id: TurnId, events: Sequence[StoredEvent]) -> None:
        append = _Append(turn_id, events)
        await self._writer.put(append)
        if append.is_refused:
            raise Conflict(
                "another process has this turn now",
                reason=ErrorReason.LEASE_LOST,
                metadata={"turn_id": turn_id},
            )

    async def _flush(self, batch: list["_Append"]) -> None:
        """Write a batch; a database that is away for a moment is waited for, since what cannot be
        stored cuts its turn off. What was written before the answer was lost is not written twice.
        """
        turn_ids = {append.turn_id for append in batch}

        def write(connection: sa.Connection) -> set[TurnId]:
            owned = _owned(connection, turn_ids, self._owner)
            appends = [append for append in batch if append.turn_id in owned]
            if appends:
                insert_absent(connection, TURN_EVENTS, [row for a in appends for row in a.rows()])
                over = [{"turn": a.turn_id} for a in appends if a.events[-1].is_terminal]
                if over:
                    connection.execute(_END, over)
                self._signals.tell(connection, owned)
            return owned

        owned = await through_outage(
            lambda: self._database.transaction(write, brief=True), seconds=OUTAGE_SECONDS
        )
        for append in batch:
            append.is_refused = append.turn_id not in owned

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        parameters = {"turn": turn_id, "after": sequence}
        rows = await self._database.read(lambda c: c.execute(_EVENTS, parameters).all())
        return [
            StoredEvent(sequence=row.sequence, is_terminal=row.is_terminal, body=bytes(row.body))
            for row in rows
        ]

    def watch(self, turn_id: TurnId) -> AbstractContextManager[Stirred]:
        return self._signals.watch(turn_id)

    async def listen_forever(self) -> None:
        """Hear of events that other replicas store; runs until cancelled."""
        await self._signals.listen_forever()

    async def last_sequence(self, turn_id: TurnId) -> int:
        found = await self._database.read(lambda c: c.execute(_LAST, {"turn": turn_id}).scalar())
        return found or 0

    async def claim(self, running: Collection[TurnId]) -> list[Turn]:
        known = set(running)
        unfinished = await self._database.read(
            lambda c: c.execute(_UNFINISHED, {"me": self._owner}).mappings().all()
        )
        left = [row for row in unfinished if row["turn_id"] not in known]

        def claim(connection: sa.Connection) -> list[Turn]:
            return [
                _turn(row)
                for row in left
                if connection.execute(
                    _CLAIM,
                    {"turn": row["turn_id"], "before": row["owner"], "me": self._owner},
                ).rowcount
            ]

        return await self._database.transaction(claim) if left else []

    async def aclose(self) -> None:
        """Write out what waits."""
        await self._writer.aclose()


@dataclass(slots=True)
class _Append:
    """Events on their way; `is_refused` says that the turn is another process's by now."""

    turn_id: TurnId
    events: Sequence[StoredEvent]
    is_refused: bool = False

    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "turn_id": self.turn_id,
                "sequence": event.sequence,
                "is_terminal": event.is_terminal,
                "body": event.body,
            }
            for event in self.events
        ]


def _owned(connection: sa.Connection, turn_ids: set[TurnId], me: str) -> set[TurnId]:
    """Those of these turns that `me` runs, which nobody claims before the transaction ends."""
    if len(turn_ids) == 1:
        (turn_id,) = turn_ids
        found = connection.execute(_IS_OURS, {"turn": turn_id, "me": me})
    else:
        found = connection.execute(_OURS, {"turns": [*turn_ids], "me": me})
    return {TurnId(turn_id) for turn_id in found.scalars()}


def _is_running(session_id: SessionId) -> Conflict:
    return Conflict(
        "another turn of this session is running",
        reason=ErrorReason.TURN_RUNNING,
        metadata={"session_id": session_id},
    )


def _row(turn: Turn) -> dict[str, object]:
    kind, text, file_keys = _input_columns(turn.input)
    context = turn.context
    return {
        "turn_id": context.turn_id,
        "session_id": context.session_id,
        "user_id": context.user_id,
        "is_over": False,
        "origin": context.origin.value,
        "allowed_tool_sets": json.dumps(context.allowed_tool_sets),
        "locale": context.locale,
        "turn_grant": context.grant,
        "input_kind": kind,
        "input_text": text,
        "file_keys": json.dumps(file_keys),
        "start_time": turn.start_time,
    }


def _input_columns(turn_input: TurnInput) -> tuple[str, str, tuple[str, ...]]:
    match turn_input:
        case UserInput():
            return "message", turn_input.text, turn_input.file_keys
        case DecidedInput():
            return "decision", turn_input.pending_action_id, ()
        case TriggerInput():
            return "trigger", turn_input.text, ()


def _turn(row: Any) -> Turn:
    return Turn(
        context=TurnContext(
            turn_id=TurnId(row["turn_id"]),
            session_id=SessionId(row["session_id"]),
            user_id=UserId(row["user_id"]),
            origin=Origin(row["origin"]),
            allowed_tool_sets=tuple(json.loads(row["allowed_tool_sets"])),
            locale=row["locale"],
            grant=row["turn_grant"],
        ),
        input=_turn_input(row["input_kind"], row["input_text"], row["file_keys"]),
        start_time=row["start_time"],
    )


def _turn_input(kind: str, text: str, file_keys: str) -> TurnInput:
    match kind:
        case "message":
            return UserInput(text=text, file_keys=tuple(json.loads(file_keys)))
        case "decision":
            return DecidedInput(pending_action_id=PendingActionId(text))
        case _:
            return TriggerInput(text=text)
