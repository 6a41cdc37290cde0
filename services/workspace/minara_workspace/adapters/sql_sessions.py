"""Sessions and turns in the workspace's own database."""

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.errors import Conflict, NotFound
from minara_core.ids import SessionId, UserId
from minara_core.reasons import ErrorReason
from minara_runtime import audit
from minara_runtime.database import Database
from minara_runtime.statements import database_time, insert_if_absent, lock_row
from minara_workspace.adapters.page_tokens import decode_token, encode_token
from minara_workspace.adapters.sql_session_blocks import (
    forget_blocks,
    freeze,
    frozen,
    refresh_time,
)
from minara_workspace.adapters.sql_session_history import compact, history, spent_today
from minara_workspace.adapters.sql_session_rows import (
    commit_audit,
    decision_row,
    heartbeat_of,
    refresh_audit,
    session_of,
    turn_of,
    turn_row,
)
from minara_workspace.adapters.sql_tables import DECISIONS, SESSIONS, TURNS
from minara_workspace.app.ports import Page, Recorded, SessionMaterial
from minara_workspace.domain.decisions import Decision
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import (
    FrozenBlocks,
    Session,
    TurnRecord,
    title_from,
)

VERSIONS = Path(__file__).parent / "migrations" / "versions"

_SESSION = sa.select(SESSIONS).where(SESSIONS.c.session_id == sa.bindparam("session"))
_TURN = sa.select(TURNS).where(TURNS.c.turn_id == sa.bindparam("turn"))
_INSERT_TURN = sa.insert(TURNS)
_INSERT_DECISION = sa.insert(DECISIONS)
_ADVANCE = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.session_id == sa.bindparam("session"))
    .values(
        title=sa.bindparam("new_title"),
        update_time=sa.bindparam("now"),
        turn_count=sa.bindparam("number"),
        latest_turn_id=sa.bindparam("turn"),
        latest_finish_reason=sa.bindparam("finish"),
        epoch=sa.bindparam("new_epoch"),
        sent_blocks=sa.bindparam("sent"),
    )
)
_OF_USER = (
    sa.select(SESSIONS)
    .where(
        SESSIONS.c.user_id == sa.bindparam("person"),
        sa.tuple_(SESSIONS.c.update_time, SESSIONS.c.session_id)
        < sa.tuple_(
            sa.bindparam("before", type_=SESSIONS.c.update_time.type), sa.bindparam("below")
        ),
    )
    .order_by(SESSIONS.c.update_time.desc(), SESSIONS.c.session_id.desc())
    .limit(sa.bindparam("size"))
)
_NEWEST = (
    sa.select(SESSIONS)
    .where(SESSIONS.c.user_id == sa.bindparam("person"))
    .order_by(SESSIONS.c.update_time.desc(), SESSIONS.c.session_id.desc())
    .limit(sa.bindparam("size"))
)
_TURNS_AFTER = (
    sa.select(TURNS)
    .where(
        TURNS.c.session_id == sa.bindparam("session"), TURNS.c.turn_number > sa.bindparam("after")
    )
    .order_by(TURNS.c.turn_number)
    .limit(sa.bindparam("size"))
)
_RANKED = (
    sa.select(
        SESSIONS.c.latest_turn_id,
        sa.func.row_number()
        .over(
            partition_by=SESSIONS.c.user_id,
            order_by=[SESSIONS.c.update_time.desc(), SESSIONS.c.session_id.desc()],
        )
        .label("rank"),
    )
    .where(SESSIONS.c.turn_count > 0)
    .subquery()
)
_LATEST_PER_USER = (
    sa.select(TURNS).join(_RANKED, TURNS.c.turn_id == _RANKED.c.latest_turn_id)
).where(_RANKED.c.rank == 1)
_LATEST = (
    sa.select(TURNS)
    .join(SESSIONS, TURNS.c.turn_id == SESSIONS.c.latest_turn_id)
    .where(SESSIONS.c.user_id == sa.bindparam("person"), SESSIONS.c.turn_count > 0)
    .order_by(SESSIONS.c.update_time.desc(), SESSIONS.c.session_id.desc())
    .limit(1)
)


class SqlSessions:
    """Implements Sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, session: Session) -> Session:
        values = {
            "session_id": session.session_id,
            "user_id": session.user_id,
            "title": session.title,
            "create_time": session.create_time,
            "update_time": session.update_time,
            "turn_count": 0,
            "latest_turn_id": "",
            "latest_finish_reason": "",
            "epoch": 0,
            "sent_blocks": "[]",
        }

        def insert(connection: sa.Connection) -> Session:
            if insert_if_absent(connection, SESSIONS, values):
                return session
            return session_of(_owned(connection, session.session_id, session.user_id))

        return await self._database.transaction(insert)

    async def get(self, session_id: SessionId, user_id: UserId) -> Session:
        return session_of(await self._database.read(lambda c: _owned(c, session_id, user_id)))

    async def material(self, session_id: SessionId, user_id: UserId) -> SessionMaterial:
        def read(connection: sa.Connection) -> SessionMaterial:
            row = _owned(connection, session_id, user_id)
            blocks = frozen(connection, session_id)
            return SessionMaterial(
                session=session_of(row),
                blocks=blocks,
                history=history(connection, session_id),
                sent_blocks=tuple(json.loads(row.sent_blocks)),
                spent_today_usd=spent_today(connection, session_id),
                refresh_time=None if blocks else refresh_time(connection, session_id),
            )

        # However long, the history takes less to read than to parse, which this thread does next.
        return await self._database.read(read, brief=True)

    async def commit(
        self, record: TurnRecord, blocks: FrozenBlocks | None, decision: Decision | None = None
    ) -> Recorded:
        def write(connection: sa.Connection) -> Recorded:
            of_session = {"session": record.session_id}
            session = _check_owner(lock_row(connection, _SESSION, of_session), record.user_id)
            standing = connection.execute(_TURN, {"turn": record.turn_id}).mappings().first()
            if standing is not None:
                _check_session(standing, record)
                return Recorded(turn=turn_of(standing), is_new=False)
            if record.epoch < session.epoch:
                raise Conflict(
                    "a newer writer owns this session",
                    reason=ErrorReason.EPOCH_STALE,
                    metadata={"epoch": str(record.epoch), "seen": str(session.epoch)},
                )
            row = turn_row(record, session.turn_count + 1) | {
                "commit_time": database_time(connection)
            }
            connection.execute(_INSERT_TURN, row)
            sent = _sent_before(connection, record, session, row)
            connection.execute(_ADVANCE, _advance(record, session, row, sent))
            if blocks is not None:
                freeze(connection, record.session_id, blocks)
            if decision is not None:
                connection.execute(_INSERT_DECISION, decision_row(decision, row["commit_time"]))
            audit.append(connection, [commit_audit(record, row)])
            return Recorded(turn=turn_of(row), is_new=True)

        return await self._database.transaction(write, brief=True)

    async def refresh(self, session_id: SessionId, user_id: UserId) -> None:
        def forget(connection: sa.Connection) -> None:
            of_session = {"session": session_id}
            _check_owner(lock_row(connection, _SESSION, of_session), user_id)
            now = database_time(connection)
            if forget_blocks(connection, session_id, now):
                audit.append(connection, [refresh_audit(session_id, user_id, now)])

        await self._database.transaction(forget)

    async def list_sessions(self, user_id: UserId, *, size: int, token: str) -> Page:
        place = decode_token(token)
        parameters: dict[str, Any] = {"person": user_id, "size": size + 1}
        statement = _NEWEST
        if place is not None:
            statement = _OF_USER
            parameters |= {"before": place.time, "below": place.name}
        rows = await self._database.read(lambda c: c.execute(statement, parameters).all())
        found = tuple(session_of(row) for row in rows[:size])
        more = len(rows) > size
        return Page(
            sessions=found,
            next_token=encode_token(found[-1].session_id, found[-1].update_time) if more else "",
        )

    async def list_turns(
        self, session_id: SessionId, user_id: UserId, *, size: int, token: str
    ) -> Page:
        place = decode_token(token)
        after = place.number if place is not None else 0

        def read(connection: sa.Connection) -> list[Any]:
            _owned(connection, session_id, user_id)
            parameters = {"session": session_id, "after": after, "size": size + 1}
            return list(connection.execute(_TURNS_AFTER, parameters).mappings())

        rows = await self._database.read(read)
        found = tuple(turn_of(row) for row in rows[:size])
        more = len(rows) > size
        return Page(
            turns=found,
            next_token=(
                encode_token(str(found[-1].turn_number), found[-1].commit_time) if more else ""
            ),
        )

    async def latest_heartbeats(self) -> dict[UserId, Heartbeat]:
        rows = await self._database.read(lambda c: c.execute(_LATEST_PER_USER).mappings().all())
        return {UserId(row["user_id"]): heartbeat_of(row) for row in rows}

    async def latest_heartbeat(self, user_id: UserId) -> Heartbeat | None:
        parameters = {"person": user_id}
        row = await self._database.read(lambda c: c.execute(_LATEST, parameters).mappings().first())
        return None if row is None else heartbeat_of(row)


def _owned(connection: sa.Connection, session_id: SessionId, user_id: UserId) -> Any:
    return _check_owner(connection.execute(_SESSION, {"session": session_id}).first(), user_id)


def _check_owner(row: Any, user_id: UserId) -> Any:
    if row is None or row.user_id != user_id:
        raise NotFound("no such session", reason=ErrorReason.SESSION_NOT_FOUND)
    return row


def _check_session(standing: Any, record: TurnRecord) -> None:
    if standing["session_id"] != record.session_id:
        raise Conflict(
            "this turn is recorded in another session",
            reason=ErrorReason.IDEMPOTENCY_KEY_REUSED,
            metadata={"turn_id": record.turn_id},
        )


def _sent_before(
    connection: sa.Connection, record: TurnRecord, session: Any, row: dict[str, Any]
) -> list[str]:
    """The blocks in the history before this turn, as its compaction leaves it."""
    compaction, count = record.compaction, session.turn_count
    if compaction is not None and compact(
        connection, record.session_id, compaction, turn_count=count, now=row["commit_time"]
    ):
        return list(compaction.sent_blocks)
    return json.loads(session.sent_blocks)


def _advance(
    record: TurnRecord, session: Any, row: dict[str, Any], sent_before: list[str]
) -> dict[str, Any]:
    sent = list(dict.fromkeys([*sent_before, *record.sent_blocks]))
    return {
        "session": record.session_id,
        "new_title": session.title or title_from(record.message),
        "now": row["commit_time"],
        "number": row["turn_number"],
        "turn": record.turn_id,
        "finish": row["finish_reason"],
        "new_epoch": max(record.epoch, session.epoch),
        "sent": json.dumps(sent),
    }
