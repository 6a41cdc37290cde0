"""A ModelRequest as a body of Anthropic's Messages API.

Between two assistant messages stand at most two others: all that the person's side said, results
first, and behind it our context as a message of the role `system`, where the model takes one. Where
the model has said nothing to that, a fixed line stands for its answer: the API takes nothing else
behind such a message. So a longer transcript only adds blocks at the end.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from minara_core.messages import FileBlock, Message, Role, TextBlock
from minara_core.tooling import ToolCall, ToolDefinition
from minara_llm.anthropic_cache import set_breakpoints, system_blocks
from minara_llm.clean_text import cleaned_json, parsed_object, wire_name
from minara_llm.model import FileContent, ModelRequest, ToolChoice
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

PROVIDER = "anthropic"
DOCUMENTS = frozenset({PDF, TEXT})
_OPENING = "<context>\nThe conversation began earlier.\n</context>"
"""Sent before an assistant message that compaction left at the start: a user must come first."""

_SILENCE = "(no answer)"
"""Stands for an answer that never came, or was empty, where the API wants one."""

_GONE = "Not available at the moment."
"""What a tool does that the history speaks of and the request does not have."""

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CONTEXT_TAG = re.compile(r"<(?=\s*/?\s*context\b)", re.IGNORECASE)
_THINKING = frozenset({"thinking", "redacted_thinking"})

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesDialect:
    """How far an endpoint goes: what it has refused is not sent again.

    `asks_cache_misses`: it compares each request with the one before, when asked to.
    """

    carries_system: bool = False
    asks_thinking: bool = True
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
    tools = [_tool(tool) for tool in request.tools] or _gone_tools(request.messages)
    system, ends = system_blocks(request.system)
    prefix = Prefix(system, tools) if facts and facts.binds_thinking else None
    transcript = Transcript(request, dialect, prefix)
    set_breakpoints(ends, transcript.sent)
    body: Body = {
        "model": request.model,
        "max_tokens": max(1, min(request.max_output_tokens, limit)),
        "messages": transcript.sent,
    }
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
        if request.tool_choice is ToolChoice.NONE or not request.tools:
            body["tool_choice"] = {"type": "none"}
    can_think = facts is not None and facts.has_adaptive_thinking
    if can_think and dialect.asks_thinking and not transcript.is_amid_lost_thoughts:
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
    return any(_is_thought(message["content"]) for message in body["messages"])


def _is_thought(blocks: Sequence[Body]) -> bool:
    return any(block["type"] in _THINKING for block in blocks)


class Transcript:
    """The transcript as the API takes it, in `sent`; empty texts and messages are left out.

    `is_amid_lost_thoughts`: the model is in the middle of calls, and a thought of its own before
    one of them cannot go back. Such a request must not ask for thinking: some servers then want the
    thought that the calls began with. So it stays until the model has answered without a call.
    """

    def __init__(
        self, request: ModelRequest, dialect: MessagesDialect, prefix: Prefix | None = None
    ) -> None:
        self.sent: list[Body] = []
        self.is_amid_lost_thoughts = False
        self._request = request
        self._dialect = dialect
        self._prefix = prefix
        self._ids = UsedIds(_CALL_ID)
        for stretch in stretches(request.messages):
            results = self._reply(stretch) if stretch.reply is not None else []
            for said in _openings(stretch.said):
                self._say(results, said)
                results = []

    def _reply(self, stretch: Stretch) -> list[Body]:
        """Send an assistant message; what comes back are the results of its calls."""
        message = stretch.reply
        assert message is not None
        if not self.sent:
            self._append("user", [_text(_OPENING)])
        state = load_state(message, PROVIDER) or {}
        is_own = state.get("model") == self._request.model
        keeps = is_own and self._dialect.replays_thinking and self._stands_behind(state)
        blocks, ids = _assistant(message, stretch.place, self._ids, keeps_thinking=keeps)
        has_lost = is_own and _is_thought(_own_content(message) or ()) and not _is_thought(blocks)
        amid = self.is_amid_lost_thoughts
        self.is_amid_lost_thoughts = bool(message.tool_calls) and (amid or has_lost)
        self._append("assistant", blocks)
        return [
            {"type": "tool_result", "tool_use_id": call_id, "content": result.envelope}
            | ({"is_error": True} if result.is_error else {})
            for call_id, result in zip(ids, stretch.results, strict=True)
        ]

    def _say(self, results: list[Body], said: Sequence[Message]) -> None:
        """Send what was said at once, on the person's side and on ours, behind results."""
        theirs, ours = _said(said, self._request.files, self._dialect)
        if not (results or theirs or ours):
            return
        if self.sent and self.sent[-1]["role"] == "system":
            self._append("assistant", [_text(_SILENCE)])
        if (results or theirs) and self._dialect.carries_system:
            self._append("user", [*results, *theirs])
            self._append("system", [_text(text) for _, text in ours])
        else:
            self._append("user", [*results, *_interleaved(theirs, ours)])

    def _append(self, role: str, blocks: list[Body]) -> None:
        if self._prefix is not None:
            self._prefix.add(role, blocks)
        if blocks and self.sent and self.sent[-1]["role"] == role:
            self.sent[-1]["content"].extend(blocks)
        elif blocks:
            self.sent.append({"role": role, "content": blocks})

    def _stands_behind(self, state: Body) -> bool:
        """Whether all that a message was written behind is there, if the model minds."""
        before = state.get("prefix") or ""
        return not before or self._prefix is None or before == self._prefix.name


def _openings(said: Sequence[Message]) -> list[Sequence[Message]]:
    """What was said, cut where the next turn begins: before the context directly before a person's
    message, or before that message. The first part may be empty."""
    cuts = [0]
    for place, message in enumerate(said):
        if message.role is Role.USER:
            has_context = place > 0 and said[place - 1].role is Role.CONTEXT
            cuts.append(place - 1 if has_context else place)
    return [said[start:end] for start, end in pairwise([*cuts, len(said)])]


def _tool(tool: ToolDefinition) -> Body:
    schema = json.loads(tool.input_schema_json)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _gone_tools(messages: Sequence[Message]) -> list[Body]:
    """The tools that the history speaks of: the API takes no call without any tools."""
    names = [wire_name(call.name) for message in messages for call in message.tool_calls]
    return [
        {"name": name, "description": _GONE, "input_schema": {"type": "object"}}
        for name in dict.fromkeys(names)
    ]


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _untagged(text: str) -> str:
    """A text that can neither open nor close the tags of our context."""
    return _CONTEXT_TAG.sub("‹", text)


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
            theirs += [_text(_untagged(text)) for text in texts]
    return theirs, ours


def _interleaved(theirs: list[Body], ours: list[tuple[int, str]]) -> list[Body]:
    """All blocks as they came, ours tagged."""
    blocks: list[Body] = []
    for place in range(len(theirs) + 1):
        blocks += [
            _text(f"<context>\n{_untagged(text)}\n</context>") for at, text in ours if at == place
        ]
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
    message: Message, place: int, used: UsedIds, *, keeps_thinking: bool
) -> tuple[list[Body], list[str]]:
    """An assistant message's blocks, and the id of each call: the provider's, or all of ours."""
    calls = message.tool_calls
    content = _own_content(message)
    own: list[object] = [b.get("id") for b in content or () if b["type"] == "tool_use"]
    if content is None:
        content = [_text(block.text) for block in message.blocks if isinstance(block, TextBlock)]
        content += [{"type": "tool_use", "name": call.name} for call in calls]
    ids = (
        [str(each) for each in own]
        if own and used.keeps(own)
        else [synthetic_id(place, index) for index in range(len(calls))]
    )
    blocks: list[Body] = []
    waiting = iter(zip(calls, ids, strict=True))
    for block in content:
        match block["type"]:
            case "tool_use":
                call, call_id = next(waiting)
                name, given = wire_name(block["name"]), _input(call)
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": given})
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
