"""A ModelRequest as a body of Anthropic's Messages API.

Consecutive messages of one role are merged, so a longer transcript only adds blocks at the end.
Cache breakpoints are not part of what is cached and may move from request to request.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock, ToolResultBlock
from minara_core.tooling import ToolCall
from minara_llm.model import ModelRequest, ToolChoice
from minara_llm.prices import ModelFacts
from minara_llm.provider_state import load_state, synthetic_id

PROVIDER = "anthropic"

_MOST_BREAKPOINTS = 4
_LOOK_BACK = 15
"""Blocks from one breakpoint to the next; the provider looks for a cached one about 20 back."""

_CACHEABLE = frozenset({"text", "tool_use", "tool_result"})

Body = dict[str, Any]


def messages_body(request: ModelRequest, facts: ModelFacts | None) -> Body:
    """The request's body, without `stream`."""
    limit = facts.max_output if facts else request.max_output_tokens
    messages = wire_messages(request.messages, request.model)
    system: list[Body] = [{"type": "text", "text": block.text} for block in request.system]
    _mark(request, system, messages)
    body: Body = {
        "model": request.model,
        "max_tokens": max(1, min(request.max_output_tokens, limit)),
        "messages": messages,
    }
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": json.loads(tool.input_schema_json),
            }
            for tool in request.tools
        ]
        if request.tool_choice is ToolChoice.NONE:
            body["tool_choice"] = {"type": "none"}
    if facts and facts.has_adaptive_thinking:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    return body


def wire_messages(messages: Sequence[Message], model: str) -> list[Body]:
    """The transcript as the API takes it; empty texts and messages are left out."""
    sent: list[Body] = []
    ids: Mapping[str, str] = {}
    for place, message in enumerate(messages):
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if role == "assistant":
            blocks, ids = _assistant(message, place, model)
        else:
            blocks = _theirs(message, ids)
        if not blocks:
            continue
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"].extend(blocks)
        else:
            sent.append({"role": role, "content": blocks})
    return sent


def _theirs(message: Message, ids: Mapping[str, str]) -> list[Body]:
    blocks: list[Body] = []
    for block in message.blocks:
        match block:
            case TextBlock() if block.text.strip():
                text = block.text
                if message.role is Role.CONTEXT:
                    text = f"<context>\n{text}\n</context>"
                blocks.append({"type": "text", "text": text})
            case ToolResultBlock() if block.tool_call_id in ids:
                result: Body = {
                    "type": "tool_result",
                    "tool_use_id": ids[block.tool_call_id],
                    "content": block.envelope,
                }
                blocks.append(result | ({"is_error": True} if block.is_error else {}))
            case FileBlock():
                text = f"[file {block.file_key}, {block.media_type}]"
                blocks.append({"type": "text", "text": text})
            case _:
                pass
    return blocks


def _assistant(message: Message, place: int, model: str) -> tuple[list[Body], dict[str, str]]:
    """An assistant message's blocks, and our call ids with the provider's."""
    calls = message.tool_calls
    content = _own_content(message)
    if content is None:
        content = [
            {"type": "text", "text": block.text}
            for block in message.blocks
            if isinstance(block, TextBlock)
        ]
        content += [
            {"type": "tool_use", "id": synthetic_id(place, index), "name": call.name}
            for index, call in enumerate(calls)
        ]
    state = load_state(message, PROVIDER) or {}
    keeps_thinking = state.get("model") == model
    blocks: list[Body] = []
    ids: dict[str, str] = {}
    waiting = iter(calls)
    for block in content:
        match block["type"]:
            case "tool_use":
                call = next(waiting)
                ids[call.tool_call_id] = block["id"]
                blocks.append({**block, "input": _input(call)})
            case "text":
                if block["text"].strip():
                    blocks.append(dict(block))
            case _:
                if keeps_thinking:
                    blocks.append(dict(block))
    return blocks, ids


def _own_content(message: Message) -> list[Body] | None:
    """The blocks this provider sent, if it wrote the message and they belong to its calls."""
    state = load_state(message, PROVIDER)
    if state is None or not isinstance(state.get("content"), list):
        return None
    content = cast("list[Body]", state["content"])
    names = [block["name"] for block in content if block["type"] == "tool_use"]
    return content if names == [call.name for call in message.tool_calls] else None


def _input(call: ToolCall) -> Body:
    try:
        parsed: Any = json.loads(call.arguments_json)
    except ValueError:
        parsed = None
    # The API takes an object; what a model wrote instead must still be there to be read.
    if not isinstance(parsed, dict):
        return {"unreadable": call.arguments_json}
    return cast("Body", parsed)


def _mark(request: ModelRequest, system: list[Body], messages: list[Body]) -> None:
    """Set the cache breakpoints: parts of the prefix, the request's end, and one in between when
    the step before added more blocks than the provider looks back."""
    ends = [
        block
        for block, told in zip(system, request.system, strict=True)
        if told.ends_cached_part and told.text
    ]
    flat: list[Body] = [block for message in messages for block in message["content"]]
    marks = _last_cacheable(flat)
    if _added(messages) > _LOOK_BACK:
        marks += _last_cacheable(flat[:-_LOOK_BACK])
    for block in [*ends[-(_MOST_BREAKPOINTS - len(marks)) :], *marks]:
        block["cache_control"] = {"type": "ephemeral"}


def _added(messages: list[Body]) -> int:
    """How many blocks stand behind the end of the request before: the reply, and what followed."""
    count = 0
    for message in reversed(messages):
        count += len(message["content"])
        if message["role"] == "assistant":
            return count
    return 0


def _last_cacheable(blocks: list[Body]) -> list[Body]:
    found = next((block for block in reversed(blocks) if block["type"] in _CACHEABLE), None)
    return [] if found is None else [found]
