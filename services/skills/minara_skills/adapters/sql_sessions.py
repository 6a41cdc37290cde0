"""Routing rows in the skills service's own database."""

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.clock import Clock
from minara_core.taxonomy import LifecycleStage
from minara_core.turn_context import TurnContext
from minara_runtime.columns import UtcTime
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent, lock_row
from minara_skills.domain.session import SkillSession

VERSIONS = Path(__file__).parent / "migrations" / "versions"

_TABLES = sa.MetaData()
SKILL_SESSIONS = sa.Table(
    "skill_sessions",
    _TABLES,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("turn_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("assets", sa.Text, nullable=False),
    sa.Column("skill_ids", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.UniqueConstraint("user_id", "turn_id", name="skill_sessions_by_turn"),
    sa.Index("skill_sessions_by_session", "user_id", "session_id", "position"),
)
_ROWS = SKILL_SESSIONS.c
_OWN = sa.and_(_ROWS.user_id == sa.bindparam("person"), _ROWS.turn_id == sa.bindparam("turn"))
_OWN_POSITION = sa.select(_ROWS.position).where(_OWN).scalar_subquery()
_PREVIOUS = (
    sa.select(_ROWS.stage, _ROWS.assets, _ROWS.skill_ids)
    .where(
        _ROWS.user_id == sa.bindparam("person"),
        _ROWS.session_id == sa.bindparam("session"),
        sa.or_(_OWN_POSITION.is_(None), _ROWS.position < _OWN_POSITION),
    )
    .order_by(_ROWS.position.desc())
    .limit(1)
)
_SKILLS = sa.select(_ROWS.skill_ids).where(_OWN)
_SET_SKILLS = sa.update(SKILL_SESSIONS).where(_OWN).values(skill_ids=sa.bindparam("names"))


class SqlSkillSessions:
    """Implements SkillSessions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def previous(self, context: TurnContext) -> SkillSession | None:
        parameters = _keys(context) | {"session": context.session_id}
        row = await self._database.read(
            lambda c: c.execute(_PREVIOUS, parameters).first(), brief=True
        )
        return None if row is None else _session(row)

    async def record(self, context: TurnContext, session: SkillSession) -> None:
        values = {
            "turn_id": context.turn_id,
            "session_id": context.session_id,
            "user_id": context.user_id,
            "stage": session.stage.value,
            "assets": json.dumps(session.assets),
            "skill_ids": json.dumps(session.skill_ids),
            "create_time": self._clock.now(),
        }
        await self._database.transaction(
            lambda c: insert_if_absent(c, SKILL_SESSIONS, values), brief=True
        )

    async def add_skills(self, context: TurnContext, skill_ids: tuple[str, ...]) -> None:
        keys = _keys(context)

        def add(connection: sa.Connection) -> None:
            row = lock_row(connection, _SKILLS, keys)
            if row is not None:
                names = list(dict.fromkeys([*json.loads(row.skill_ids), *skill_ids]))
                connection.execute(_SET_SKILLS, keys | {"names": json.dumps(names)})

        await self._database.transaction(add)


def _keys(context: TurnContext) -> dict[str, str]:
    return {"person": context.user_id, "turn": context.turn_id}


def _session(row: Any) -> SkillSession:
    return SkillSession(
        stage=LifecycleStage(row.stage),
        assets=tuple(json.loads(row.assets)),
        skill_ids=tuple(json.loads(row.skill_ids)),
    )
