"""Model requests, and what came of them."""

from contextlib import aclosing
from dataclasses import replace
from typing import Any

from minara_core.events import TokenUsage
from minara_core.ids import ToolCallId
from minara_core.messages import (
    Block,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    context_message,
    user_message,
)
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition
from minara_llm.model import (
    ChatModel,
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    SystemBlock,
)


def a_tool(name: str, tool_set: str = "read", tier: int = 1) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=f"What {name} does.",
        input_schema_json='{"type":"object","properties":{"symbol":{"type":"string"}}}',
        tool_set=tool_set,
        permission_tier=PermissionTier(tier),
    )


def a_request(*messages: Message, **changes: Any) -> ModelRequest:
    """A request with a prefix of two blocks and two tools, with `changes` to its fields."""
    made = ModelRequest(
        model="",
        system=(
            SystemBlock(name="identity", text="You are Minara."),
            SystemBlock(name="catalog", text="# Skills", ends_cached_part=True),
            SystemBlock(name="memory", text="# Memory", ends_cached_part=True),
        ),
        tools=(a_tool("buy_token", "trade", 3), a_tool("get_price")),
        messages=messages or (context_message("[signal]"), user_message("price of BTC?")),
        max_output_tokens=1_000,
        session_id="session-1",
    )
    return replace(made, **changes)


async def ask(model: ChatModel, request: ModelRequest) -> list[ModelEvent]:
    """Every event of one call."""
    async with aclosing(model.stream(replace(request, model=model.name))) as events:
        return [event async for event in events]


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, ModelText)]


def tool_calls(events: list[ModelEvent]) -> list[tuple[str, str]]:
    return [(e.name, e.arguments_json) for e in events if isinstance(e, ModelToolCall)]


def usage(events: list[ModelEvent]) -> TokenUsage:
    total = TokenUsage()
    for event in events:
        if isinstance(event, ModelUsage):
            total = total.plus(event.usage)
    return total


def stop(events: list[ModelEvent]) -> ModelStop:
    """The one stop, which is the last event."""
    last = events[-1]
    assert isinstance(last, ModelStop)
    assert sum(isinstance(event, ModelStop) for event in events) == 1
    return last


def said(events: list[ModelEvent], step: int = 1) -> Message:
    """The assistant message that the loop keeps of these events."""
    blocks: list[Block] = []
    thinking = "".join(event.text for event in events if isinstance(event, ModelThinking))
    if thinking:
        blocks.append(ThinkingBlock(thinking))
    if texts(events):
        blocks.append(TextBlock("".join(texts(events))))
    for index, (name, arguments) in enumerate(tool_calls(events)):
        call_id = ToolCallId(f"{step}.{index}")
        call = ToolCall(tool_call_id=call_id, name=name, arguments_json=arguments)
        blocks.append(ToolCallBlock(call))
    return Message(
        role=Role.ASSISTANT, blocks=tuple(blocks), provider_state=stop(events).provider_state
    )


def results_of(message: Message) -> Message:
    """A tool message that answers every call of `message`."""
    return Message(
        role=Role.TOOL,
        blocks=tuple(
            ToolResultBlock(tool_call_id=call.tool_call_id, envelope='{"data":1,"ok":true}')
            for call in message.tool_calls
        ),
    )
