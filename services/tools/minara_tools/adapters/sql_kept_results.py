"""Kept results in the tools service's own database."""

from typing import Any

import sqlalchemy as sa

from minara_core.ids import ToolCallId, TurnId, UserId
from minara_core.tooling import ToolDenial, ToolFailure, ToolSuccess, dump_json
from minara_runtime.database import Database
from minara_tools.adapters.result_json import outcome_from_text, pending_action_in
from minara_tools.adapters.sql_tables import TOOL_CALLS, TOOL_RESULTS, TURNS
from minara_tools.app.kept_results import KeptResult

_FIND = (
    sa.select(TOOL_CALLS.c.tool_name, TOOL_CALLS.c.result_json, TOOL_RESULTS.c.data_json)
    .join(TURNS, TURNS.c.turn_id == TOOL_CALLS.c.turn_id)
    .outerjoin(
        TOOL_RESULTS,
        sa.and_(
            TOOL_RESULTS.c.turn_id == TOOL_CALLS.c.turn_id,
            TOOL_RESULTS.c.tool_call_id == TOOL_CALLS.c.tool_call_id,
        ),
    )
    .where(
        TOOL_CALLS.c.turn_id == sa.bindparam("turn"),
        TOOL_CALLS.c.tool_call_id == sa.bindparam("call"),
        TOOL_CALLS.c.is_finished == sa.true(),
        TURNS.c.user_id == sa.bindparam("person"),
    )
)


class SqlKeptResults:
    """Implements KeptResults."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, user_id: UserId, turn_id: TurnId, call_id: ToolCallId
    ) -> KeptResult | None:
        parameters = {"person": user_id, "turn": turn_id, "call": call_id}
        row = await self._database.read(lambda c: c.execute(_FIND, parameters).first())
        if row is None:
            return None
        return KeptResult(tool_name=row.tool_name, text=row.data_json or _told(row.result_json))


def _told(result_json: str) -> str:
    if (action := pending_action_in(result_json)) is not None:
        return dump_json({"state": "pending_confirmation", "pending_action_id": action})
    outcome = outcome_from_text(result_json, {})
    match outcome:
        case ToolSuccess():
            return outcome.data_json
        case ToolFailure() | ToolDenial():
            told: dict[str, Any] = {"error": f"{outcome.reason}: {outcome.message}"}
            return dump_json(told)
        case _:
            return dump_json({"state": "answered outside of the tools service"})
