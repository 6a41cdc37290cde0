"""The Responses API's stream of events as ModelEvents, and what is kept of it for replay."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from minara_core.events import TokenUsage
from minara_llm.clean_text import PairJoiner, cleaned, is_json
from minara_llm.model import (
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.prices import priced
from minara_llm.provider_state import dump_state
from minara_llm.wire_errors import failure, kind_of

_CALL, _MESSAGE, _REASONING = "function_call", "message", "reasoning"
_INCOMPLETE = MappingProxyType(
    {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}
)
Body = dict[str, Any]


@dataclass(slots=True)
class _Item:
    """One output item while it arrives. `text` is what its fragments make: words or arguments."""

    kind: str
    content: Body = field(default_factory=dict[str, Any])
    text: str = ""
    is_complete: bool = False
    joiner: PairJoiner = field(default_factory=PairJoiner)

    @property
    def arguments(self) -> str:
        return cleaned(self.text) or "{}"


@dataclass(slots=True, kw_only=True)
class ResponsesReply:
    """Takes the events of one stream in order; `finish` says the rest."""

    provider: str
    model: str
    has_begun: bool = False
    stop: StopReason | None = None
    has_refused: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)
    items: dict[int, _Item] = field(default_factory=dict[int, _Item])
    told_calls: int = 0

    def take(self, event: Any) -> list[ModelEvent]:
        """What the event adds. Raises ModelFailure for one that fits nowhere, or tells of one."""
        try:
            return self._take(event)
        except (AttributeError, KeyError, TypeError) as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    def _take(self, event: Any) -> list[ModelEvent]:
        kind: str = getattr(event, "type", None) or ""
        match kind:
            case "response.output_item.added":
                self._item(event.output_index, event.item.type)
            case "response.output_item.done":
                return self._done(event.output_index, event.item)
            case "response.output_text.delta":
                return self._grown(self._item(event.output_index, _MESSAGE), event.delta)
            case "response.refusal.delta":
                self.has_refused = True
                return self._grown(self._item(event.output_index, _MESSAGE), event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._grown(self._item(event.output_index, _REASONING), event.delta)
            case "response.reasoning_summary_part.added":
                return self._new_part(self._item(event.output_index, _REASONING))
            case "response.function_call_arguments.delta":
                self._item(event.output_index, _CALL).text += event.delta
            case "error":
                raise self._failed(event)
            case _:
                return self._end(kind, event)
        return []

    def finish(self) -> list[ModelEvent]:
        """Calls that wait, usage, and the stop. Raises ModelFailure when the stream broke off."""
        reason = self.stop
        if reason is None:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        if self.has_refused:
            reason = StopReason.REFUSAL
        if reason is StopReason.END and not all(i.is_complete for i in self._calls()):
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        if reason is not StopReason.END:
            # A call that the limit cut in half must never run, nor be replayed.
            halves = [n for n, i in self.items.items() if i.kind == _CALL and not _is_readable(i)]
            for index in halves:
                del self.items[index]
        events = [e for item in self._ordered() for e in _told(item, item.joiner.rest())]
        events += self._ready_calls(is_over=True)
        if reason is StopReason.END and self.told_calls:
            reason = StopReason.TOOL_CALLS
        spent = ModelUsage(usage=priced(self.model, self.usage, TokenUsage()))
        return [*events, spent, ModelStop(reason=reason, provider_state=self._state())]

    def _end(self, kind: str, event: Any) -> list[ModelEvent]:
        """The last event, which repeats all items; some servers tell one only here."""
        ends = {"response.completed", "response.incomplete", "response.failed"}
        if kind not in ends and kind != "response.cancelled":
            return []
        response = event.response
        self._count(getattr(response, "usage", None))
        if kind not in {"response.completed", "response.incomplete"}:
            raise self._failed(getattr(response, "error", None))
        told: list[ModelEvent] = []
        for index, item in enumerate(getattr(response, "output", None) or ()):
            known = self.items.get(index)
            if known is None or not known.is_complete:
                told += self._done(index, item)
        details = getattr(response, "incomplete_details", None)
        cut = getattr(details, "reason", None) if kind == "response.incomplete" else None
        self.stop = _INCOMPLETE.get(cut or "", StopReason.END)
        return told

    def _item(self, index: int, kind: str) -> _Item:
        self.has_begun = True
        return self.items.setdefault(index, _Item(kind))

    def _ordered(self) -> Sequence[_Item]:
        return [self.items[index] for index in sorted(self.items)]

    def _calls(self) -> Sequence[_Item]:
        return [item for item in self._ordered() if item.kind == _CALL]

    def _grown(self, item: _Item, part: str) -> list[ModelEvent]:
        return _told(item, item.joiner.take(part))

    def _new_part(self, item: _Item) -> list[ModelEvent]:
        return _told(item, item.joiner.rest() + "\n\n") if item.text else []

    def _done(self, index: int, done: Any) -> list[ModelEvent]:
        """A finished item: what its fragments did not tell, and what is kept of it."""
        item = self._item(index, done.type)
        told = _told(item, item.joiner.rest())
        match done.type:
            case "function_call":
                if not done.name:
                    raise failure(self.provider, FailureKind.MALFORMED_STREAM)
                item.text = done.arguments or item.text
                item.content = _kept(done, "id", "call_id", "name")
            case "message":
                parts = [_part(part) for part in done.content or ()]
                self.has_refused |= any(part["type"] == "refusal" for part in parts)
                whole = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
                # Fragments are told as they come; a server that sent none has it all here.
                told += _told(item, "" if item.text else whole)
                item.content = {
                    **_kept(done, "id", "phase"),
                    "role": "assistant",
                    "status": "completed",
                    "content": parts,
                }
            case "reasoning":
                summary = [{"type": p.type, "text": p.text} for p in done.summary or ()]
                item.content = {**_kept(done, "id", "encrypted_content"), "summary": summary}
            case _:
                pass
        item.is_complete = True
        return [*told, *self._ready_calls()]

    def _ready_calls(self, *, is_over: bool = False) -> list[ModelEvent]:
        """Calls in their order, each once it is complete."""
        ready: list[ModelEvent] = []
        for item in self._calls()[self.told_calls :]:
            if not item.is_complete or not (is_over or _is_readable(item)):
                break
            ready.append(ModelToolCall(name=item.content["name"], arguments_json=item.arguments))
        self.told_calls += len(ready)
        return ready

    def _failed(self, error: Any) -> ModelFailure:
        detail = str(getattr(error, "message", None) or "")
        names = (getattr(error, "code", None), getattr(error, "type", None))
        kind = kind_of(status=None, names=names, text=detail)
        return failure(self.provider, kind, detail=detail)

    def _count(self, usage: Any) -> None:
        if usage is None:
            return
        details = getattr(usage, "input_tokens_details", None)
        self.usage = TokenUsage(
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=getattr(details, "cached_tokens", None) or 0,
            cache_write_tokens=getattr(details, "cache_write_tokens", None) or 0,
        )

    def _state(self) -> str:
        items: list[Body] = [
            {"type": item.kind, **item.content}
            for item in self._ordered()
            if item.is_complete and item.content
        ]
        return dump_state(self.provider, self.model, {"items": items})


def _is_readable(item: _Item) -> bool:
    return item.is_complete and is_json(item.arguments)


def _kept(done: Any, *names: str) -> Body:
    found = {name: getattr(done, name, None) for name in names}
    return {name: value for name, value in found.items() if value}


def _part(part: Any) -> Body:
    if part.type == "refusal":
        return {"type": "refusal", "refusal": cleaned(part.refusal)}
    return {"type": "output_text", "text": cleaned(part.text), "annotations": []}


def _told(item: _Item, text: str) -> list[ModelEvent]:
    if not text or item.kind not in {_MESSAGE, _REASONING}:
        return []
    item.text += text
    return [ModelThinking(text=text) if item.kind == _REASONING else ModelText(text=text)]
