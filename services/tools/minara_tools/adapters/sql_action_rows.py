"""Pending actions and their rows, inside somebody's transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from minara_core.actions import ActionState, PendingAction
from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId
from minara_runtime import audit as audit_chain
from minara_runtime.statements import lock_name, one_of
from minara_tools.adapters.sql_tables import PENDING_ACTIONS, TIER_EVENTS, TOOL_CALLS
from minara_tools.app.stores import ActionChange, TierEvent
from minara_tools.domain.action_json import (
    canonical_json,
    order_from_json,
    order_to_json,
    outcome_from_json,
    outcome_to_json,
    preview_from_json,
    preview_to_json,
    read_json,
)
from minara_tools.domain.approvals import Parking, repeats

Rows = Sequence[sa.RowMapping]

_SOURCES = (
    sa.select(TOOL_CALLS.c.turn_id, TOOL_CALLS.c.tool_name)
    .where(
        TOOL_CALLS.c.turn_id.in_(sa.bindparam("turns", expanding=True)),
        TOOL_CALLS.c.marks_turn == sa.true(),
    )
    .distinct()
    .order_by(TOOL_CALLS.c.tool_name)
)
_LOCKED = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.user_id == sa.bindparam("of_user"),
        PENDING_ACTIONS.c.state.in_(sa.bindparam("states", expanding=True)),
    )
    .order_by(PENDING_ACTIONS.c.position)
    .with_for_update()
)
_NEIGHBOURS = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.user_id == sa.bindparam("of_user"),
        sa.or_(
            PENDING_ACTIONS.c.state.in_(
                [
                    ActionState.PENDING.value,
                    ActionState.EXECUTING.value,
                    ActionState.UNCERTAIN.value,
                ]
            ),
            sa.and_(
                PENDING_ACTIONS.c.state == ActionState.DONE.value,
                PENDING_ACTIONS.c.update_time >= sa.bindparam("since"),
            ),
        ),
    )
    .order_by(PENDING_ACTIONS.c.position)
    .with_for_update()
)
_SENT_SINCE = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.user_id.in_(sa.bindparam("users", expanding=True)),
    one_of(
        PENDING_ACTIONS.c.state,
        [ActionState.EXECUTING.value, ActionState.UNCERTAIN.value, ActionState.DONE.value],
    ),
    PENDING_ACTIONS.c.update_time >= sa.bindparam("since"),
)
_BY_IDS = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.pending_action_id.in_(sa.bindparam("action_ids", expanding=True))
)
_MOVE_ON = (
    sa.update(PENDING_ACTIONS)
    .where(PENDING_ACTIONS.c.pending_action_id == sa.bindparam("action_id"))
    .values(
        state=sa.bindparam("to_state"),
        outcome_json=sa.bindparam("to_outcome"),
        possible_duplicate=sa.bindparam("marked"),
        update_time=sa.bindparam("now"),
        told_turn_id="",
    )
)
_INSERT = sa.insert(PENDING_ACTIONS)
_INSERT_EVENT = sa.insert(TIER_EVENTS)


def read_sources(connection: sa.Connection, turn_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What each turn has read from outside: the names of the tools, sorted."""
    found: dict[str, tuple[str, ...]] = {}
    for turn_id, name in connection.execute(_SOURCES, {"turns": sorted(set(turn_ids))}):
        found[turn_id] = (*found.get(turn_id, ()), name)
    return found


def load_actions(connection: sa.Connection, rows: Rows) -> tuple[PendingAction, ...]:
    """Actions of rows, in their order, with what their turns have read until now. An open one is
    a possible duplicate also of an order that was sent after it was made."""
    if not rows:
        return ()
    sources = read_sources(connection, [row["turn_id"] for row in rows])
    actions = tuple(_action(row, sources.get(row["turn_id"], ())) for row in rows)
    waiting = [action for action in actions if action.state is ActionState.PENDING]
    sent = _sent_since(connection, waiting)
    return tuple(_marked(action, sent) for action in actions) if sent else actions


def locked_actions(connection: sa.Connection, user_id: str, states: Iterable[ActionState]) -> Rows:
    """A user's rows in these states, locked in one order for everybody."""
    parameters = {"of_user": user_id, "states": [state.value for state in states]}
    return connection.execute(_LOCKED, parameters).mappings().all()


def locked_neighbours(
    connection: sa.Connection, user_id: str, since: datetime
) -> tuple[PendingAction, ...]:
    """A user's open, unsettled and since then confirmed actions, locked.

    One transaction at a time is behind this for a user, also where there is no row to lock yet: two
    replicas that park at once see each other's action.
    """
    lock_name(connection, f"parking:{user_id}")
    parameters = {"of_user": user_id, "since": since}
    return load_actions(connection, connection.execute(_NEIGHBOURS, parameters).mappings().all())


def write_parking(connection: sa.Connection, parking: Parking) -> None:
    """Store a new action and end those whose place it takes."""
    for old in parking.superseded:
        move_on(connection, old, now=parking.action.create_time)
    insert_action(connection, parking.action)


def actions_by_id(
    connection: sa.Connection, ids: Iterable[PendingActionId]
) -> dict[PendingActionId, PendingAction]:
    wanted = list(ids)
    if not wanted:
        return {}
    rows = connection.execute(_BY_IDS, {"action_ids": wanted}).mappings().all()
    return {action.pending_action_id: action for action in load_actions(connection, rows)}


def insert_action(connection: sa.Connection, action: PendingAction) -> None:
    connection.execute(
        _INSERT,
        {
            "pending_action_id": action.pending_action_id,
            "user_id": action.user_id,
            "session_id": action.session_id,
            "turn_id": action.turn_id,
            "tool_call_id": action.tool_call_id,
            "tool_name": action.tool_name,
            "state": action.state.value,
            "order_json": canonical_json(order_to_json(action.order)),
            "preview_json": canonical_json(preview_to_json(action.preview)),
            "action_hash": action.action_hash,
            "solicited": action.solicited,
            "possible_duplicate": action.possible_duplicate,
            "outcome_json": _outcome_text(action),
            "told_turn_id": "",
            "arguments_json": action.arguments_json,
            "origin": action.origin,
            "create_time": action.create_time,
            "expire_time": action.expire_time,
            "update_time": action.create_time,
        },
    )


def move_on(connection: sa.Connection, action: PendingAction, *, now: datetime) -> None:
    """Write an action's new state and outcome, and whether it was decided as a possible duplicate;
    what comes of it is to be told anew."""
    connection.execute(
        _MOVE_ON,
        {
            "action_id": action.pending_action_id,
            "to_state": action.state.value,
            "to_outcome": _outcome_text(action),
            "marked": action.possible_duplicate,
            "now": now,
        },
    )


def write_change(connection: sa.Connection, change: ActionChange, *, now: datetime) -> None:
    """Write what a step made of an action, with its audit rows, or nothing."""
    if change.action is None:
        return
    move_on(connection, change.action, now=now)
    audit_chain.append(connection, change.audits)
    if change.tier_event is not None:
        insert_event(connection, change.tier_event)


def insert_event(connection: sa.Connection, event: TierEvent) -> None:
    connection.execute(_INSERT_EVENT, asdict(event))


def _sent_since(
    connection: sa.Connection, waiting: Sequence[PendingAction]
) -> tuple[PendingAction, ...]:
    if not waiting:
        return ()
    parameters = {
        "users": sorted({action.user_id for action in waiting}),
        "since": min(action.create_time for action in waiting),
    }
    rows = connection.execute(_SENT_SINCE, parameters).mappings()
    return tuple(_action(row, ()) for row in rows)


def _marked(action: PendingAction, sent: Sequence[PendingAction]) -> PendingAction:
    others = [other for other in sent if other.user_id == action.user_id]
    if action.state is not ActionState.PENDING or not repeats(action, others, action.create_time):
        return action
    return replace(action, possible_duplicate=True)


def _outcome_text(action: PendingAction) -> str:
    return canonical_json(outcome_to_json(action.outcome)) if action.outcome else ""


def _action(row: Any, sources: tuple[str, ...]) -> PendingAction:
    outcome = row["outcome_json"]
    return PendingAction(
        pending_action_id=PendingActionId(row["pending_action_id"]),
        user_id=UserId(row["user_id"]),
        session_id=SessionId(row["session_id"]),
        turn_id=TurnId(row["turn_id"]),
        tool_call_id=ToolCallId(row["tool_call_id"]),
        tool_name=row["tool_name"],
        state=ActionState(row["state"]),
        order=order_from_json(read_json(row["order_json"])),
        preview=preview_from_json(read_json(row["preview_json"])),
        action_hash=row["action_hash"],
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        solicited=row["solicited"],
        possible_duplicate=row["possible_duplicate"],
        read_sources=sources,
        outcome=outcome_from_json(read_json(outcome)) if outcome else None,
        arguments_json=row["arguments_json"],
        origin=row["origin"],
    )
