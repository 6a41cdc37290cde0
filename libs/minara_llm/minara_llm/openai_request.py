"""A ModelRequest as a body of OpenAI's Chat Completions, which many servers speak."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock, ToolResultBlock
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolDefinition
from minara_llm.model import ModelRequest, ToolChoice
from minara_llm.prices import ModelFacts
from minara_llm.provider_state import load_state, synthetic_id

_ALWAYS_CALLABLE_SETS = frozenset({"read", "turn"})
"""Tool sets whose READ_ONLY tools need no active skill (turn.md §3)."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """How far a server goes: OpenAI's own takes developer messages, cache keys and restricted tool
    lists; others get only what they all understand."""

    provider: str
    is_native: bool


def chat_body(request: ModelRequest, dialect: ChatDialect, facts: ModelFacts | None) -> Body:
    """The request's body, streaming with usage."""
    limit = facts.max_output if facts else request.max_output_tokens
    limit = max(1, min(request.max_output_tokens, limit))
    body: Body = {
        "model": request.model,
        "messages": wire_messages(request, dialect),
        "max_completion_tokens" if dialect.is_native else "max_tokens": limit,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if dialect.is_native:
        body["prompt_cache_key"] = request.session_id
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = _choice(request, dialect)
        if dialect.is_native and facts and facts.effort_with_tools:
            body["reasoning_effort"] = facts.effort_with_tools
    return body


def wire_messages(request: ModelRequest, dialect: ChatDialect) -> list[Body]:
    """System prompt and transcript as the API takes them; empty texts and messages are left out."""
    sent: list[Body] = []
    system = "\n\n".join(block.text for block in request.system if block.text.strip())
    if system:
        sent.append({"role": "system", "content": system})
    ids: Mapping[str, str] = {}
    for place, message in enumerate(request.messages):
        match message.role:
            case Role.ASSISTANT:
                wire, ids = _assistant(message, place, dialect.provider)
                sent += wire
            case Role.TOOL:
                sent += [
                    {"role": "tool", "tool_call_id": ids[block.tool_call_id], "content": text}
                    for block in message.blocks
                    if isinstance(block, ToolResultBlock) and block.tool_call_id in ids
                    for text in (block.envelope,)
                ]
            case Role.CONTEXT:
                sent += _said("developer" if dialect.is_native else "system", message)
            case Role.USER:
                sent += _said("user", message)
    return sent


def _said(role: str, message: Message) -> list[Body]:
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    texts += [
        f"[file {block.file_key}, {block.media_type}]"
        for block in message.blocks
        if isinstance(block, FileBlock)
    ]
    text = "\n\n".join(part for part in texts if part.strip())
    return [{"role": role, "content": text}] if text else []


def _assistant(message: Message, place: int, provider: str) -> tuple[list[Body], dict[str, str]]:
    """An assistant message, and our call ids with the provider's."""
    calls = message.tool_calls
    own = _own_ids(message, provider) or [synthetic_id(place, index) for index in range(len(calls))]
    wire: Body = {"role": "assistant"}
    if message.text.strip():
        wire["content"] = message.text
    if calls:
        wire["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call, call_id in zip(calls, own, strict=True)
        ]
    ids = dict(zip((call.tool_call_id for call in calls), own, strict=True))
    return ([wire] if len(wire) > 1 else []), cast("dict[str, str]", ids)


def _own_ids(message: Message, provider: str) -> Sequence[str] | None:
    """The ids this provider gave the message's calls, if it wrote the message."""
    state = load_state(message, provider)
    ids = state.get("tool_call_ids") if state else None
    if not isinstance(ids, list):
        return None
    known = cast("list[str]", ids)
    return known if len(known) == len(message.tool_calls) else None


def _tool(tool: ToolDefinition) -> Body:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.input_schema_json),
        },
    }


def _choice(request: ModelRequest, dialect: ChatDialect) -> str | Body:
    if request.tool_choice is ToolChoice.NONE:
        return "none"
    allowed = [tool.name for tool in request.tools if _may_be_called(tool, request.callable_tools)]
    if not dialect.is_native or not request.callable_tools or len(allowed) == len(request.tools):
        return "auto"
    return {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": name}} for name in allowed],
        },
    }


def _may_be_called(tool: ToolDefinition, callable_tools: Sequence[str]) -> bool:
    is_always = (
        tool.tool_set in _ALWAYS_CALLABLE_SETS and tool.permission_tier is PermissionTier.READ_ONLY
    )
    return is_always or tool.name in callable_tools
