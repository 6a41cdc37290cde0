"""Chat Completions' stream of chunks as ModelEvents, and what is kept of it for replay."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from minara_core.events import TokenUsage
from minara_core.tooling import dump_json
from minara_llm.clean_text import PairJoiner, cleaned, is_json
from minara_llm.model import (
    FailureKind,
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
from minara_llm.wire_values import UNREADABLE, id_of, text_of, usage_of

_STOPS = MappingProxyType(
    {
        "tool_calls": StopReason.TOOL_CALLS,
        "function_call": StopReason.TOOL_CALLS,
        "length": StopReason.MAX_TOKENS,
        "content_filter": StopReason.REFUSAL,
    }
)
_THINKING = ("reasoning_content", "reasoning")
"""Where compatible servers put a model's thinking; OpenAI's own keeps it to itself here."""


@dataclass(slots=True)
class _Call:
    """One call while its fragments arrive."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are one whole value, which an empty text is not yet."""
        return is_json(self.arguments)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be missing, though the answer was cut: nothing goes on behind an
        object."""
        return self.is_whole and self.arguments.lstrip().startswith("{")


@dataclass(slots=True, kw_only=True)
class ChatReply:
    """Takes the chunks of one stream in order; `finish` says the rest.

    Calls are told at the end: nothing before it says that the last fragment of one has come.
    """

    provider: str
    model: str
    stop: str | None = None
    has_refused: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)
    calls: list[_Call] = field(default_factory=list[_Call])
    text: PairJoiner = field(default_factory=PairJoiner)
    thinking: PairJoiner = field(default_factory=PairJoiner)

    def take(self, chunk: Any) -> list[ModelEvent]:
        """What the chunk adds. Raises ModelFailure for one that fits nowhere."""
        try:
            return self._take(chunk)
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    def _take(self, chunk: Any) -> list[ModelEvent]:
        if getattr(chunk, "usage", None) is not None:
            self._count(chunk.usage)
        events: list[ModelEvent] = []
        for choice in chunk.choices or ():
            if choice.index:
                continue
            self.stop = text_of(getattr(choice, "finish_reason", None)) or self.stop
            if choice.delta is not None:
                events += self._say(choice.delta)
        return events

    def finish(self) -> list[ModelEvent]:
        """The calls, usage, and the stop. Raises ModelFailure when the stream broke off."""
        try:
            return self._finish()
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    def _finish(self) -> list[ModelEvent]:
        if self.stop is None:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        if self.stop == "error":
            raise failure(self.provider, FailureKind.OVERLOADED)
        reason = _STOPS.get(self.stop, StopReason.END)
        if self.has_refused:
            reason = StopReason.REFUSAL
        if reason is StopReason.REFUSAL:
            # What was called before the answer was refused must never run, nor be replayed.
            self.calls = []
        elif reason is StopReason.MAX_TOKENS:
            # The same for a call that the limit cut.
            self.calls = [call for call in self.calls if call.is_complete]
        else:
            reason = StopReason.TOOL_CALLS if self.calls else StopReason.END
        if not all(call.name for call in self.calls):
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        told = [*_thought(self.thinking.rest()), *_said(self.text.rest())]
        told += [
            ModelToolCall(name=cleaned(call.name), arguments_json=cleaned(call.arguments) or "{}")
            for call in self.calls
        ]
        spent = ModelUsage(usage=priced(self.model, self.usage, TokenUsage()))
        return [*told, spent, ModelStop(reason=reason, provider_state=self._state())]

    def _say(self, delta: Any) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        thinking = next((text for name in _THINKING if (text := getattr(delta, name, None))), "")
        if thinking and isinstance(thinking, str):
            events += _thought(self.thinking.take(thinking))
        if delta.content:
            events += _said(self.text.take(delta.content))
        if getattr(delta, "refusal", None):
            self.has_refused = True
            events += _said(self.text.take(delta.refusal))
        for fragment in delta.tool_calls or ():
            self._grow(fragment)
        return events

    def _grow(self, fragment: Any) -> None:
        made = fragment.function
        arguments = (made.arguments or "") if made is not None else ""
        if not isinstance(arguments, str):
            # Some servers send the parsed object.
            arguments = dump_json(arguments)
        call = self._call_of(fragment, has_more=bool(made is not None and made.name and arguments))
        call.call_id = id_of(fragment.id) or call.call_id
        if made is not None:
            call.name = call.name or text_of(made.name)
            call.arguments += arguments

    def _call_of(self, fragment: Any, *, has_more: bool) -> _Call:
        """The call a fragment belongs to. Some servers give every call the index 0, or none: then
        a new id begins a new call, and without ids a name and arguments behind whole ones."""
        index = getattr(fragment, "index", None)
        known = [call for call in self.calls if index is None or call.index == index]
        last = known[-1] if known else None
        if last is not None:
            call_id = id_of(fragment.id)
            is_other = bool(call_id and last.call_id and call_id != last.call_id)
            is_next = has_more and not fragment.id and last.is_whole
            last = None if is_other or is_next else last
        if last is None:
            last = _Call(index=len(self.calls) if index is None else index)
            self.calls.append(last)
        return last

    def _count(self, usage: Any) -> None:
        details = getattr(usage, "prompt_tokens_details", None)
        self.usage = usage_of(
            input_tokens=getattr(usage, "prompt_tokens", None),
            output_tokens=getattr(usage, "completion_tokens", None),
            read=getattr(details, "cached_tokens", None),
            written=getattr(details, "cache_write_tokens", None),
        )

    def _state(self) -> str:
        ids = [call.call_id for call in self.calls]
        return dump_state(self.provider, self.model, {"tool_call_ids": ids})


def _said(text: str) -> list[ModelEvent]:
    return [ModelText(text=text)] if text else []


def _thought(text: str) -> list[ModelEvent]:
    return [ModelThinking(text=text)] if text else []
