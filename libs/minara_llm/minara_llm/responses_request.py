"""A ModelRequest as a body of OpenAI's Responses API.

Nothing is kept on the server: every request carries the whole transcript. The system prompt is the
first item, not `instructions`: so all that is cached stands in one list that only grows, and a
server that knows no `instructions` takes it too.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock
from minara_core.tooling import ToolDefinition
from minara_llm.clean_text import cleaned_json, wire_name
from minara_llm.model import FileContent, ModelRequest, ToolChoice
from minara_llm.openai_request import callable_names
from minara_llm.prices import ModelFacts
from minara_llm.provider_state import UsedIds, load_state, synthetic_id
from minara_llm.sent_files import (
    NO_FILES,
    PDF,
    TEXT,
    AcceptedFiles,
    FileForm,
    SentFile,
    file_line,
    sent_file,
)
from minara_llm.transcript import Stretch, stretches

DOCUMENTS = frozenset({PDF, TEXT})
_LEAST_OUTPUT = 16
"""The API refuses a smaller limit."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = MappingProxyType({"message": "msg", "function_call": "fc", "reasoning": "rs"})
"""How the API wants the ids of items to begin."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesDialect:
    """How far a server goes: what it has refused is not sent again."""

    provider: str
    asks_summaries: bool = True
    asks_encrypted: bool = True
    replays_reasoning: bool = True
    restricts_tools: bool = True
    accepted: AcceptedFiles = NO_FILES


def responses_body(
    request: ModelRequest, dialect: ResponsesDialect, facts: ModelFacts | None
) -> Body:
    """The request's body, streaming."""
    limit = facts.max_output if facts else request.max_output_tokens
    body: Body = {
        "model": request.model,
        "input": input_items(request, dialect),
        "max_output_tokens": max(_LEAST_OUTPUT, min(request.max_output_tokens, limit)),
        "prompt_cache_key": request.session_id,
        "store": False,
        "stream": True,
    }
    if dialect.asks_encrypted:
        body["include"] = ["reasoning.encrypted_content"]
    if dialect.asks_summaries:
        body["reasoning"] = {"summary": "auto"}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = _choice(request, dialect)
    return cast("Body", cleaned_json(body))


def forms_of(body: Body) -> list[str]:
    """What a body of ours has that not every server takes, by the fields of ResponsesDialect."""
    has = {
        "replays_reasoning": any(item["type"] == "reasoning" for item in body["input"]),
        "asks_encrypted": "include" in body,
        "asks_summaries": "reasoning" in body,
        "restricts_tools": isinstance(body.get("tool_choice"), dict),
    }
    return [name for name, is_there in has.items() if is_there]


def input_items(request: ModelRequest, dialect: ResponsesDialect) -> list[Body]:
    """System prompt and transcript as items; empty texts and messages are left out."""
    items: list[Body] = []
    system = [_text(block.text) for block in request.system if block.text.strip()]
    if system:
        items.append(_message("developer", system))
    used = UsedIds(_ID)
    for stretch in stretches(request.messages):
        if stretch.reply is not None:
            own = _own_items(stretch.reply, request.model, dialect, used)
            items += _assistant(own or _foreign_items(stretch, dialect), stretch)
        for message in stretch.said:
            role = "developer" if message.role is Role.CONTEXT else "user"
            content = _said(message, request.files, dialect.accepted)
            items += [_message(role, content)] if content else []
    return items


def _message(role: str, content: list[Body]) -> Body:
    return {"type": "message", "role": role, "content": content}


def _text(text: str) -> Body:
    return {"type": "input_text", "text": text}


def _said(
    message: Message, files: Mapping[str, FileContent], accepted: AcceptedFiles
) -> list[Body]:
    """A message's files, then its texts."""
    content: list[Body] = []
    for block in message.blocks:
        if isinstance(block, FileBlock):
            file = sent_file(block, files, accepted)
            content.append(_text(file_line(block)) if file is None else _part(file))
    texts = [b.text for b in message.blocks if isinstance(b, TextBlock) and b.text.strip()]
    return content + [_text(text) for text in texts]


def _part(file: SentFile) -> Body:
    if file.form is FileForm.IMAGE:
        return {"type": "input_image", "image_url": file.data_url, "detail": "auto"}
    return {"type": "input_file", "filename": file.name, "file_data": file.data_url}


def _assistant(own: Sequence[Body], stretch: Stretch) -> list[Body]:
    """An assistant message's items as they are sent, and the results of its calls."""
    waiting = iter(stretch.reply.tool_calls if stretch.reply else ())
    items: list[Body] = []
    for item in own:
        if item["type"] == "function_call":
            name, arguments = wire_name(item["name"]), next(waiting).arguments_json
            items.append({**item, "name": name, "arguments": arguments})
        elif item["type"] != "message" or _says_something(item):
            items.append(dict(item))
    while items and items[-1]["type"] == "reasoning":
        # The API wants what was reasoned for behind it.
        items.pop()
    ids = [item["call_id"] for item in items if item["type"] == "function_call"]
    items += [
        {"type": "function_call_output", "call_id": call_id, "output": result.envelope}
        for call_id, result in zip(ids, stretch.results, strict=True)
    ]
    return items


def _own_items(
    message: Message, model: str, dialect: ResponsesDialect, used: UsedIds
) -> list[Body] | None:
    """What the same model wrote, which goes back as it came, with its reasoning; None when another
    one wrote it, its reasoning is lost, or its ids may not go."""
    items = _kept_items(message, dialect.provider)
    state = load_state(message, dialect.provider) or {}
    is_readable = state.get("model") == model and dialect.replays_reasoning
    if items is None or not is_readable or not _is_whole(items):
        return None
    call_ids = [item.get("call_id") for item in items if item["type"] == "function_call"]
    item_ids = [item["id"] for item in items if "id" in item]
    is_named_well = all(
        str(item["id"]).startswith(_PREFIXES[item["type"]]) for item in items if "id" in item
    )
    return items if is_named_well and used.keeps([*call_ids, *item_ids]) else None


def _foreign_items(stretch: Stretch, dialect: ResponsesDialect) -> list[Body]:
    """Words and calls without reasoning, and with no id by which the server could miss it."""
    message = stretch.reply
    assert message is not None
    items = _kept_items(message, dialect.provider)
    if items is None:
        text = {"type": "output_text", "text": message.text}
        items = [_message("assistant", [text])] if message.text.strip() else []
        items += [{"type": "function_call", "name": call.name} for call in message.tool_calls]
    own = {"id", "phase", "status"}
    made: list[Body] = []
    calls = itertools.count()
    for item in items:
        if item["type"] == "reasoning":
            continue
        made.append({name: value for name, value in item.items() if name not in own})
        if item["type"] == "function_call":
            made[-1]["call_id"] = synthetic_id(stretch.place, next(calls))
    return made


def _kept_items(message: Message, provider: str) -> list[Body] | None:
    """The items this provider sent, if it wrote the message and they belong to its calls."""
    state = load_state(message, provider) or {}
    if not isinstance(state.get("items"), list):
        return None
    items = [item for item in cast("list[Body]", state["items"]) if item["type"] in _PREFIXES]
    names = [item["name"] for item in items if item["type"] == "function_call"]
    return items if names == [call.name for call in message.tool_calls] else None


def _is_whole(items: Sequence[Body]) -> bool:
    """Whether all reasoning can be sent back: without its encrypted form a server that keeps
    nothing does not know it."""
    return all(item.get("encrypted_content") for item in items if item["type"] == "reasoning")


def _says_something(item: Body) -> bool:
    return any((part.get("text") or part.get("refusal") or "").strip() for part in item["content"])


def _tool(tool: ToolDefinition) -> Body:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": json.loads(tool.input_schema_json),
        "strict": False,
    }


def _choice(request: ModelRequest, dialect: ResponsesDialect) -> str | Body:
    names = callable_names(request) if dialect.restricts_tools else None
    if request.tool_choice is ToolChoice.NONE or names == []:
        return "none"
    if names is None:
        return "auto"
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": "auto", "tools": tools}
