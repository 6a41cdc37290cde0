"""Tool calls, messages and turn contexts: core ↔ minara.agent.v1 and minara.type.v1."""

from minara.agent.v1 import message_pb2 as message_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core import messages as core_messages
from minara_core import tooling
from minara_core.errors import InvalidRequest
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_core.turn_context import TurnContext
from minara_runtime import convert_enums as enums
from minara_runtime.convert_actions import action_from_pb, action_to_pb


def context_to_pb(context: TurnContext) -> context_pb.TurnContext:
    return context_pb.TurnContext(
        turn_id=context.turn_id,
        session_id=context.session_id,
        user_id=context.user_id,
        origin=enums.ORIGIN.to_pb(context.origin),
        allowed_tool_sets=context.allowed_tool_sets,
        locale=context.locale,
        session_epoch=context.session_epoch,
        grant=context.grant,
    )


def context_from_pb(message: context_pb.TurnContext) -> TurnContext:
    """Raises InvalidRequest (FIELD_REQUIRED) unless turn, session and user are named."""
    for field in ("turn_id", "session_id", "user_id"):
        if not getattr(message, field):
            raise InvalidRequest(
                f"context.{field} is required",
                reason=ErrorReason.FIELD_REQUIRED,
                metadata={"field": f"context.{field}"},
            )
    return TurnContext(
        turn_id=TurnId(message.turn_id),
        session_id=SessionId(message.session_id),
        user_id=UserId(message.user_id),
        origin=enums.ORIGIN.from_pb(message.origin),
        allowed_tool_sets=tuple(message.allowed_tool_sets),
        locale=message.locale,
        session_epoch=message.session_epoch,
        grant=message.grant,
    )


def definition_to_pb(definition: tooling.ToolDefinition) -> call_pb.ToolDefinition:
    return call_pb.ToolDefinition(
        name=definition.name,
        description=definition.description,
        input_schema_json=definition.input_schema_json,
        tool_set=definition.tool_set,
        permission_tier=enums.TIER.to_pb(definition.permission_tier),
        is_fund_moving=definition.is_fund_moving,
        executor=enums.EXECUTOR.to_pb(definition.executor),
    )


def definition_from_pb(message: call_pb.ToolDefinition) -> tooling.ToolDefinition:
    return tooling.ToolDefinition(
        name=message.name,
        description=message.description,
        input_schema_json=message.input_schema_json,
        tool_set=message.tool_set,
        permission_tier=enums.TIER.from_pb_or(message.permission_tier, PermissionTier.MANUAL_ONLY),
        is_fund_moving=message.is_fund_moving,
        executor=enums.EXECUTOR.from_pb_or(message.executor, tooling.Executor.TOOLS),
    )


def call_to_pb(call: tooling.ToolCall) -> call_pb.ToolCall:
    return call_pb.ToolCall(
        tool_call_id=call.tool_call_id, name=call.name, arguments_json=call.arguments_json
    )


def call_from_pb(message: call_pb.ToolCall) -> tooling.ToolCall:
    return tooling.ToolCall(
        tool_call_id=ToolCallId(message.tool_call_id),
        name=message.name,
        arguments_json=message.arguments_json,
    )


def result_to_pb(result: tooling.ToolResult) -> call_pb.ToolResult:
    message = call_pb.ToolResult(
        tool_call_id=result.tool_call_id, name=result.name, envelope=result.envelope
    )
    match result.outcome:
        case tooling.ToolSuccess() as success:
            message.success.data_json = success.data_json
            message.success.is_untrusted = success.is_untrusted
        case tooling.ToolFailure() as failure:
            message.failure.reason = failure.reason
            message.failure.message = failure.message
            message.failure.reference_id = failure.reference_id
        case tooling.ToolDenial() as denial:
            message.denial.reason = enums.DENIAL_REASON.to_pb(denial.reason)
            message.denial.gate = denial.gate
            message.denial.message = denial.message
            message.denial.metadata.update(denial.metadata)
        case tooling.ToolPending() as pending:
            message.pending_action.CopyFrom(action_to_pb(pending.action))
        case tooling.ToolDelegated():
            message.delegated.SetInParent()
    return message


def _outcome_from_pb(message: call_pb.ToolResult) -> tooling.ToolOutcome:
    match message.WhichOneof("outcome"):
        case "success":
            return tooling.ToolSuccess(
                data_json=message.success.data_json, is_untrusted=message.success.is_untrusted
            )
        case "denial":
            return tooling.ToolDenial(
                reason=enums.DENIAL_REASON.from_pb(message.denial.reason),
                gate=message.denial.gate,
                message=message.denial.message,
                metadata=dict(message.denial.metadata),
            )
        case "pending_action":
            return tooling.ToolPending(action=action_from_pb(message.pending_action))
        case "delegated":
            return tooling.ToolDelegated()
        case "failure":
            return tooling.ToolFailure(
                reason=message.failure.reason,
                message=message.failure.message,
                reference_id=message.failure.reference_id,
            )
        case _:
            raise InvalidRequest("a tool result has an outcome", metadata={"field": "outcome"})


def result_from_pb(message: call_pb.ToolResult) -> tooling.ToolResult:
    return tooling.ToolResult(
        tool_call_id=ToolCallId(message.tool_call_id),
        name=message.name,
        outcome=_outcome_from_pb(message),
        envelope=message.envelope,
    )


def _block_to_pb(block: core_messages.Block) -> message_pb.Block:
    match block:
        case core_messages.TextBlock():
            return message_pb.Block(text=message_pb.TextBlock(text=block.text))
        case core_messages.ThinkingBlock():
            return message_pb.Block(thinking=message_pb.ThinkingBlock(text=block.text))
        case core_messages.ToolCallBlock():
            return message_pb.Block(tool_call=message_pb.ToolCallBlock(call=call_to_pb(block.call)))
        case core_messages.ToolResultBlock():
            return message_pb.Block(
                tool_result=message_pb.ToolResultBlock(
                    tool_call_id=block.tool_call_id,
                    envelope=block.envelope,
                    is_error=block.is_error,
                )
            )
        case core_messages.FileBlock():
            return message_pb.Block(
                file=message_pb.FileBlock(file_key=block.file_key, media_type=block.media_type)
            )


def _block_from_pb(block: message_pb.Block) -> core_messages.Block:
    match block.WhichOneof("block"):
        case "text":
            return core_messages.TextBlock(block.text.text)
        case "thinking":
            return core_messages.ThinkingBlock(block.thinking.text)
        case "tool_call":
            return core_messages.ToolCallBlock(call_from_pb(block.tool_call.call))
        case "tool_result":
            return core_messages.ToolResultBlock(
                tool_call_id=ToolCallId(block.tool_result.tool_call_id),
                envelope=block.tool_result.envelope,
                is_error=block.tool_result.is_error,
            )
        case "file":
            return core_messages.FileBlock(
                file_key=block.file.file_key, media_type=block.file.media_type
            )
        case _:
            raise InvalidRequest("a block has a kind", metadata={"field": "block"})


def message_to_pb(message: core_messages.Message) -> message_pb.Message:
    return message_pb.Message(
        role=enums.ROLE.to_pb(message.role),
        blocks=[_block_to_pb(block) for block in message.blocks],
        provider_state=message.provider_state,
        is_interrupted=message.is_interrupted,
    )


def message_from_pb(message: message_pb.Message) -> core_messages.Message:
    return core_messages.Message(
        role=enums.ROLE.from_pb(message.role),
        blocks=tuple(_block_from_pb(block) for block in message.blocks),
        provider_state=message.provider_state,
        is_interrupted=message.is_interrupted,
    )
