"""Pending actions: read, and moved on under their row lock."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import Clock
from minara_core.errors import NotFound
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import ErrorReason
from minara_runtime.database import Database
from minara_runtime.process_lease import lives
from minara_tools.adapters.sql_action_rows import Rows, load_actions, write_change
from minara_tools.adapters.sql_tables import PENDING_ACTIONS
from minara_tools.adapters.sql_trading import HasHaltFile, held_trading_standing
from minara_tools.app.stores import ActionPage, ActionStep, UnsettledAction

_FIND = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.pending_action_id == sa.bindparam("action"),
    PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
)
_LOCK = _FIND.with_for_update()
_PAGE = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
        PENDING_ACTIONS.c.position < sa.bindparam("before"),
    )
    .order_by(PENDING_ACTIONS.c.position.desc())
    .limit(sa.bindparam("size"))
)
_PENDING_NOW = sa.and_(
    PENDING_ACTIONS.c.state == ActionState.PENDING.value,
    PENDING_ACTIONS.c.expire_time > sa.bindparam("now"),
)
_OVERDUE = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.state == ActionState.PENDING.value,
        PENDING_ACTIONS.c.expire_time <= sa.bindparam("now"),
    )
    .order_by(PENDING_ACTIONS.c.position)
    .limit(500)
)
_UNSETTLED = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.state.in_([ActionState.EXECUTING.value, ActionState.UNCERTAIN.value]),
        sa.or_(PENDING_ACTIONS.c.sender == sa.bindparam("own"), ~lives(PENDING_ACTIONS.c.sender)),
    )
    .order_by(PENDING_ACTIONS.c.position)
    .limit(500)
)
_NEWEST = 2**62


class SqlActions:
    """Implements ActionStore. `owner` names this process, whose life ProcessLease keeps known."""

    def __init__(
        self, database: Database, has_halt_file: HasHaltFile, clock: Clock, *, owner: str
    ) -> None:
        self._database = database
        self._has_halt_file = has_halt_file
        self._clock = clock
        self._owner = owner

    async def find(self, action_id: PendingActionId, user_id: UserId) -> PendingAction:
        parameters = {"action": action_id, "person": user_id}

        def look(connection: sa.Connection) -> PendingAction:
            return _one(connection, connection.execute(_FIND, parameters).mappings().all())

        return await self._database.read(look)

    async def page(
        self,
        user_id: UserId,
        *,
        session_id: str,
        include_decided: bool,
        before: int,
        size: int,
    ) -> ActionPage:
        parameters: dict[str, Any] = {
            "person": user_id,
            "before": before or _NEWEST,
            "size": size + 1,
        }
        statement = _PAGE
        if session_id:
            statement = statement.where(PENDING_ACTIONS.c.session_id == sa.bindparam("session"))
            parameters["session"] = session_id
        if not include_decided:
            statement = statement.where(_PENDING_NOW)
            parameters["now"] = self._clock.now()

        def look(connection: sa.Connection) -> ActionPage:
            rows = connection.execute(statement, parameters).mappings().all()
            shown = rows[:size]
            return ActionPage(
                actions=load_actions(connection, shown),
                next_position=shown[-1]["position"] if len(rows) > size else 0,
            )

        return await self._database.read(look)

    async def change(
        self, action_id: PendingActionId, user_id: UserId, step: ActionStep
    ) -> PendingAction:
        parameters = {"action": action_id, "person": user_id}

        def write(connection: sa.Connection) -> PendingAction:
            trading = held_trading_standing(connection, user_id, self._has_halt_file)
            action = _one(connection, connection.execute(_LOCK, parameters).mappings().all())
            change = step(action, trading)
            write_change(connection, change, now=self._clock.now(), sender=self._owner)
            return change.action or action

        return await self._database.transaction(write)

    async def overdue(self, now: datetime) -> tuple[PendingAction, ...]:
        def look(connection: sa.Connection) -> tuple[PendingAction, ...]:
            rows = connection.execute(_OVERDUE, {"now": now}).mappings().all()
            return load_actions(connection, rows)

        return await self._database.read(look)

    async def unsettled(self, but: Collection[PendingActionId]) -> tuple[UnsettledAction, ...]:
        def look(connection: sa.Connection) -> tuple[UnsettledAction, ...]:
            found = connection.execute(_UNSETTLED, {"own": self._owner}).mappings().all()
            rows = [row for row in found if row["pending_action_id"] not in but]
            actions = load_actions(connection, rows)
            # Who has an SQLite file has it alone, so every earlier sender is dead.
            is_alone = connection.dialect.name == "sqlite"
            return tuple(
                UnsettledAction(
                    action=action, is_sender_dead=is_alone and row["sender"] != self._owner
                )
                for action, row in zip(actions, rows, strict=True)
            )

        return await self._database.read(look)


def _one(connection: sa.Connection, rows: Rows) -> PendingAction:
    if not rows:
        raise NotFound("no such action", reason=ErrorReason.ACTION_NOT_FOUND)
    return load_actions(connection, rows)[0]
