"""Rows of turns and of their sessions, written under the session's lock."""

import json
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from minara_core.errors import Conflict, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier
from minara_runtime.statements import insert_if_absent
from minara_tools.adapters.sql_tables import SESSIONS, TURNS
from minara_tools.app.stores import TurnRecord

_TURN = sa.select(TURNS).where(TURNS.c.turn_id == sa.bindparam("turn"))
_CLOSE_OTHERS = (
    sa.update(TURNS)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        TURNS.c.turn_id != sa.bindparam("turn"),
        TURNS.c.is_open == sa.true(),
    )
    .values(is_open=False)
)


def register(connection: sa.Connection, turn: TurnRecord) -> None:
    """Write a turn and close the session's one before. Raises as TurnStore.open."""
    _see_session(connection, turn)
    if insert_if_absent(connection, TURNS, turn_row(turn)):
        others = {"session": turn.session_id, "turn": turn.turn_id}
        connection.execute(_CLOSE_OTHERS, others)
        return
    _check_same(connection, turn)


def interject(connection: sa.Connection, message: TurnRecord) -> None:
    """Write a message down as said in an open turn. Raises as TurnStore.interject."""
    _see_session(connection, message)
    turn = connection.execute(_TURN, {"turn": message.into_turn_id}).first()
    owner = (message.user_id, message.session_id)
    if turn is None or (turn.user_id, turn.session_id) != owner or turn.into_turn_id:
        raise NotFound("no such turn", reason=ErrorReason.TURN_NOT_FOUND)
    if not insert_if_absent(connection, TURNS, turn_row(message)):
        _check_same(connection, message)
    elif not turn.is_open:
        raise Conflict(
            "this turn is over",
            reason=ErrorReason.TURN_OVER,
            metadata={"turn_id": message.into_turn_id},
        )


def _check_same(connection: sa.Connection, turn: TurnRecord) -> None:
    known = connection.execute(_TURN, {"turn": turn.turn_id}).one()
    if (known.user_id, known.session_id) != (turn.user_id, turn.session_id):
        raise NotFound("no such turn", reason=ErrorReason.TURN_NOT_FOUND)
    if known.into_turn_id != turn.into_turn_id:
        raise Conflict(
            "this message went elsewhere before",
            reason=ErrorReason.IDEMPOTENCY_KEY_REUSED,
            metadata={"turn_id": turn.turn_id},
        )


def _see_session(connection: sa.Connection, turn: TurnRecord) -> None:
    seen = {"session_id": turn.session_id, "user_id": turn.user_id, "epoch": turn.epoch}
    session = connection.execute(_seen_session(connection.dialect.name), seen).one()
    _check_session(session.user_id, session.epoch, turn)


@cache
def _seen_session(dialect: str) -> ReturningInsert[str, int]:
    """Make or lock a session's row and leave the highest epoch in it; says whose it is."""
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(SESSIONS)
    highest = sa.case(
        (SESSIONS.c.epoch < insert.excluded.epoch, insert.excluded.epoch), else_=SESSIONS.c.epoch
    )
    return insert.on_conflict_do_update(
        index_elements=[SESSIONS.c.session_id], set_={"epoch": highest}
    ).returning(SESSIONS.c.user_id, SESSIONS.c.epoch)


def check_owner(user_id: str, turn: TurnRecord) -> None:
    if user_id != turn.user_id:
        raise NotFound("no such session", reason=ErrorReason.SESSION_NOT_FOUND)


def _check_session(user_id: str, epoch: int, turn: TurnRecord) -> None:
    check_owner(user_id, turn)
    if turn.epoch < epoch:
        raise Conflict(
            "another process serves this session now",
            reason=ErrorReason.EPOCH_STALE,
            metadata={"session_epoch": str(epoch)},
        )


def turn_row(turn: TurnRecord) -> dict[str, object]:
    return {
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "user_id": turn.user_id,
        "origin": turn.origin.value,
        "opted_in": turn.opted_in,
        "granted_sets": json.dumps(sorted(turn.granted_sets)),
        "asked_sets": json.dumps(sorted(turn.asked_sets)),
        "grant_ceiling": int(turn.grant_ceiling),
        "epoch": turn.epoch,
        "message": turn.message.replace("\0", ""),  # PostgreSQL stores no NUL
        "decided_action_id": turn.decided_action_id,
        "into_turn_id": turn.into_turn_id,
        "is_open": not turn.into_turn_id,
        "is_completed": False,
        "open_time": turn.open_time,
    }


def turn_record(row: Any) -> TurnRecord:
    return TurnRecord(
        turn_id=TurnId(row["turn_id"]),
        session_id=SessionId(row["session_id"]),
        user_id=UserId(row["user_id"]),
        origin=Origin(row["origin"]),
        opted_in=row["opted_in"],
        granted_sets=frozenset(json.loads(row["granted_sets"])),
        asked_sets=frozenset(json.loads(row["asked_sets"])),
        grant_ceiling=PermissionTier(row["grant_ceiling"]),
        epoch=row["epoch"],
        message=row["message"],
        decided_action_id=row["decided_action_id"],
        into_turn_id=TurnId(row["into_turn_id"]),
        open_time=row["open_time"],
    )
