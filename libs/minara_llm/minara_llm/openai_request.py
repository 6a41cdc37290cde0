"""A ModelRequest as a body of OpenAI's Chat Completions, which many servers speak."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition, dump_json
from minara_llm.clean_text import cleaned_json, parsed_object, wire_name
from minara_llm.model import FileContent, ModelRequest, ToolChoice
from minara_llm.prices import ModelFacts
from minara_llm.provider_state import UsedIds, load_state, synthetic_id
from minara_llm.sent_files import (
    NO_FILES,
    PDF,
    AcceptedFiles,
    FileForm,
    SentFile,
    file_line,
    sent_file,
)
from minara_llm.transcript import Stretch, stretches

DOCUMENTS = frozenset({PDF})
_ALWAYS_CALLABLE_SETS = frozenset({"read", "turn"})
"""Tool sets whose READ_ONLY tools need no active skill (turn.md §3)."""

_CALL_ID = re.compile(r"[\x21-\x7e]{1,40}")
"""OpenAI takes no longer ones; servers compatible with it have signs of their own in theirs."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """How far a server goes: OpenAI's own takes developer messages, cache keys and restricted tool
    lists; others get only what they all understand."""

    provider: str
    is_native: bool
    accepted: AcceptedFiles = NO_FILES


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
    return cast("Body", cleaned_json(body))


def wire_messages(request: ModelRequest, dialect: ChatDialect) -> list[Body]:
    """System prompt and transcript as the API takes them; empty texts and messages are left out."""
    sent: list[Body] = []
    system = "\n\n".join(block.text for block in request.system if block.text.strip())
    if system:
        sent.append({"role": "system", "content": system})
    used = UsedIds(_CALL_ID)
    for stretch in stretches(request.messages):
        if stretch.reply is not None:
            sent += _assistant(stretch.reply, stretch, dialect, used)
        for message in stretch.said:
            is_ours = message.role is Role.CONTEXT
            role = ("developer" if dialect.is_native else "system") if is_ours else "user"
            sent += _said(role, message, request.files, dialect.accepted)
    return sent


def _said(
    role: str, message: Message, files: Mapping[str, FileContent], accepted: AcceptedFiles
) -> list[Body]:
    """A message of ours or of the person's, its files before its text."""
    texts: list[str] = []
    parts: list[Body] = []
    for block in message.blocks:
        file = sent_file(block, files, accepted) if isinstance(block, FileBlock) else None
        if file is not None:
            parts.append(_part(file))
        elif isinstance(block, FileBlock):
            texts.append(file_line(block))
    texts += [b.text for b in message.blocks if isinstance(b, TextBlock) and b.text.strip()]
    if parts:
        parts += [{"type": "text", "text": text} for text in texts]
        return [{"role": role, "content": parts}]
    text = "\n\n".join(texts)
    return [{"role": role, "content": text}] if text else []


def _part(file: SentFile) -> Body:
    if file.form is FileForm.IMAGE:
        return {"type": "image_url", "image_url": {"url": file.data_url}}
    return {"type": "file", "file": {"filename": file.name, "file_data": file.data_url}}


def _assistant(
    message: Message, stretch: Stretch, dialect: ChatDialect, used: UsedIds
) -> list[Body]:
    """An assistant message, and the results of its calls."""
    calls = message.tool_calls
    ids = _own_ids(message, dialect.provider, used) or [
        synthetic_id(stretch.place, index) for index in range(len(calls))
    ]
    wire: Body = {"role": "assistant"}
    if message.text.strip():
        wire["content"] = message.text
    if calls:
        wire["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": wire_name(call.name),
                    "arguments": _arguments(call, dialect),
                },
            }
            for call, call_id in zip(calls, ids, strict=True)
        ]
    results: list[Body] = [
        {"role": "tool", "tool_call_id": call_id, "content": result.envelope}
        for result, call_id in zip(stretch.results, ids, strict=True)
    ]
    return [wire, *results]


def _arguments(call: ToolCall, dialect: ChatDialect) -> str:
    """The arguments byte for byte. Some compatible servers parse them, and refuse the whole
    history for a call of which they can make no object."""
    if dialect.is_native or parsed_object(call.arguments_json) is not None:
        return call.arguments_json
    return dump_json({"unreadable": call.arguments_json})


def _own_ids(message: Message, provider: str, used: UsedIds) -> list[str] | None:
    """The ids this provider gave the message's calls, if it wrote the message and they may go."""
    state = load_state(message, provider)
    ids = state.get("tool_call_ids") if state else None
    if not isinstance(ids, list):
        return None
    known = cast("list[str]", ids)
    is_of_calls = len(known) == len(message.tool_calls)
    return known if is_of_calls and used.keeps(known) else None


def _tool(tool: ToolDefinition) -> Body:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.input_schema_json),
        },
    }


def callable_names(request: ModelRequest) -> list[str] | None:
    """The tools that may be called now; None when all may."""
    named = request.callable_tools
    if named is None:
        return None
    names = [tool.name for tool in request.tools if _is_always(tool) or tool.name in named]
    return None if len(names) == len(request.tools) else names


def _is_always(tool: ToolDefinition) -> bool:
    is_reading = tool.permission_tier is PermissionTier.READ_ONLY
    return is_reading and tool.tool_set in _ALWAYS_CALLABLE_SETS


def _choice(request: ModelRequest, dialect: ChatDialect) -> str | Body:
    names = callable_names(request) if dialect.is_native else None
    if request.tool_choice is ToolChoice.NONE or names == []:
        return "none"
    if names is None:
        return "auto"
    return {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": name}} for name in names],
        },
    }
