"""What Anthropic's Messages API refuses, in its words. Order and rules of tools are elsewhere."""

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from minara_llm.wire.bodies import (
    Body,
    as_bodies,
    as_body,
    as_count,
    as_text,
    invalid,
    require,
    words,
)
from minara_llm.wire.files import check_file
from minara_llm.wire.memory import Memory
from minara_llm.wire.messages_prompt import blocks_of
from minara_llm.wire.messages_tools import check_pairs, check_thinking
from minara_llm.wire.models import WireModel

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_MARKS = 4
_KNOWN = words(
    "model max_tokens messages system tools tool_choice thinking stream metadata"
    " stop_sequences temperature top_p top_k service_tier cache_control diagnostics"
    " output_config container inference_geo speed"
)
_CHOICES = frozenset({"auto", "any", "tool", "none"})
_BLOCKS = MappingProxyType(
    {
        "user": frozenset({"text", "image", "document", "tool_result"}),
        "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
        "system": frozenset({"text"}),
    }
)


def check_messages(body: Body, model: WireModel, memory: Memory) -> None:
    """Raises Refused with a 400 for a body that the API would not take."""
    extra = sorted(set(body) - _KNOWN)
    require(not extra, f"{'.'.join(extra[:1])}: Extra inputs are not permitted")
    limit = as_count(body.get("max_tokens"), "max_tokens")
    require(limit >= 1, "max_tokens: Input should be greater than or equal to 1")
    require(
        limit <= model.max_output,
        f"max_tokens: {limit} > {model.max_output}, which is the maximum allowed number of output"
        f" tokens for {model.name}",
    )
    messages = as_bodies(body.get("messages"), "messages")
    require(bool(messages), "messages: at least one message is required")
    _check_system(body)
    _check_tools(body)
    for n, message in enumerate(messages):
        _check_message(message, f"messages.{n}")
    _check_roles(messages, model)
    _check_marks(body, messages)
    merged = merged_messages(messages)
    check_pairs(merged, has_tools=bool(body.get("tools")))
    _check_thinking_setting(body, model, limit)
    check_thinking(merged, body, model, memory)


def merged_messages(messages: Sequence[Body]) -> list[Body]:
    """Neighbours of one role as one, as the API reads them."""
    merged: list[Body] = []
    for message in messages:
        blocks = blocks_of(message["content"])
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"].extend(blocks)
        else:
            merged.append({"role": message["role"], "content": list(blocks)})
    return merged


def _check_system(body: Body) -> None:
    system = body.get("system")
    if system is None or isinstance(system, str):
        return
    for n, block in enumerate(as_bodies(system, "system")):
        require(block.get("type") == "text", f"system.{n}.type: Input should be 'text'")
        _check_text(block, "system", f"system.{n}")


def _check_tools(body: Body) -> None:
    tools = as_bodies(body.get("tools") or [], "tools")
    for n, tool in enumerate(tools):
        name = as_text(tool.get("name"), f"tools.{n}.custom.name")
        require(
            _TOOL_NAME.fullmatch(name) is not None,
            f"tools.{n}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'",
        )
        schema = as_body(tool.get("input_schema"), f"tools.{n}.custom.input_schema")
        require(
            schema.get("type") == "object",
            f"tools.{n}.custom.input_schema.type: Input should be 'object'",
        )
    names = [tool["name"] for tool in tools]
    require(len(set(names)) == len(names), "tools: Tool names must be unique.")
    if (choice := body.get("tool_choice")) is not None:
        kind = as_body(choice, "tool_choice").get("type")
        require(kind in _CHOICES, f"tool_choice.type: '{kind}' is not a tool choice")
        require(bool(tools), "tool_choice may only be specified while providing `tools`.")
        if kind == "tool":
            require(choice.get("name") in names, f"Tool '{choice.get('name')}' not found in tools")


def _check_message(message: Body, place: str) -> None:
    role = message.get("role")
    require(role in _BLOCKS, f"{place}.role: Input should be 'user', 'assistant' or 'system'")
    content = message.get("content")
    if isinstance(content, str):
        require(
            bool(content.strip()), f"{place}: text content blocks must contain non-whitespace text"
        )
        return
    blocks = as_bodies(content, f"{place}.content")
    require(bool(blocks), f"{place}: all messages must have non-empty content")
    for n, block in enumerate(blocks):
        here = f"{place}.content.{n}"
        kind = as_text(block.get("type"), f"{here}.type")
        require(
            kind in _BLOCKS[str(role)],
            f"{here}: `{kind}` blocks are not permitted in `{role}` messages",
        )
        _check_block(block, kind, here)


def _check_block(block: Body, kind: str, place: str) -> None:
    match kind:
        case "text":
            _check_text(block, "messages", place)
        case "image" | "document":
            check_file(block, place)
        case "tool_result":
            as_text(block.get("tool_use_id"), f"{place}.tool_use_id")
            parts: Any = block.get("content") or []
            if isinstance(parts, str):
                return
            for n, part in enumerate(as_bodies(parts, f"{place}.content")):
                _check_block(part, str(part.get("type")), f"{place}.content.{n}")
        case "tool_use":
            call_id = as_text(block.get("id"), f"{place}.id")
            require(
                re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) is not None,
                f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            )
            as_text(block.get("name"), f"{place}.name")
            as_body(block.get("input"), f"{place}.tool_use.input")
        case "thinking" | "redacted_thinking":
            require(
                "cache_control" not in block, f"{place}: cache_control cannot be set for thinking"
            )
        case _:
            raise invalid(f"{place}: Input tag '{kind}' found using 'type' is not expected")


def _check_text(block: Body, whole: str, place: str) -> None:
    text = as_text(block.get("text"), f"{place}.text")
    if not text and block.get("cache_control"):
        raise invalid(f"{place}: cache_control cannot be set for empty text blocks")
    require(bool(text), f"{whole}: text content blocks must be non-empty ({place})")
    require(
        bool(text.strip()),
        f"{whole}: text content blocks must contain non-whitespace text ({place})",
    )


def _check_roles(messages: Sequence[Body], model: WireModel) -> None:
    if not model.takes_system_messages and any(m["role"] == "system" for m in messages):
        raise invalid("role 'system' is not supported on this model")
    require(messages[0]["role"] == "user", 'messages: first message must use the "user" role')
    for n, message in enumerate(messages):
        if message["role"] != "system":
            continue
        require(
            messages[n - 1]["role"] == "user",
            f"messages.{n}: a `system` message must directly follow a `user` message",
        )
        require(
            n + 1 == len(messages) or messages[n + 1]["role"] == "assistant",
            f"messages.{n}: a `system` message must be last or be followed by an `assistant`"
            " message",
        )
    require(
        messages[-1]["role"] != "assistant" or model.takes_prefill,
        "This model does not support assistant message prefill. The conversation must end with a"
        " user message.",
    )


def _check_marks(body: Body, messages: Sequence[Body]) -> None:
    system = body.get("system")
    marked = [*(body.get("tools") or ()), *blocks_of(system if system != "" else None)]
    marked += [block for message in messages for block in blocks_of(message["content"])]
    count = sum(bool(block.get("cache_control")) for block in [*marked, body])
    require(
        count <= _MOST_MARKS,
        f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {count}.",
    )


def _check_thinking_setting(body: Body, model: WireModel, limit: int) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = as_body(thinking, "thinking").get("type")
    if kind == "adaptive":
        require(model.thinks_adaptively, "adaptive thinking is not supported on this model")
    elif kind == "enabled":
        budget = as_count(thinking.get("budget_tokens"), "thinking.enabled.budget_tokens")
        require(
            not model.thinks_adaptively,
            '"thinking.type.enabled" is not supported for this model. Use'
            ' "thinking.type.adaptive".',
        )
        require(budget >= 1_024, "thinking.enabled.budget_tokens: Input should be at least 1024")
        require(budget < limit, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    else:
        require(kind in {"disabled", "between_tools"}, f"thinking.type: '{kind}' is not expected")
