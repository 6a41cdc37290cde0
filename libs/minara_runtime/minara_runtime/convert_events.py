"""Turn events: core → minara.agent.v1. The orchestrator stores and streams the proto form."""

from decimal import Decimal

from minara.agent.v1 import event_pb2 as event_pb
from minara_core import events as core
from minara_runtime import convert_enums as enums
from minara_runtime.convert import result_to_pb
from minara_runtime.convert_actions import (
    action_to_pb,
    decimal_from_pb,
    decimal_to_pb,
    time_to_pb,
)


def usage_to_pb(usage: core.TokenUsage) -> event_pb.Usage:
    return event_pb.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_usd=None if usage.cost_usd is None else decimal_to_pb(usage.cost_usd),
    )


def usage_from_pb(message: event_pb.Usage) -> core.TokenUsage:
    cost: Decimal | None = None
    if message.HasField("cost_usd") and message.cost_usd.value:
        cost = decimal_from_pb(message.cost_usd)
    return core.TokenUsage(
        input_tokens=message.input_tokens,
        output_tokens=message.output_tokens,
        cache_read_tokens=message.cache_read_tokens,
        cache_write_tokens=message.cache_write_tokens,
        cost_usd=cost,
    )


def event_to_pb(event: core.TurnEvent) -> event_pb.TurnEvent:
    message = event_pb.TurnEvent(sequence=event.sequence, time=time_to_pb(event.time))
    if not (_fill_text(message, event.payload) or _fill_tool(message, event.payload)):
        _fill_turn(message, event.payload)
    return message


def _fill_text(message: event_pb.TurnEvent, payload: core.Payload) -> bool:
    match payload:
        case core.TextDelta():
            message.text_delta.text = payload.text
        case core.ThinkingDelta():
            message.thinking_delta.text = payload.text
        case core.StepStarted():
            message.step_started.step = payload.step
        case core.UserInterjected():
            message.user_interjected.text = payload.text
            message.user_interjected.message_id = payload.message_id
        case core.TextReset():
            message.text_reset.since_sequence = payload.since_sequence
            message.text_reset.reason = payload.reason
        case core.UsageReported():
            message.usage_reported.step = payload.step
            message.usage_reported.usage.CopyFrom(usage_to_pb(payload.usage))
        case _:
            return False
    return True


def _fill_tool(message: event_pb.TurnEvent, payload: core.Payload) -> bool:
    match payload:
        case core.ToolCallStarted():
            message.tool_call_started.tool_call_id = payload.tool_call_id
            message.tool_call_started.name = payload.name
            message.tool_call_started.arguments_json = payload.arguments_json
            message.tool_call_started.parent_tool_call_id = payload.parent_tool_call_id
        case core.ToolCallProgressed():
            message.tool_call_progressed.tool_call_id = payload.tool_call_id
            message.tool_call_progressed.message = payload.message
            message.tool_call_progressed.fraction = payload.fraction
            message.tool_call_progressed.parent_tool_call_id = payload.parent_tool_call_id
        case core.ToolCallFinished():
            message.tool_call_finished.result.CopyFrom(result_to_pb(payload.result))
            message.tool_call_finished.duration_ms = payload.duration_ms
            message.tool_call_finished.parent_tool_call_id = payload.parent_tool_call_id
        case core.ApprovalRequested():
            message.approval_requested.action.CopyFrom(action_to_pb(payload.action))
        case core.ActionDecided():
            message.action_decided.action.CopyFrom(action_to_pb(payload.action))
            message.action_decided.decision = enums.DECISION.to_pb(payload.decision)
        case core.SkillActivated():
            message.skill_activated.skill_id = payload.skill_id
            message.skill_activated.reason = payload.reason
        case core.ArtifactUpdated():
            message.artifact_updated.uri = payload.uri
            message.artifact_updated.state = payload.state
        case _:
            return False
    return True


def _fill_turn(message: event_pb.TurnEvent, payload: core.Payload) -> None:
    match payload:
        case core.TurnStarted():
            message.turn_started.CopyFrom(_turn_started(payload))
        case core.TurnQueued():
            message.turn_queued.position = payload.position
            message.turn_queued.turn_id = payload.turn_id
            message.turn_queued.session_id = payload.session_id
        case core.TurnResumed():
            message.turn_resumed.owner = payload.owner
            message.turn_resumed.after_step = payload.after_step
        case core.GoalJudged():
            message.goal_judged.verdict = payload.verdict
            message.goal_judged.reason = payload.reason
            message.goal_judged.turns_used = payload.turns_used
            message.goal_judged.max_turns = payload.max_turns
        case core.ContextCompacted():
            message.context_compacted.rung = payload.rung
            message.context_compacted.tokens_before = payload.tokens_before
            message.context_compacted.tokens_after = payload.tokens_after
        case core.ModelSwitched():
            message.model_switched.from_model = payload.from_model
            message.model_switched.to_model = payload.to_model
            message.model_switched.reason = payload.reason
        case core.TurnCompleted():
            message.turn_completed.finish_reason = enums.FINISH_REASON.to_pb(payload.finish_reason)
            message.turn_completed.usage.CopyFrom(usage_to_pb(payload.usage))
            message.turn_completed.pending_interjections.extend(payload.pending_interjections)
            message.turn_completed.limit = payload.limit
        case core.TurnFailed():
            message.turn_failed.reason = payload.reason
            message.turn_failed.message = payload.message
            message.turn_failed.pending_interjections.extend(payload.pending_interjections)
        case core.TurnCancelled():
            message.turn_cancelled.reason = payload.reason
            message.turn_cancelled.pending_interjections.extend(payload.pending_interjections)
        case _:
            raise TypeError(f"no proto form for {type(payload).__name__}")


def _turn_started(payload: core.TurnStarted) -> event_pb.TurnStarted:
    return event_pb.TurnStarted(
        turn_id=payload.turn_id,
        session_id=payload.session_id,
        skill_ids=payload.skill_ids,
        scenario_ids=payload.scenario_ids,
        stage=enums.STAGE.to_pb(payload.stage),
        risk_ceiling=enums.TIER.to_pb(payload.risk_ceiling),
        provider=payload.provider,
        model=payload.model,
        notices=payload.notices,
    )
