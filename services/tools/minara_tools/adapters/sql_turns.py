"""The turn ledger: turns, their sessions' epochs, and what each has used and read."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from minara_core.actions import ActionState
from minara_core.ids import DIRECT_SESSION, ToolCallId, TurnId, UserId
from minara_core.tooling import ToolResult
from minara_runtime.database import Database
from minara_runtime.statements import one_of
from minara_tools.adapters.result_json import outcome_from_text, pending_action_in
from minara_tools.adapters.sql_action_rows import actions_by_id, load_actions
from minara_tools.adapters.sql_tables import PENDING_ACTIONS, SESSIONS, TOOL_CALLS, TURNS
from minara_tools.adapters.sql_trading import HasHaltFile, trading_standing
from minara_tools.adapters.sql_turn_rows import check_owner, interject, register, turn_record
from minara_tools.adapters.sql_turn_words import human_messages, interjections
from minara_tools.app.stores import KnownTurn, RecordedCall, TurnRecord, TurnStanding
from minara_tools.domain import results
from minara_tools.domain.approvals import CONFIRMED_STATES, TELLABLE_STATES
from minara_tools.domain.intent import REJECTIONS_IN_A_ROW
from minara_tools.domain.trading import TradingStanding

_OWNER = sa.select(SESSIONS.c.user_id).where(SESSIONS.c.session_id == sa.bindparam("session"))
_KNOWN = (
    sa.select(TURNS, SESSIONS.c.epoch.label("session_epoch"))
    .join(SESSIONS, SESSIONS.c.session_id == TURNS.c.session_id)
    .where(TURNS.c.turn_id == sa.bindparam("turn"))
)
_CLOSE = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id == sa.bindparam("turn"), TURNS.c.user_id == sa.bindparam("person"))
    .values(is_open=False)
)
_COMPLETE = _CLOSE.values(is_completed=True)
_DECIDED = (
    sa.select(PENDING_ACTIONS.c.state)
    .where(
        PENDING_ACTIONS.c.session_id == sa.bindparam("session"),
        one_of(
            PENDING_ACTIONS.c.state,
            [state.value for state in (*CONFIRMED_STATES, ActionState.REJECTED)],
        ),
    )
    .order_by(PENDING_ACTIONS.c.position.desc())
    .limit(REJECTIONS_IN_A_ROW)
)
_MADE = sa.select(TOOL_CALLS.c.tool_call_id, TOOL_CALLS.c.tool_name, TOOL_CALLS.c.marks_turn).where(
    TOOL_CALLS.c.turn_id == sa.bindparam("turn")
)
_RECORDED = sa.select(TOOL_CALLS).where(
    TOOL_CALLS.c.turn_id == sa.bindparam("turn"),
    TOOL_CALLS.c.tool_call_id.in_(sa.bindparam("calls", expanding=True)),
)
_PENDING = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.session_id == sa.bindparam("session"),
        PENDING_ACTIONS.c.state == ActionState.PENDING.value,
        PENDING_ACTIONS.c.expire_time > sa.bindparam("now"),
    )
    .order_by(PENDING_ACTIONS.c.position)
)
_TOLD = sa.alias(TURNS, "told")
_UNTOLD = (
    sa.select(PENDING_ACTIONS)
    .outerjoin(_TOLD, _TOLD.c.turn_id == PENDING_ACTIONS.c.told_turn_id)
    .where(
        # What was made outside of any conversation is told in the next one there is.
        sa.or_(
            PENDING_ACTIONS.c.session_id == sa.bindparam("session"),
            sa.and_(
                PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
                sa.or_(
                    PENDING_ACTIONS.c.session_id == "",
                    PENDING_ACTIONS.c.session_id.startswith(DIRECT_SESSION),
                ),
            ),
        ),
        sa.or_(
            sa.and_(
                one_of(PENDING_ACTIONS.c.state, [state.value for state in TELLABLE_STATES]),
                sa.or_(
                    PENDING_ACTIONS.c.told_turn_id.in_(["", sa.bindparam("turn")]),
                    _TOLD.c.is_completed == sa.false(),
                ),
            ),
            sa.and_(
                PENDING_ACTIONS.c.pending_action_id == sa.bindparam("decided"),
                PENDING_ACTIONS.c.state != ActionState.PENDING.value,
            ),
        ),
    )
    .order_by(PENDING_ACTIONS.c.position)
)
_TELL = (
    sa.update(PENDING_ACTIONS)
    .where(PENDING_ACTIONS.c.pending_action_id.in_(sa.bindparam("actions", expanding=True)))
    .values(told_turn_id=sa.bindparam("turn"))
)


class SqlTurns:
    """Implements TurnStore."""

    def __init__(self, database: Database, has_halt_file: HasHaltFile) -> None:
        self._database = database
        self._has_halt_file = has_halt_file

    async def open(self, turn: TurnRecord) -> TurnStanding:
        def write(connection: sa.Connection) -> TurnStanding:
            register(connection, turn)
            standing = self._standing(connection, turn)
            told = [action.pending_action_id for action in standing.untold_outcomes]
            if told:
                connection.execute(_TELL, {"actions": told, "turn": turn.turn_id})
            return standing

        # What a turn does is written after this, so it never lasts without the turn.
        return await self._database.transaction(write, brief=True)

    async def interject(self, message: TurnRecord) -> TurnStanding:
        def write(connection: sa.Connection) -> TurnStanding:
            interject(connection, message)
            return self._standing(connection, message)

        return await self._database.transaction(write, brief=True)

    async def standing(self, turn: TurnRecord) -> TurnStanding:
        def look(connection: sa.Connection) -> TurnStanding:
            owner = connection.execute(_OWNER, {"session": turn.session_id}).scalar()
            if owner is not None:
                check_owner(owner, turn)  # only a writer needs the newest epoch
            return self._standing(connection, turn)

        return await self._database.read(look)

    async def close(self, turn_id: TurnId, user_id: UserId, *, is_completed: bool) -> None:
        statement = _COMPLETE if is_completed else _CLOSE
        parameters = {"turn": turn_id, "person": user_id}
        # A power cut may open it again, as a crash may leave it open: the next turn closes it.
        await self._database.transaction(lambda c: c.execute(statement, parameters), brief=True)

    async def find(
        self, turn_id: TurnId, user_id: UserId, call_ids: Sequence[ToolCallId]
    ) -> KnownTurn | None:
        def look(connection: sa.Connection) -> KnownTurn | None:
            row = connection.execute(_KNOWN, {"turn": turn_id}).mappings().first()
            if row is None or row["user_id"] != user_id:
                return None
            session_id, position = row["session_id"], row["position"]
            made = connection.execute(_MADE, {"turn": turn_id}).all()
            seen = {call.tool_call_id for call in made}.intersection(call_ids)
            decided = connection.execute(_DECIDED, {"session": session_id}).scalars().all()
            return KnownTurn(
                turn=turn_record(row),
                is_open=row["is_open"],
                session_epoch=row["session_epoch"],
                trading=trading_standing(connection, user_id, self._has_halt_file),
                human_messages=human_messages(
                    connection, session_id=session_id, turn_id=turn_id, position=position
                ),
                interjections=interjections(
                    connection, session_id=session_id, turn_id=turn_id, position=position
                ),
                calls_made=len(made),
                was_rejected_again=decided.count(ActionState.REJECTED.value) >= REJECTIONS_IN_A_ROW,
                read_sources=tuple(sorted({call.tool_name for call in made if call.marks_turn})),
                recorded=_recorded(connection, turn_id, seen) if seen else {},
            )

        return await self._database.read(look, brief=True)

    async def trading(self, user_id: UserId) -> TradingStanding:
        return await self._database.read(
            lambda c: trading_standing(c, user_id, self._has_halt_file)
        )

    def _standing(self, connection: sa.Connection, turn: TurnRecord) -> TurnStanding:
        of_session: dict[str, Any] = {"session": turn.session_id}
        pending = connection.execute(_PENDING, of_session | {"now": turn.open_time})
        untold = connection.execute(
            _UNTOLD,
            of_session
            | {
                "turn": turn.turn_id,
                "decided": turn.decided_action_id,
                "person": turn.user_id,
            },
        )
        return TurnStanding(
            trading=trading_standing(connection, turn.user_id, self._has_halt_file),
            pending_actions=load_actions(connection, pending.mappings().all()),
            untold_outcomes=load_actions(connection, untold.mappings().all()),
        )


def _recorded(
    connection: sa.Connection, turn_id: str, call_ids: Iterable[ToolCallId]
) -> dict[ToolCallId, RecordedCall]:
    rows = connection.execute(_RECORDED, {"turn": turn_id, "calls": list(call_ids)}).all()
    finished = [row.result_json for row in rows if row.is_finished]
    named = [action_id for text in finished if (action_id := pending_action_in(text))]
    actions = actions_by_id(connection, named)
    found: dict[ToolCallId, RecordedCall] = {}
    for row in rows:
        call_id, result = ToolCallId(row.tool_call_id), None
        if row.is_finished:
            outcome = outcome_from_text(row.result_json, actions)
            result = ToolResult(
                tool_call_id=call_id,
                name=row.tool_name,
                outcome=outcome,
                envelope=results.envelope(outcome),
            )
        found[call_id] = RecordedCall(
            tool_call_id=call_id,
            arguments_hash=row.arguments_hash,
            duration_ms=row.duration_ms,
            result=result,
        )
    return found
