"""A ModelRequest as a body of Anthropic's Messages API.

Between two assistant messages stand at most two others: all that the person's side said, results
first, and behind it our context as a message of the role `system`, where the model takes one. So a
longer transcript only adds blocks at the end.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock
from minara_core.tooling import ToolCall
from minara_llm.anthropic_cache import set_breakpoints, system_blocks
from minara_llm.clean_text import cleaned_json, parsed_object, wire_name
from minara_llm.model import FileContent, ModelRequest, ToolChoice
from minara_llm.prices import ModelFacts
from minara_llm.provider_state import load_state, synthetic_id
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

PROVIDER = "anthropic"
DOCUMENTS = frozenset({PDF, TEXT})
_OPENING = "<context>\nThe conversation began earlier.\n</context>"
"""Sent before an assistant message that compaction left at the start: a user must come first."""

_THINKING = frozenset({"thinking", "redacted_thinking"})

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesDialect:
    """How far an endpoint goes: what it has refused is not sent again.

    `asks_cache_misses`: it compares each request with the one before, when asked to.
    """

    carries_system: bool = False
    replays_thinking: bool = True
    asks_cache_misses: bool = False
    accepted: AcceptedFiles = NO_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRequest:
    """A body, without `stream`. `prefix` names all that stands before the reply; empty when the
    model does not care."""

    body: Body
    prefix: str = ""


def messages_request(
    request: ModelRequest, dialect: MessagesDialect, facts: ModelFacts | None
) -> MessagesRequest:
    """The request as it is sent."""
    limit = facts.max_output if facts else request.max_output_tokens
    tools: list[Body] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": json.loads(tool.input_schema_json),
        }
        for tool in request.tools
    ]
    system, ends = system_blocks(request.system)
    prefix = Prefix(system, tools) if facts and facts.binds_thinking else None
    messages = wire_messages(request, dialect, prefix)
    set_breakpoints(ends, messages)
    body: Body = {
        "model": request.model,
        "max_tokens": max(1, min(request.max_output_tokens, limit)),
        "messages": messages,
    }
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
        if request.tool_choice is ToolChoice.NONE:
            body["tool_choice"] = {"type": "none"}
    if facts and facts.has_adaptive_thinking:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    if dialect.asks_cache_misses:
        body["diagnostics"] = {"previous_message_id": _last_own_id(request.messages)}
    return MessagesRequest(
        body=cast("Body", cleaned_json(body)), prefix=prefix.name if prefix else ""
    )


class Prefix:
    """Names what was sent so far. Newer models read a thought only behind the very prefix that it
    was thought behind, and the API refuses a request that sends it behind another."""

    def __init__(self, system: Sequence[Body], tools: Sequence[Body]) -> None:
        self._digest = hashlib.sha256(json.dumps([system, tools]).encode())

    def add(self, role: str, blocks: Sequence[Body]) -> None:
        for block in blocks:
            self._digest.update(json.dumps([role, block]).encode())

    @property
    def name(self) -> str:
        return self._digest.hexdigest()[:32]


def has_system_messages(body: Body) -> bool:
    """Whether a body of ours carries context as messages of the role `system`."""
    return any(message["role"] == "system" for message in body["messages"])


def has_thinking(body: Body) -> bool:
    """Whether a body of ours sends thoughts back."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return any(block["type"] in _THINKING for block in blocks)


def wire_messages(
    request: ModelRequest, dialect: MessagesDialect, prefix: Prefix | None = None
) -> list[Body]:
    """The transcript as the API takes it; empty texts and messages are left out."""
    sent: list[Body] = []

    def append(role: str, blocks: list[Body]) -> None:
        if prefix is not None:
            prefix.add(role, blocks)
        if blocks and sent and sent[-1]["role"] == role:
            sent[-1]["content"].extend(blocks)
        elif blocks:
            sent.append({"role": role, "content": blocks})

    for stretch in stretches(request.messages):
        results: list[Body] = []
        if stretch.reply is not None:
            if not sent:
                append("user", [_text(_OPENING)])
            keeps = dialect.replays_thinking and _may_read(
                stretch.reply, request.model, prefix.name if prefix else ""
            )
            blocks, ids = _assistant(stretch.reply, stretch.place, keeps_thinking=keeps)
            append("assistant", blocks)
            results = _results(stretch, ids)
        theirs, ours = _said(stretch.said, request.files, dialect)
        if (results or theirs) and dialect.carries_system:
            append("user", [*results, *theirs])
            append("system", [_text(text) for _, text in ours])
        else:
            append("user", [*results, *_interleaved(theirs, ours)])
    return sent


def _may_read(message: Message, model: str, prefix: str) -> bool:
    """Whether the model reads the message's thinking: its own, behind the same prefix."""
    state = load_state(message, PROVIDER) or {}
    before = state.get("prefix") or ""
    return state.get("model") == model and (not before or not prefix or before == prefix)


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _results(stretch: Stretch, ids: Sequence[str]) -> list[Body]:
    return [
        {"type": "tool_result", "tool_use_id": call_id, "content": result.envelope}
        | ({"is_error": True} if result.is_error else {})
        for call_id, result in zip(ids, stretch.results, strict=True)
    ]


def _said(
    messages: Sequence[Message], files: Mapping[str, FileContent], dialect: MessagesDialect
) -> tuple[list[Body], list[tuple[int, str]]]:
    """The person's blocks, a message's files before its text; and our texts, each with the number
    of the person's blocks that came before it."""
    theirs: list[Body] = []
    ours: list[tuple[int, str]] = []
    for message in messages:
        theirs += [
            _file(block, files, dialect.accepted)
            for block in message.blocks
            if isinstance(block, FileBlock)
        ]
        texts = [b.text for b in message.blocks if isinstance(b, TextBlock) and b.text.strip()]
        if message.role is Role.CONTEXT:
            ours += [(len(theirs), text) for text in texts]
        else:
            theirs += [_text(text) for text in texts]
    return theirs, ours


def _interleaved(theirs: list[Body], ours: list[tuple[int, str]]) -> list[Body]:
    """All blocks as they came, ours tagged."""
    blocks: list[Body] = []
    for place in range(len(theirs) + 1):
        blocks += [_text(f"<context>\n{text}\n</context>") for at, text in ours if at == place]
        blocks += theirs[place : place + 1]
    return blocks


def _file(block: FileBlock, files: Mapping[str, FileContent], accepted: AcceptedFiles) -> Body:
    file = sent_file(block, files, accepted)
    if file is None:
        return _text(file_line(block))
    if file.form is FileForm.IMAGE:
        return {"type": "image", "source": _whole(file)}
    source = _whole(file)
    if file.form is FileForm.TEXT:
        words = file.content.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": words}
    return {"type": "document", "source": source, "title": file.name}


def _whole(file: SentFile) -> Body:
    return {"type": "base64", "media_type": file.media_type, "data": file.base64}


def _assistant(
    message: Message, place: int, *, keeps_thinking: bool
) -> tuple[list[Body], list[str]]:
    """An assistant message's blocks, and the provider's id of each call."""
    calls = message.tool_calls
    content = _own_content(message)
    if content is None:
        content = [_text(block.text) for block in message.blocks if isinstance(block, TextBlock)]
        content += [
            {"type": "tool_use", "id": synthetic_id(place, index), "name": call.name}
            for index, call in enumerate(calls)
        ]
    blocks: list[Body] = []
    ids: list[str] = []
    waiting = iter(calls)
    for block in content:
        match block["type"]:
            case "tool_use":
                ids.append(block["id"])
                blocks.append(
                    {**block, "name": wire_name(block["name"]), "input": _input(next(waiting))}
                )
            case "text":
                if block["text"].strip():
                    blocks.append(dict(block))
            case _:
                if keeps_thinking:
                    blocks.append(dict(block))
    while blocks and blocks[-1]["type"] in _THINKING:
        # The API takes no message that ends with a thought.
        blocks.pop()
    return blocks, ids


def _own_content(message: Message) -> list[Body] | None:
    """The blocks this provider sent, if it wrote the message and they belong to its calls."""
    state = load_state(message, PROVIDER)
    if state is None or not isinstance(state.get("content"), list):
        return None
    content = cast("list[Body]", state["content"])
    names = [block["name"] for block in content if block["type"] == "tool_use"]
    return content if names == [call.name for call in message.tool_calls] else None


def _last_own_id(messages: Sequence[Message]) -> str | None:
    """The provider's id of its newest message: that of the request before this one."""
    for message in reversed(messages):
        state = load_state(message, PROVIDER) if message.role is Role.ASSISTANT else None
        if state and state.get("id"):
            return str(state["id"])
    return None


def _input(call: ToolCall) -> Body:
    parsed = parsed_object(call.arguments_json)
    # The API takes an object; what a model wrote instead must still be there to be read.
    return {"unreadable": call.arguments_json} if parsed is None else parsed
