"""Pending actions: read, and moved on under their row lock."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import Clock
from minara_core.errors import Conflict, NotFound
from minara_core.ids import PendingActionId, ToolCallId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_tools.adapters.sql_action_rows import (
    Rows,
    insert_event,
    load_actions,
    locked_neighbours,
    write_change,
    write_parking,
)
from minara_tools.adapters.sql_tables import PENDING_ACTIONS
from minara_tools.adapters.sql_trading import HasHaltFile, held_trading_standing
from minara_tools.app.stores import ActionPage, ActionStep, ParkedAction

_FIND = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.pending_action_id == sa.bindparam("action"),
    PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
)
_LOCK = _FIND.with_for_update()
_OF_CALL = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.turn_id == sa.bindparam("turn"),
    PENDING_ACTIONS.c.tool_call_id == sa.bindparam("call"),
    PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
)
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
_NEWEST = 2**62


class SqlActions:
    """Implements ActionStore."""

    def __init__(self, database: Database, has_halt_file: HasHaltFile, clock: Clock) -> None:
        self._database = database
        self._has_halt_file = has_halt_file
        self._clock = clock

    async def find(self, action_id: PendingActionId, user_id: UserId) -> PendingAction:
        parameters = {"action": action_id, "person": user_id}

        def look(connection: sa.Connection) -> PendingAction:
            return _one(connection, connection.execute(_FIND, parameters).mappings().all())

        return await self._database.read(look)

    async def of_call(
        self, user_id: UserId, turn_id: TurnId, call_id: ToolCallId
    ) -> PendingAction | None:
        parameters = {"turn": turn_id, "call": call_id, "person": user_id}

        def look(connection: sa.Connection) -> PendingAction | None:
            rows = connection.execute(_OF_CALL, parameters).mappings().all()
            return next(iter(load_actions(connection, rows)), None)

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

    async def park(
        self,
        user_id: UserId,
        since: datetime,
        plan: Callable[[Sequence[PendingAction]], ParkedAction],
    ) -> ParkedAction:
        def write(connection: sa.Connection) -> ParkedAction:
            parked = plan(locked_neighbours(connection, user_id, since))
            action = parked.parking.action
            call = {"turn": action.turn_id, "call": action.tool_call_id, "person": user_id}
            if connection.execute(_OF_CALL, call).first() is not None:
                raise Conflict("this call has its action", reason=ErrorReason.ALREADY_EXISTS)
            write_parking(connection, parked.parking)
            audit_chain.append(connection, parked.audits)
            insert_event(connection, parked.tier_event)
            return parked

        return await self._database.transaction(write)

    async def change(
        self, action_id: PendingActionId, user_id: UserId, step: ActionStep
    ) -> PendingAction:
        parameters = {"action": action_id, "person": user_id}

        def write(connection: sa.Connection) -> PendingAction:
            trading = held_trading_standing(connection, user_id, self._has_halt_file)
            action = _one(connection, connection.execute(_LOCK, parameters).mappings().all())
            change = step(action, trading)
            write_change(connection, change, now=self._clock.now())
            return change.action or action

        return await self._database.transaction(write)

    async def overdue(self, now: datetime) -> tuple[PendingAction, ...]:
        def look(connection: sa.Connection) -> tuple[PendingAction, ...]:
            rows = connection.execute(_OVERDUE, {"now": now}).mappings().all()
            return load_actions(connection, rows)

        return await self._database.read(look)


def _one(connection: sa.Connection, rows: Rows) -> PendingAction:
    if not rows:
        raise NotFound("no such action", reason=ErrorReason.ACTION_NOT_FOUND)
    return load_actions(connection, rows)[0]
