"""Rows of sessions and turns, and the values they stand for."""

import json
from datetime import datetime
from typing import Any

from minara_core.audit import AuditKind, AuditRecord
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import Origin
from minara_workspace.domain.decisions import Decision
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import CommittedTurn, Session, TurnRecord, TurnState


def turn_row(record: TurnRecord, number: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "skill_ids": record.skill_ids,
        "scenario_ids": record.scenario_ids,
        "stage": record.stage,
        "risk_ceiling": int(record.risk_ceiling),
        "open_loops": record.open_loops,
        "decided_action_id": record.decided_action_id,
        "epoch": record.epoch,
    }
    if record.compaction is not None:
        steps = record.compaction.records
        facts["compaction"] = [[one.rung, one.tokens_before, one.tokens_after] for one in steps]
    return {
        "turn_id": record.turn_id,
        "session_id": record.session_id,
        "user_id": record.user_id,
        "turn_number": number,
        "state": record.state.value,
        "origin": record.origin.value,
        "message": record.message,
        "transcript": record.transcript,
        "input_tokens": record.usage.input_tokens,
        "output_tokens": record.usage.output_tokens,
        "cache_read_tokens": record.usage.cache_read_tokens,
        "cache_write_tokens": record.usage.cache_write_tokens,
        "cost_usd": record.usage.cost_usd,
        "finish_reason": record.finish_reason.value if record.finish_reason else "",
        "failure_reason": record.failure_reason,
        "provider": record.provider,
        "model": record.model,
        "step_count": record.step_count,
        "facts": json.dumps(facts),
        "start_time": record.start_time,
    }


def decision_row(decision: Decision, now: datetime) -> dict[str, Any]:
    return {
        "turn_id": decision.turn_id,
        "session_id": decision.session_id,
        "user_id": decision.user_id,
        "decided_action_id": decision.decided_action_id,
        "parked_action_ids": json.dumps(decision.parked_action_ids),
        "tool_names": json.dumps(decision.tool_names),
        "message": decision.message,
        "summary": decision.summary,
        "time": now,
    }


def commit_audit(record: TurnRecord, row: dict[str, Any]) -> AuditRecord:
    return AuditRecord(
        user_id=record.user_id,
        kind=AuditKind.STATE_CHANGE,
        time=row["commit_time"],
        subject="turn_committed",
        outcome=record.state.value,
        reason=record.failure_reason,
        turn_id=record.turn_id,
        session_id=record.session_id,
        origin=record.origin.value,
    )


def refresh_audit(session_id: SessionId, user_id: UserId, now: datetime) -> AuditRecord:
    return AuditRecord(
        user_id=user_id,
        kind=AuditKind.STATE_CHANGE,
        time=now,
        subject="session_refreshed",
        outcome="done",
        session_id=session_id,
    )


def session_of(row: Any) -> Session:
    finish = row.latest_finish_reason
    return Session(
        session_id=SessionId(row.session_id),
        user_id=UserId(row.user_id),
        title=row.title,
        create_time=row.create_time,
        update_time=row.update_time,
        turn_count=row.turn_count,
        latest_turn_id=row.latest_turn_id,
        latest_finish_reason=FinishReason(finish) if finish else None,
    )


def turn_of(row: Any) -> CommittedTurn:
    finish = row["finish_reason"]
    return CommittedTurn(
        turn_id=TurnId(row["turn_id"]),
        turn_number=row["turn_number"],
        state=TurnState(row["state"]),
        origin=Origin(row["origin"]),
        transcript=bytes(row["transcript"]),
        usage=TokenUsage(
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cache_read_tokens=row["cache_read_tokens"],
            cache_write_tokens=row["cache_write_tokens"],
            cost_usd=row["cost_usd"],
        ),
        finish_reason=FinishReason(finish) if finish else None,
        start_time=row["start_time"],
        commit_time=row["commit_time"],
    )


def heartbeat_of(row: Any) -> Heartbeat:
    return Heartbeat(
        last_seen=row["commit_time"],
        session_id=row["session_id"],
        surface=row["origin"],
        turn_count=row["turn_number"],
        open_loops=tuple(json.loads(row["facts"])["open_loops"]),
    )
