"""Anthropic's stream of events as ModelEvents, and what is kept of it for replay."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from minara_core.events import TokenUsage
from minara_core.tooling import dump_json
from minara_llm.anthropic_request import PROVIDER
from minara_llm.clean_text import PairJoiner, cleaned, cleaned_json, is_json
from minara_llm.model import (
    FailureKind,
    ModelCacheMiss,
    ModelEvent,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.prices import priced
from minara_llm.provider_state import dump_state
from minara_llm.wire_errors import failure
from minara_llm.wire_values import MOST_TOKENS, UNREADABLE, count_of, id_of, text_of, usage_of

_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_STOPS = MappingProxyType(
    {
        "tool_use": StopReason.TOOL_CALLS,
        "max_tokens": StopReason.MAX_TOKENS,
        "model_context_window_exceeded": StopReason.MAX_TOKENS,
        "refusal": StopReason.REFUSAL,
    }
)


@dataclass(slots=True)
class _Block:
    """One content block while it arrives: its wire form, and the text its fragments make."""

    content: dict[str, Any]
    text: str = ""
    is_complete: bool = False
    given_input: str = ""
    joiner: PairJoiner = field(default_factory=PairJoiner)

    @property
    def kind(self) -> str:
        return self.content["type"]

    @property
    def arguments(self) -> str:
        """What the fragments make; a server that sends none has told all at the start."""
        return cleaned(self.text) or self.given_input or "{}"

    @property
    def is_whole(self) -> bool:
        """Whether the provider had finished the call; no arguments at all are none yet."""
        return self.is_complete and is_json(self.text or self.given_input)


@dataclass(slots=True, kw_only=True)
class AnthropicReply:
    """Takes the events of one stream in order; `finish` says the rest. `prefix` names what the
    reply stands behind."""

    model: str
    prefix: str = ""
    has_begun: bool = False
    message_id: str = ""
    stop: str | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    told: TokenUsage = field(default_factory=TokenUsage)
    blocks: list[_Block] = field(default_factory=list[_Block])
    open_blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, event: Any) -> list[ModelEvent]:
        """What the event adds. Raises ModelFailure for one that fits nowhere."""
        self.has_begun = True
        try:
            return self._take(event)
        except UNREADABLE as error:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM) from error

    def finish(self) -> list[ModelEvent]:
        """Calls, usage, and the stop. Raises ModelFailure when the stream broke off.

        Calls are told here: before it nothing says that the answer was not refused.
        """
        try:
            return self._finish()
        except UNREADABLE as error:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM) from error

    def _take(self, event: Any) -> list[ModelEvent]:
        match getattr(event, "type", ""):
            case "message_start":
                self.message_id = id_of(event.message.id)
                self._count(getattr(event.message, "usage", None))
                return [*self._spent(), *_cache_miss(event.message)]
            case "content_block_start":
                return self._open(event.index, event.content_block)
            case "content_block_delta":
                return self._add(self.open_blocks[event.index], event.delta)
            case "content_block_stop":
                block = self.open_blocks[event.index]
                block.is_complete = True
                return _told(block, block.joiner.rest())
            case "message_delta":
                self.stop = text_of(event.delta.stop_reason) or self.stop
                self._count(getattr(event, "usage", None))
            case _:
                pass
        return []

    def _finish(self) -> list[ModelEvent]:
        if self.stop is None:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM)
        reason = _STOPS.get(self.stop, StopReason.END)
        if reason is StopReason.REFUSAL:
            # What was called before the answer was refused must never run, nor be replayed.
            self.blocks = [block for block in self.blocks if block.kind != "tool_use"]
        elif reason is StopReason.MAX_TOKENS:
            # The same for a call that the limit cut.
            self.blocks = [b for b in self.blocks if b.kind != "tool_use" or b.is_whole]
        calls: list[ModelEvent] = [
            ModelToolCall(name=block.content["name"], arguments_json=block.arguments)
            for block in self.blocks
            if block.kind == "tool_use"
        ]
        if reason in {StopReason.END, StopReason.TOOL_CALLS}:
            reason = StopReason.TOOL_CALLS if calls else StopReason.END
        rest = [event for block in self.blocks for event in _told(block, block.joiner.rest())]
        events = [*rest, *calls]
        return [*events, *self._spent(), ModelStop(reason=reason, provider_state=self._state())]

    def _open(self, index: int, content: Any) -> list[ModelEvent]:
        kind = content.type
        match kind:
            case "tool_use":
                made = _call(content)
            case "redacted_thinking":
                made = _Block({"type": kind, "data": text_of(content.data)})
            case "thinking":
                made = _Block({"type": kind, "signature": text_of(content.signature)})
            case "text":
                made = _Block({"type": kind})
            case _:
                made = _Block({"type": kind}, is_complete=True)
        self.open_blocks[index] = made
        self.blocks.append(made)
        start = getattr(content, kind, "") if kind in {"text", "thinking"} else ""
        return _grown(made, start or "")

    def _add(self, block: _Block, delta: Any) -> list[ModelEvent]:
        match delta.type:
            case "text_delta":
                return _grown(block, delta.text)
            case "thinking_delta":
                return _grown(block, delta.thinking)
            case "input_json_delta":
                block.text += delta.partial_json
            case "signature_delta":
                block.content["signature"] += delta.signature
            case _:
                pass
        return []

    def _count(self, usage: Any) -> None:
        """The API counts cumulatively, and names cached tokens beside the input, not within."""
        for name in ("input_tokens", "output_tokens", _READ, _WRITTEN):
            told = count_of(getattr(usage, name, None))
            if told is not None:
                self.counts[name] = max(told, self.counts.get(name, 0))
        read, written = self.counts.get(_READ, 0), self.counts.get(_WRITTEN, 0)
        whole = self.counts.get("input_tokens", 0) + read + written
        self.usage = usage_of(
            input_tokens=min(whole, MOST_TOKENS),
            output_tokens=self.counts.get("output_tokens"),
            read=read,
            written=written,
        )

    def _spent(self) -> list[ModelEvent]:
        spent = priced(self.model, self.usage, self.told)
        self.told = self.usage
        return [ModelUsage(usage=spent)]

    def _state(self) -> str:
        content: list[dict[str, Any]] = []
        for block in self.blocks:
            kind = block.kind
            if kind in {"text", "thinking"}:
                content.append({**block.content, kind: block.text})
            elif kind in {"tool_use", "redacted_thinking"}:
                content.append(block.content)
        before = {"prefix": self.prefix} if self.prefix else {}
        kept = {"id": self.message_id, "content": content, **before}
        return dump_state(PROVIDER, self.model, kept)


def _call(content: Any) -> _Block:
    name = cleaned(text_of(content.name))
    if not name:
        raise failure(PROVIDER, FailureKind.MALFORMED_STREAM)
    given = getattr(content, "input", None)
    made = _Block({"type": "tool_use", "id": id_of(getattr(content, "id", None)), "name": name})
    made.given_input = dump_json(cleaned_json(given)) if given else ""
    return made


def _grown(block: _Block, part: str) -> list[ModelEvent]:
    return _told(block, block.joiner.take(part))


def _told(block: _Block, text: str) -> list[ModelEvent]:
    if not text:
        return []
    block.text += text
    return [ModelThinking(text=text) if block.kind == "thinking" else ModelText(text=text)]


def _cache_miss(message: Any) -> list[ModelEvent]:
    diagnostics = getattr(message, "diagnostics", None)
    reason = getattr(diagnostics, "cache_miss_reason", None)
    if reason is None:
        return []
    tokens = count_of(getattr(reason, "cache_missed_input_tokens", None)) or 0
    return [ModelCacheMiss(reason=cleaned(text_of(reason.type)), input_tokens=tokens)]
