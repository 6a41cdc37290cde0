"""Anthropic's stream of events as ModelEvents, and what is kept of it for replay."""

from dataclasses import dataclass, field, replace
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
    def has_readable_arguments(self) -> bool:
        return is_json(self.arguments)


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
    told_calls: int = 0

    def take(self, event: Any) -> list[ModelEvent]:
        """What the event adds. Raises ModelFailure for one that fits nowhere."""
        self.has_begun = True
        try:
            return self._take(event)
        except (AttributeError, KeyError, TypeError) as error:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM) from error

    def _take(self, event: Any) -> list[ModelEvent]:
        match getattr(event, "type", ""):
            case "message_start":
                self.message_id = event.message.id or ""
                self._count(event.message.usage)
                return [*self._spent(), *_cache_miss(event.message)]
            case "content_block_start":
                return self._open(event.index, event.content_block)
            case "content_block_delta":
                return self._add(self.open_blocks[event.index], event.delta)
            case "content_block_stop":
                block = self.open_blocks[event.index]
                block.is_complete = True
                return [*_told(block, block.joiner.rest()), *self._ready_calls()]
            case "message_delta":
                self.stop = event.delta.stop_reason or self.stop
                self._count(event.usage)
            case _:
                pass
        return []

    def finish(self) -> list[ModelEvent]:
        """Calls that wait, usage, and the stop. Raises ModelFailure when the stream broke off."""
        if self.stop is None:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM)
        reason = _STOPS.get(self.stop, StopReason.END)
        if reason is StopReason.MAX_TOKENS:
            # A call that the limit cut in half must never run, nor be replayed.
            self.blocks = [
                block
                for block in self.blocks
                if block.kind != "tool_use" or block.has_readable_arguments
            ]
        rest = [event for block in self.blocks for event in _told(block, block.joiner.rest())]
        events = [*rest, *self._ready_calls(is_over=True)]
        if reason in {StopReason.END, StopReason.TOOL_CALLS}:
            reason = StopReason.TOOL_CALLS if self.told_calls else StopReason.END
        return [*events, *self._spent(), ModelStop(reason=reason, provider_state=self._state())]

    def _open(self, index: int, content: Any) -> list[ModelEvent]:
        kind = content.type
        match kind:
            case "tool_use":
                made = _call(content)
            case "redacted_thinking":
                made = _Block({"type": kind, "data": content.data})
            case "thinking":
                made = _Block({"type": kind, "signature": content.signature or ""})
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

    def _ready_calls(self, *, is_over: bool = False) -> list[ModelEvent]:
        """Calls in their order, each once it is complete; an unreadable one holds back the rest."""
        calls = [block for block in self.blocks if block.kind == "tool_use"]
        ready: list[ModelEvent] = []
        for block in calls[self.told_calls :]:
            if not is_over and not (block.is_complete and block.has_readable_arguments):
                break
            ready.append(ModelToolCall(name=block.content["name"], arguments_json=block.arguments))
        self.told_calls += len(ready)
        return ready

    def _count(self, usage: Any) -> None:
        """The API counts cumulatively, and names cached tokens beside the input, not within."""
        if usage is None:
            return
        read = _known(usage, "cache_read_input_tokens", self.usage.cache_read_tokens)
        written = _known(usage, "cache_creation_input_tokens", self.usage.cache_write_tokens)
        before = self.usage
        fresh = _known(
            usage,
            "input_tokens",
            before.input_tokens - before.cache_read_tokens - before.cache_write_tokens,
        )
        self.usage = replace(
            before,
            input_tokens=fresh + read + written,
            output_tokens=_known(usage, "output_tokens", before.output_tokens),
            cache_read_tokens=read,
            cache_write_tokens=written,
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
    if not content.name:
        raise failure(PROVIDER, FailureKind.MALFORMED_STREAM)
    given = getattr(content, "input", None)
    made = _Block({"type": "tool_use", "id": content.id, "name": cleaned(content.name)})
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
    tokens = getattr(reason, "cache_missed_input_tokens", None) or 0
    return [ModelCacheMiss(reason=str(reason.type), input_tokens=int(tokens))]


def _known(usage: Any, name: str, otherwise: int) -> int:
    value = getattr(usage, name, None)
    return otherwise if value is None else int(value)
