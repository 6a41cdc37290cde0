"""A conversation with the offline model: what it calls, and what it says to given envelopes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minara_core.ids import ToolCallId
from minara_core.messages import (
    Message,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    user_message,
)
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition, ok
from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelText,
    ModelToolCall,
    ToolChoice,
)
from minara_llm.offline.model import OfflineModel
from minara_llm.offline.plan import plan

READ_NAMES = (
    "get_fear_greed", "get_fills", "get_limits", "get_orders", "get_portfolio", "get_price",
    "get_trading_state", "get_trending", "minara_account", "minara_pnl", "minara_total_balance",
    "read_file", "read_result", "search_tokens",
)  # fmt: skip
ORDER_NAMES = (
    "buy_token", "cancel_order", "place_limit_order", "sell_token", "swap_tokens", "transfer_token",
)  # fmt: skip
TOOL_NAMES = (*READ_NAMES, *ORDER_NAMES)


def a_tool(name: str) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=name,
        input_schema_json="{}",
        tool_set="read",
        permission_tier=(
            PermissionTier.CONFIRM_ONCE if name in ORDER_NAMES else PermissionTier.READ_ONLY
        ),
        is_fund_moving=name in ORDER_NAMES,
    )


def a_request(
    messages: Sequence[Message],
    *,
    tools: Sequence[str] = TOOL_NAMES,
    callable_tools: Sequence[str] | None = None,
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
        callable_tools=None if callable_tools is None else tuple(callable_tools),
    )


async def stream(request: ModelRequest, *, is_degraded: bool = False) -> list[ModelEvent]:
    model = OfflineModel(is_degraded=is_degraded)
    return [event async for event in model.stream(request)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    text: str
    pieces: int


async def reply(request: ModelRequest, *, is_degraded: bool = False) -> Reply:
    events = await stream(request, is_degraded=is_degraded)
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


def tool_messages(
    results: Sequence[tuple[str, str]],
    step: int = 1,
    *,
    arguments: Sequence[Mapping[str, Any]] = (),
    said: str = "",
) -> tuple[Message, Message]:
    """The assistant message that made the calls, after it had `said` something, and the one with
    their envelopes. `arguments` are those of the calls, in order."""
    given: list[Mapping[str, Any]] = [*arguments]
    given += [dict[str, Any]() for _ in results[len(given) :]]
    made = [
        ToolCall(
            tool_call_id=ToolCallId(f"{step}.{index}"),
            name=name,
            arguments_json=json.dumps(dict(given[index])),
        )
        for index, (name, _) in enumerate(results)
    ]
    spoken = (TextBlock(said),) if said else ()
    calls = tuple(ToolCallBlock(call) for call in made)
    return (
        Message(role=Role.ASSISTANT, blocks=(*spoken, *calls)),
        Message(
            role=Role.TOOL,
            blocks=tuple(
                ToolResultBlock(tool_call_id=call.tool_call_id, envelope=envelope)
                for call, (_, envelope) in zip(made, results, strict=True)
            ),
        ),
    )


async def answer(
    text: str, results: Sequence[tuple[str, str]], *, is_degraded: bool = False
) -> Reply:
    """What is said once the calls that `text` asks for have these results, named in order."""
    planned = list(plan(text).calls)
    arguments: list[Mapping[str, Any]] = []
    for name, _ in results:
        call = next((one for one in planned if one.name == name), None)
        arguments.append(call.arguments if call else {})
        planned = [one for one in planned if one is not call]
    made = tool_messages(results, arguments=arguments)
    return await reply(a_request([user_message(text), *made]), is_degraded=is_degraded)


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
