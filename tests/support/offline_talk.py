"""A conversation with the offline model: what it calls, and what it says to given envelopes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minara_core.ids import ToolCallId
from minara_core.messages import Message, Role, ToolCallBlock, ToolResultBlock, user_message
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition, ok
from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelText,
    ModelToolCall,
    ToolChoice,
)
from minara_llm.offline import OfflineModel

TOOL_NAMES = (
    "buy_token", "get_fear_greed", "get_portfolio", "get_price", "get_trending", "read_file",
    "search_tokens", "sell_token",
)  # fmt: skip


def a_tool(name: str) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=name,
        input_schema_json="{}",
        tool_set="read",
        permission_tier=PermissionTier.READ_ONLY,
    )


def a_request(
    messages: Sequence[Message],
    *,
    tools: Sequence[str] = TOOL_NAMES,
    callable_tools: Sequence[str] = (),
    tool_choice: ToolChoice = ToolChoice.AUTO,
) -> ModelRequest:
    return ModelRequest(
        model="offline-1",
        system=(),
        tools=tuple(a_tool(name) for name in tools),
        messages=tuple(messages),
        max_output_tokens=1000,
        session_id="session",
        tool_choice=tool_choice,
        callable_tools=tuple(callable_tools),
    )


async def stream(request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in OfflineModel().stream(request)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    text: str
    pieces: int


async def reply(request: ModelRequest) -> Reply:
    events = await stream(request)
    texts = [event.text for event in events if isinstance(event, ModelText)]
    return Reply(
        calls=tuple(
            (event.name, json.loads(event.arguments_json))
            for event in events
            if isinstance(event, ModelToolCall)
        ),
        text="".join(texts),
        pieces=len(texts),
    )


def tool_messages(results: Sequence[tuple[str, str]], step: int = 1) -> tuple[Message, Message]:
    """The assistant message that made the calls, and the one with their envelopes."""
    made = [
        ToolCall(tool_call_id=ToolCallId(f"{step}.{index}"), name=name, arguments_json="{}")
        for index, (name, _) in enumerate(results)
    ]
    return (
        Message(role=Role.ASSISTANT, blocks=tuple(ToolCallBlock(call) for call in made)),
        Message(
            role=Role.TOOL,
            blocks=tuple(
                ToolResultBlock(tool_call_id=call.tool_call_id, envelope=envelope)
                for call, (_, envelope) in zip(made, results, strict=True)
            ),
        ),
    )


async def answer(text: str, results: Sequence[tuple[str, str]]) -> Reply:
    return await reply(a_request([user_message(text), *tool_messages(results)]))


def price_envelope(symbol: str, price: str, *, source: str = "live") -> str:
    return ok(
        {
            "symbol": symbol,
            "price": price,
            "currency": "USD",
            "change_24h_percent": "-1.25",
            "as_of": "2026-01-02T03:04:05Z",
            "source": source,
        }
    )
