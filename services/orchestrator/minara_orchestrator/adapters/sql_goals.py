"""Standing goals in the orchestrator's own database."""

import json
from dataclasses import replace

import sqlalchemy as sa

from minara_core.ids import SessionId, TurnId, UserId
from minara_core.tooling import dump_json
from minara_orchestrator.adapters.sql_tables import GOALS
from minara_orchestrator.app.goal_ports import GoalChange
from minara_orchestrator.domain.goal import Goal, GoalState, PausedReason, Verdict
from minara_runtime.database import Database
from minara_runtime.statements import database_time, lock_name

_MINE = sa.and_(
    GOALS.c.session_id == sa.bindparam("its_session"),
    GOALS.c.user_id == sa.bindparam("its_person"),
)
_GOAL = sa.select(GOALS).where(_MINE)
_DELETE = sa.delete(GOALS).where(_MINE)
_INSERT = sa.insert(GOALS)
_UPDATE = (
    sa.update(GOALS)
    .where(_MINE)
    .values({column.name: sa.bindparam(f"new_{column.name}") for column in GOALS.c})
)


class SqlGoals:
    """Implements Goals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session_id: SessionId, user_id: UserId) -> Goal | None:
        key = _key(session_id, user_id)
        return await self._database.read(lambda connection: _found(connection, key), brief=True)

    async def change(
        self, session_id: SessionId, user_id: UserId, change: GoalChange
    ) -> Goal | None:
        key = _key(session_id, user_id)

        def write(connection: sa.Connection) -> Goal | None:
            # A row that is not there yet cannot be locked, so its name is.
            lock_name(connection, f"goal:{dump_json([session_id, user_id])}")
            found = _found(connection, key)
            now = database_time(connection)
            wanted = change(found, now)
            if wanted == found:
                return found
            if wanted is None:
                connection.execute(_DELETE, key)
                return None
            stands = replace(wanted, update_time=now)
            row = _row(stands)
            if found is None:
                connection.execute(_INSERT, row)
            else:
                new = {f"new_{name}": value for name, value in row.items()}
                connection.execute(_UPDATE, key | new)
            return stands

        return await self._database.transaction(write)


def _key(session_id: SessionId, user_id: UserId) -> dict[str, object]:
    return {"its_session": session_id, "its_person": user_id}


def _found(connection: sa.Connection, key: dict[str, object]) -> Goal | None:
    row = connection.execute(_GOAL, key).one_or_none()
    if row is None:
        return None
    return Goal(
        session_id=SessionId(row.session_id),
        user_id=UserId(row.user_id),
        text=row.text,
        state=GoalState(row.state),
        turns_used=row.turns_used,
        max_turns=row.max_turns,
        subgoals=tuple(json.loads(row.subgoals)),
        last_verdict=Verdict(row.last_verdict) if row.last_verdict else None,
        last_reason=row.last_reason,
        paused_reason=PausedReason(row.paused_reason) if row.paused_reason else None,
        last_turn_id=TurnId(row.last_turn_id) if row.last_turn_id else None,
        create_time=row.create_time,
        update_time=row.update_time,
    )


def _row(goal: Goal) -> dict[str, object]:
    return {
        "session_id": goal.session_id,
        "user_id": goal.user_id,
        "text": goal.text,
        "state": goal.state.value,
        "turns_used": goal.turns_used,
        "max_turns": goal.max_turns,
        "subgoals": dump_json(list(goal.subgoals)),
        "last_verdict": goal.last_verdict.value if goal.last_verdict else "",
        "last_reason": goal.last_reason,
        "paused_reason": goal.paused_reason.value if goal.paused_reason else "",
        "last_turn_id": goal.last_turn_id or "",
        "create_time": goal.create_time,
        "update_time": goal.update_time,
    }
