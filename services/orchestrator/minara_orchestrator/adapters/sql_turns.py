"""Turns in the orchestrator's own database: admitted, waiting, steered, claimed, over."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_tables import TURN_CHECKPOINTS, TURNS
from minara_orchestrator.adapters.stored_turns import DECISION, interjections_into, row_of, turn_of
from minara_orchestrator.adapters.turn_requests import TurnRequests
from minara_orchestrator.app.turn_ports import MOST_WAITING, Admission, Claimed, Steering
from minara_orchestrator.domain.turn import DoubleTexting, Stop, Turn, input_text
from minara_runtime.database import Database
from minara_runtime.outages import through_outage
from minara_runtime.process_lease import lives
from minara_runtime.statements import insert_if_absent, lock_name

RECOVER_EVERY_SECONDS = 5.0
OUTAGE_SECONDS = 15.0
"""How long a waiting turn bears that the database is away."""
_RECORDED_AT_ONCE = 20
VERSIONS = Path(__file__).parent / "migrations" / "versions"

_FIND = sa.select(
    TURNS.c.turn_id,
    TURNS.c.user_id,
    TURNS.c.session_id,
    TURNS.c.is_over,
    TURNS.c.interjected_into,
    TURNS.c.input_text,
).where(TURNS.c.turn_id == sa.bindparam("turn"))
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
        sa.and_(
            TURNS.c.session_id == _MINE.c.session_id,
            TURNS.c.user_id == _MINE.c.user_id,
            TURNS.c.position < _MINE.c.position,
        ),
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
    .values(
        owner=sa.bindparam("me"),
        # One that was left in good order, or comes back, has cost nobody's life.
        take_overs=TURNS.c.take_overs
        + sa.case((TURNS.c.owner.in_(["", sa.bindparam("me")]), 0), else_=1),
    )
    .returning(TURNS.c.take_overs)
)
_UNRECORDED = (
    sa.select(TURNS)
    .where(
        TURNS.c.is_over == sa.true(),
        TURNS.c.turn_id.in_(sa.select(TURN_CHECKPOINTS.c.turn_id).distinct()),
    )
    .order_by(TURNS.c.position)
    .limit(_RECORDED_AT_ONCE)
)
_LEAVE = (
    sa.update(TURNS)
    .where(TURNS.c.owner == sa.bindparam("me"), TURNS.c.is_over == sa.false())
    .values(owner="")
)
# A row that changes makes whoever closes the turn to messages wait, and see this one.
_TAKE_MESSAGE = (
    sa.update(TURNS)
    .where(
        TURNS.c.turn_id == sa.bindparam("into"),
        TURNS.c.is_over == sa.false(),
        TURNS.c.is_closing == sa.false(),
        # One that tells a decision has no word to say to anything else.
        TURNS.c.input_kind != DECISION,
        TURNS.c.interjection_count < MOST_WAITING,
    )
    .values(interjection_count=TURNS.c.interjection_count + 1)
)
_COUNT = sa.select(TURNS.c.interjection_count).where(TURNS.c.turn_id == sa.bindparam("into"))
_UNASKED = sa.and_(TURNS.c.is_over == sa.false(), TURNS.c.stop == "")
_STOP = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id == sa.bindparam("turn"), _UNASKED)
    .values(stop=sa.bindparam("how"))
)
_STOP_OTHERS = (
    sa.update(TURNS)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        TURNS.c.user_id == sa.bindparam("person"),
        TURNS.c.turn_id != sa.bindparam("turn"),
        _UNASKED,
    )
    .values(stop=Stop.INTERRUPT.value)
    .returning(TURNS.c.turn_id)
)
_STOPS = sa.select(TURNS.c.turn_id, TURNS.c.stop).where(
    TURNS.c.turn_id.in_(sa.bindparam("turns", expanding=True)), TURNS.c.stop != ""
)


class SqlTurns:
    """Implements TurnStore. `owner` names this process, whose life LeasedWriters keeps known."""

    def __init__(self, database: Database, *, owner: str, writers: LeasedWriters) -> None:
        self._database = database
        self._owner = owner
        self._writers = writers
        self._requests = TurnRequests(database)

    async def admit(self, turn: Turn, policy: DoubleTexting = DoubleTexting.ENQUEUE) -> Admission:
        context = turn.context
        parameters = {"turn": context.turn_id}

        def insert(connection: sa.Connection) -> Admission:
            if policy is not DoubleTexting.ENQUEUE:
                lock_name(connection, f"session:{context.session_id}")
            if policy is DoubleTexting.INTERJECT:
                merged = self._merged(connection, turn)
                if merged is not None:
                    return merged
            if not insert_if_absent(connection, TURNS, row_of(turn) | {"owner": self._owner}):
                return _standing(connection, turn)
            ahead = connection.execute(_AHEAD, parameters).scalar_one()
            if policy is DoubleTexting.REJECT and ahead:
                raise _is_running(context.session_id)
            if ahead > MOST_WAITING:
                raise _too_many(context.session_id)
            stopped: tuple[TurnId, ...] = ()
            if policy is DoubleTexting.INTERRUPT and ahead:
                whose = {"session": context.session_id, "person": context.user_id}
                others = connection.execute(_STOP_OTHERS, parameters | whose)
                stopped = tuple(TurnId(each) for each in others.scalars())
                self._requests.tell_steered(connection, stopped)
            epoch = 0 if ahead else self._writers.take(connection, context.session_id)
            return Admission(is_new=True, is_over=False, ahead=ahead, stopped=stopped, epoch=epoch)

        return await self._database.transaction(insert, brief=True)

    def _merged(self, connection: sa.Connection, turn: Turn) -> Admission | None:
        """The message put into the session's live turn, if there is one that takes it."""
        context = turn.context
        if connection.execute(_FIND, {"turn": context.turn_id}).first() is not None:
            return _standing(connection, turn)
        of_session = {"session": context.session_id, "person": context.user_id}
        into = connection.execute(_LIVE, of_session).scalar()
        if into is None or not connection.execute(_TAKE_MESSAGE, {"into": into}).rowcount:
            return None
        return self._put(connection, turn, TurnId(into))

    async def steer(self, message: Turn, into: TurnId) -> Admission:
        context = message.context

        def put(connection: sa.Connection) -> Admission:
            lock_name(connection, f"session:{context.session_id}")
            if connection.execute(_FIND, {"turn": context.turn_id}).first() is not None:
                return _said(connection, message)
            target = connection.execute(_FIND, {"turn": into}).first()
            ours = (context.user_id, context.session_id)
            if target is None or (target.user_id, target.session_id) != ours:
                raise _unknown_turn(into)
            if not connection.execute(_TAKE_MESSAGE, {"into": into}).rowcount:
                if connection.execute(_COUNT, {"into": into}).scalar_one() >= MOST_WAITING:
                    raise LimitExceeded(
                        f"{MOST_WAITING} messages were put into this turn already",
                        metadata={"turn_id": into},
                    )
                raise _takes_no_more(into)
            return self._put(connection, message, into)

        return await self._database.transaction(put, brief=True)

    def _put(self, connection: sa.Connection, message: Turn, into: TurnId) -> Admission:
        said = {"owner": "", "is_over": True, "interjected_into": into}
        if not insert_if_absent(connection, TURNS, row_of(message) | said):
            raise Conflict("the same message came twice at once", reason=ErrorReason.TURN_RUNNING)
        self._requests.tell_steered(connection, [into])
        return Admission(is_new=True, is_over=False, into=into)

    async def request_stop(self, turn_id: TurnId, user_id: UserId, stop: Stop) -> TurnId | None:
        def ask(connection: sa.Connection) -> TurnId | None:
            row = connection.execute(_FIND, {"turn": turn_id}).first()
            if row is not None and row.interjected_into:  # a message: the turn it went into
                row = connection.execute(_FIND, {"turn": row.interjected_into}).first()
            if row is None or row.user_id != user_id:
                raise _unknown_turn(turn_id)
            if connection.execute(_STOP, {"turn": row.turn_id, "how": stop.value}).rowcount:
                self._requests.tell_steered(connection, [row.turn_id])
            return None if row.is_over else TurnId(row.turn_id)

        return await self._database.transaction(ask, brief=True)

    async def steering(self, turn_ids: Collection[TurnId]) -> dict[TurnId, Steering]:
        def look(connection: sa.Connection) -> dict[TurnId, Steering]:
            rows = connection.execute(_STOPS, {"turns": list(turn_ids)})
            stops = {TurnId(row.turn_id): Stop(row.stop) for row in rows}
            said = interjections_into(connection, turn_ids)
            return {
                turn_id: Steering(stop=stops.get(turn_id), interjections=said.get(turn_id, ()))
                for turn_id in {*stops, *said}
            }

        return await self._database.read(look)

    async def next_steered(self) -> Collection[TurnId]:
        return await self._requests.next_steered()

    async def ahead(self, turn_id: TurnId) -> int:
        parameters = {"turn": turn_id}
        return await through_outage(
            lambda: self._database.read(
                lambda c: c.execute(_AHEAD, parameters).scalar_one(), brief=True
            ),
            seconds=OUTAGE_SECONDS,
        )

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        row = await self._database.read(
            lambda c: c.execute(_FIND, {"turn": turn_id}).first(), brief=True
        )
        return None if row is None or row.user_id != user_id else _found(row)

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        parameters = {"session": session_id, "person": user_id}
        found = await self._database.read(
            lambda c: c.execute(_LIVE, parameters).scalar(), brief=True
        )
        return None if found is None else TurnId(found)

    async def claim(self, running: Collection[TurnId]) -> list[Claimed]:
        known = set(running)
        unfinished = await self._database.read(
            lambda c: c.execute(_UNFINISHED, {"me": self._owner}).mappings().all()
        )
        left = [row for row in unfinished if row["turn_id"] not in known]

        def claim(connection: sa.Connection) -> list[Claimed]:
            claimed: list[Claimed] = []
            for row in left:
                names = {"turn": row["turn_id"], "before": row["owner"], "me": self._owner}
                take_overs = connection.execute(_CLAIM, names).scalar()
                if take_overs is not None:
                    claimed.append(Claimed(turn=turn_of(row), take_overs=take_overs))
            return claimed

        return await self._database.transaction(claim) if left else []

    async def unrecorded(self) -> list[Turn]:
        rows = await self._database.read(lambda c: c.execute(_UNRECORDED).mappings().all())
        return [turn_of(row) for row in rows]

    async def leave(self) -> None:
        def leave(connection: sa.Connection) -> None:
            if connection.execute(_LEAVE, {"me": self._owner}).rowcount:
                self._requests.tell_left(connection)

        await self._database.transaction(leave)

    async def next_left(self) -> None:
        await self._requests.next_left(RECOVER_EVERY_SECONDS)

    async def listen_forever(self) -> None:
        """Hear what other replicas were asked or leave; runs until cancelled."""
        await self._requests.listen_forever()


def _standing(connection: sa.Connection, turn: Turn) -> Admission:
    """What stands under this id. Raises NotFound when it is another user's."""
    row = connection.execute(_FIND, {"turn": turn.context.turn_id}).one()
    if row.user_id != turn.context.user_id:
        raise _unknown_turn(turn.context.turn_id)
    return _found(row)


def _said(connection: sa.Connection, message: Turn) -> Admission:
    """The turn that a message of this id went into. Raises Conflict (IDEMPOTENCY_KEY_REUSED) when
    another message, or a turn, has its id."""
    standing = _standing(connection, message)
    row = connection.execute(_FIND, {"turn": message.context.turn_id}).one()
    if standing.into is None or row.input_text != input_text(message.input):
        raise Conflict(
            "another message has this id",
            reason=ErrorReason.IDEMPOTENCY_KEY_REUSED,
            metadata={"turn_id": message.context.turn_id},
        )
    return standing


def _found(row: Any) -> Admission:
    into = TurnId(row.interjected_into) if row.interjected_into else None
    return Admission(is_new=False, is_over=row.is_over, into=into)


def _is_running(session_id: SessionId) -> Conflict:
    return Conflict(
        "another turn of this session is running",
        reason=ErrorReason.TURN_RUNNING,
        metadata={"session_id": session_id},
    )


def _takes_no_more(turn_id: TurnId) -> Conflict:
    return Conflict(
        "this turn takes no more messages; send it as one of its own",
        reason=ErrorReason.TURN_OVER,
        metadata={"turn_id": turn_id},
    )


def _too_many(session_id: SessionId) -> LimitExceeded:
    return LimitExceeded(
        f"{MOST_WAITING} messages wait in this session already",
        metadata={"session_id": session_id},
    )


def _unknown_turn(turn_id: TurnId) -> NotFound:
    return NotFound(
        "no such turn", reason=ErrorReason.TURN_NOT_FOUND, metadata={"turn_id": turn_id}
    )
