"""Recorded calls: a result and its audit row are one commit, and many results share one."""

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from minara_core.actions import PendingAction
from minara_core.audit import AuditRecord
from minara_core.errors import Conflict
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_runtime import audit as audit_chain
from minara_runtime.batching import GroupCommit
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent
from minara_tools.adapters.result_json import outcome_to_text
from minara_tools.adapters.sql_action_rows import (
    insert_event,
    locked_neighbours,
    write_parking,
)
from minara_tools.adapters.sql_tables import TOOL_CALLS, TOOL_RESULTS
from minara_tools.app.stores import FinishedCall, ParkedCall, StartedCall

_FINISH = (
    sa.update(TOOL_CALLS)
    .where(
        TOOL_CALLS.c.turn_id == sa.bindparam("turn"),
        TOOL_CALLS.c.tool_call_id == sa.bindparam("call"),
        TOOL_CALLS.c.is_finished == sa.false(),
    )
    .values(
        is_finished=True,
        marks_turn=sa.bindparam("marks"),
        result_json=sa.bindparam("result"),
        duration_ms=sa.bindparam("duration"),
    )
)


class SqlCalls:
    """Implements CallStore."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits: GroupCommit[FinishedCall | AuditRecord] = GroupCommit(self._flush)

    async def start(self, call: StartedCall) -> bool:
        row = _row(call) | {
            "is_finished": False,
            "marks_turn": False,
            "result_json": "",
            "duration_ms": 0,
        }
        return await self._database.transaction(lambda c: insert_if_absent(c, TOOL_CALLS, row))

    async def finish(self, call: FinishedCall) -> None:
        await self._commits.put(call)

    async def note(self, record: AuditRecord) -> None:
        await self._commits.put(record)

    async def park(
        self,
        user_id: UserId,
        since: datetime,
        plan: Callable[[Sequence[PendingAction]], ParkedCall],
    ) -> ParkedCall:
        def write(connection: sa.Connection) -> ParkedCall:
            parked = plan(locked_neighbours(connection, user_id, since))
            write_parking(connection, parked.parking)
            written = _written(connection, parked.finished)
            if not written:
                raise Conflict("this call has a result already", reason=ErrorReason.ALREADY_EXISTS)
            audit_chain.append(connection, [*parked.audits, *written])
            return parked

        return await self._database.transaction(write)

    async def aclose(self) -> None:
        """Write out what waits."""
        await self._commits.aclose()

    async def _flush(self, batch: list[FinishedCall | AuditRecord]) -> None:
        def write(connection: sa.Connection) -> None:
            audits: list[AuditRecord] = []
            for item in batch:
                is_call = isinstance(item, FinishedCall)
                audits += _written(connection, item) if is_call else [item]
            audit_chain.append(connection, audits)

        await self._database.transaction(write)


def _row(call: StartedCall) -> dict[str, object]:
    return {
        "turn_id": call.turn_id,
        "tool_call_id": call.tool_call_id,
        "tool_name": call.tool_name,
        "arguments_hash": call.arguments_hash,
        "start_time": call.time,
    }


def _written(connection: sa.Connection, call: FinishedCall) -> tuple[AuditRecord, ...]:
    """Write a call's result; the rows still to audit. A call that has a result keeps it, and
    nothing is written."""
    result = outcome_to_text(call.result.outcome)
    row = _row(call.started) | {
        "is_finished": True,
        "marks_turn": call.marks_turn,
        "result_json": result,
        "duration_ms": call.duration_ms,
    }
    if not insert_if_absent(connection, TOOL_CALLS, row):
        ended = connection.execute(
            _FINISH,
            {
                "turn": call.started.turn_id,
                "call": call.started.tool_call_id,
                "marks": call.marks_turn,
                "result": result,
                "duration": call.duration_ms,
            },
        )
        if ended.rowcount == 0:
            return ()
    if call.whole_json is not None:
        whole = {
            "turn_id": call.started.turn_id,
            "tool_call_id": call.started.tool_call_id,
            "data_json": call.whole_json,
        }
        insert_if_absent(connection, TOOL_RESULTS, whole)
    if call.tier_event is not None:
        insert_event(connection, call.tier_event)
    return (call.audit,)
