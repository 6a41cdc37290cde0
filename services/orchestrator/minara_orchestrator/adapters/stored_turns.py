"""Stored turns in the orchestrator's own words: rows, checkpoints, and what events have told."""

import json
from collections.abc import Collection, Iterable
from typing import Any

import sqlalchemy as sa

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara.orchestrator.v1 import checkpoint_pb2 as checkpoint_pb
from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier
from minara_core.tooling import ToolResult
from minara_core.turn_context import TurnContext
from minara_orchestrator.adapters.sql_tables import TURNS
from minara_orchestrator.app.local_tools import SUBAGENT
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Opening, Told
from minara_orchestrator.domain.turn import DecidedInput, TriggerInput, Turn, TurnInput, UserInput
from minara_runtime import convert_enums as enums
from minara_runtime.convert import message_from_pb, message_to_pb, result_from_pb
from minara_runtime.convert_actions import action_from_pb, action_to_pb
from minara_runtime.convert_events import usage_from_pb, usage_to_pb

DECISION = "decision"

_INTO = (
    sa.select(TURNS)
    .where(TURNS.c.interjected_into.in_(sa.bindparam("turns", expanding=True)))
    .order_by(TURNS.c.position)
)


def row_of(turn: Turn) -> dict[str, Any]:
    """A turn that has just been admitted, as a row without its owner."""
    kind, text, file_keys = _input_columns(turn.input)
    context = turn.context
    return {
        "turn_id": context.turn_id,
        "session_id": context.session_id,
        "user_id": context.user_id,
        "is_over": False,
        "origin": context.origin.value,
        "allowed_tool_sets": json.dumps(context.allowed_tool_sets),
        "locale": context.locale,
        "turn_grant": context.grant,
        "input_kind": kind,
        "input_text": text,
        "file_keys": json.dumps(file_keys),
        "start_time": turn.start_time,
        "interjected_into": "",
    }


def turn_of(row: Any) -> Turn:
    """The turn of a row."""
    return Turn(
        context=TurnContext(
            turn_id=TurnId(row["turn_id"]),
            session_id=SessionId(row["session_id"]),
            user_id=UserId(row["user_id"]),
            origin=Origin(row["origin"]),
            allowed_tool_sets=tuple(json.loads(row["allowed_tool_sets"])),
            locale=row["locale"],
            grant=row["turn_grant"],
        ),
        input=_turn_input(row["input_kind"], row["input_text"], row["file_keys"]),
        start_time=row["start_time"],
    )


def _input_columns(turn_input: TurnInput) -> tuple[str, str, tuple[str, ...]]:
    match turn_input:
        case UserInput():
            return "message", turn_input.text, turn_input.file_keys
        case DecidedInput():
            return DECISION, turn_input.pending_action_id, ()
        case TriggerInput():
            return "trigger", turn_input.text, ()


def _turn_input(kind: str, text: str, file_keys: str) -> TurnInput:
    match kind:
        case "message":
            return UserInput(text=text, file_keys=tuple(json.loads(file_keys)))
        case kind if kind == DECISION:
            return DecidedInput(pending_action_id=PendingActionId(text))
        case _:
            return TriggerInput(text=text)


def interjections_into(
    connection: sa.Connection, turn_ids: Collection[TurnId]
) -> dict[TurnId, tuple[Interjection, ...]]:
    """What persons have said into these turns, oldest first."""
    found: dict[TurnId, tuple[Interjection, ...]] = {}
    for row in connection.execute(_INTO, {"turns": list(turn_ids)}).mappings():
        said = Interjection(context=turn_of(row).context, text=row["input_text"])
        into = TurnId(row["interjected_into"])
        found[into] = (*found.get(into, ()), said)
    return found


def checkpoint_to_bytes(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as it is stored."""
    stored = checkpoint_pb.Checkpoint(
        step=checkpoint.step,
        messages=[message_to_pb(message) for message in checkpoint.messages],
        awaits_results=checkpoint.awaits_results,
        callable_tools=checkpoint.callable_tools,
        pending_actions=[action_to_pb(action) for action in checkpoint.pending_actions],
        interjections=checkpoint.interjections,
        usage=usage_to_pb(checkpoint.usage),
        tool_calls=checkpoint.tool_calls,
        skipped_steps=checkpoint.skipped_steps,
        speaker=checkpoint.speaker,
        limit=checkpoint.limit,
        failure_reason=checkpoint.failure_reason,
        failure_message=checkpoint.failure_message,
    )
    if checkpoint.opening is not None:
        stored.sent_blocks.extend(checkpoint.opening.sent_blocks)
        stored.stage = enums.STAGE.to_pb(checkpoint.opening.stage)
        stored.risk_ceiling = enums.TIER.to_pb(checkpoint.opening.risk_ceiling)
    if checkpoint.finish_reason is not None:
        stored.finish_reason = enums.FINISH_REASON.to_pb(checkpoint.finish_reason)
    return stored.SerializeToString()


def checkpoint_from_bytes(body: bytes) -> Checkpoint:
    """A stored checkpoint."""
    stored = checkpoint_pb.Checkpoint.FromString(body)
    opening = Opening(
        sent_blocks=tuple(stored.sent_blocks),
        stage=enums.STAGE.from_pb_or(stored.stage, LifecycleStage.EVALUATE),
        risk_ceiling=enums.TIER.from_pb_or(stored.risk_ceiling, PermissionTier.READ_ONLY),
    )
    return Checkpoint(
        step=stored.step,
        messages=tuple(message_from_pb(message) for message in stored.messages),
        awaits_results=stored.awaits_results,
        callable_tools=tuple(stored.callable_tools),
        pending_actions=tuple(action_from_pb(action) for action in stored.pending_actions),
        interjections=tuple(TurnId(each) for each in stored.interjections),
        usage=usage_from_pb(stored.usage),
        tool_calls=stored.tool_calls,
        skipped_steps=stored.skipped_steps,
        speaker=stored.speaker,
        opening=opening if stored.stage else None,
        finish_reason=(
            enums.FINISH_REASON.from_pb(stored.finish_reason) if stored.finish_reason else None
        ),
        limit=stored.limit,
        failure_reason=stored.failure_reason,
        failure_message=stored.failure_message,
    )


def told_by(bodies: Iterable[bytes]) -> Told:
    """What the stored events of a turn, in their order, have told."""
    scan = _Scan()
    for body in bodies:
        scan.take(event_pb.TurnEvent.FromString(body))
    return scan.told()


class _Scan:
    """Goes through the events of a turn."""

    def __init__(self) -> None:
        self.sequence = 0
        self.step = 0
        self.attempt = 0
        self.has_spoken = False
        self.seen: set[str] = set()
        self.started: dict[ToolCallId, str] = {}
        self.finished: set[ToolCallId] = set()
        self.sub_agents: dict[ToolCallId, ToolResult] = {}
        self.actions: set[str] = set()
        self.said: set[str] = set()
        self.nested: dict[str, int] = {}

    def take(self, event: event_pb.TurnEvent) -> None:
        self.sequence = event.sequence
        name = event.WhichOneof("event") or ""
        self.seen.add(name)
        match name:
            case "step_started":
                self.step = event.step_started.step
                self._begin_attempt()
            case "text_reset":
                self._begin_attempt()
            case "text_delta" | "thinking_delta":
                self.has_spoken = True
            case "tool_call_started":
                self._start(event.tool_call_started)
            case "tool_call_finished":
                self._finish(event.tool_call_finished.result)
            case "approval_requested":
                self.actions.add(event.approval_requested.action.pending_action_id)
            case "user_interjected":
                self.said.add(event.user_interjected.message_id)
            case _:
                pass

    def _begin_attempt(self) -> None:
        self.attempt, self.has_spoken = self.sequence, False

    def _start(self, started: event_pb.ToolCallStarted) -> None:
        self.started[ToolCallId(started.tool_call_id)] = started.name
        parent, _, own = started.tool_call_id.rpartition("/")
        if parent:
            step = int(own.partition(".")[0])
            self.nested[parent] = max(step, self.nested.get(parent, 0))

    def _finish(self, stored: call_pb.ToolResult) -> None:
        self.finished.add(ToolCallId(stored.tool_call_id))
        if stored.name == SUBAGENT:
            result = result_from_pb(stored)
            self.sub_agents[result.tool_call_id] = result

    def told(self) -> Told:
        return Told(
            last_sequence=self.sequence,
            highest_step=self.step,
            attempt_sequence=self.attempt,
            has_spoken=self.has_spoken,
            has_started="turn_started" in self.seen,
            has_decided="action_decided" in self.seen,
            has_judged="goal_judged" in self.seen,
            started_calls=self.started,
            finished_calls=frozenset(self.finished),
            sub_agent_results=self.sub_agents,
            requested_actions=frozenset(self.actions),
            interjections=frozenset(self.said),
            nested_steps=self.nested,
        )
