"""The Responses API's stream of events as ModelEvents, and what is kept of it for replay."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from minara_core.events import TokenUsage
from minara_llm.clean_text import cleaned, is_json
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
from minara_llm.responses_items import CALL, MESSAGE, REASONING, Item, Items
from minara_llm.wire_errors import failure, kind_of
from minara_llm.wire_values import UNREADABLE, id_of, text_of, usage_of

_COMPLETED, _INCOMPLETE = "response.completed", "response.incomplete"
_ENDS = (_COMPLETED, _INCOMPLETE, "response.failed", "response.cancelled")
_CUTS = MappingProxyType(
    {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}
)
Body = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ResponsesReply:
    """Takes the events of one stream in order; `finish` says the rest."""

    provider: str
    model: str
    has_begun: bool = False
    stop: StopReason | None = None
    has_refused: bool = False
    is_cut: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)
    items: Items = field(default_factory=Items)

    def take(self, event: Any) -> list[ModelEvent]:
        """What the event adds. Raises ModelFailure for one that fits nowhere, or tells of one."""
        try:
            return self._take(event)
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    def finish(self) -> list[ModelEvent]:
        """Calls, usage, and the stop. Raises ModelFailure when the stream broke off.

        Calls are told here: before it nothing says that the answer was not refused.
        """
        try:
            return self._finish()
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    def _take(self, event: Any) -> list[ModelEvent]:
        kind = getattr(event, "type", None)
        match kind:
            case "response.output_item.added":
                self.has_begun = True
                self.items.begun(event)
            case "response.output_item.done":
                self.has_begun = True
                return self._done(self.items.done(event), event.item)
            case "response.output_text.delta":
                return self._grown(MESSAGE, event)
            case "response.refusal.delta":
                self.has_refused = True
                return self._grown(MESSAGE, event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._grown(REASONING, event)
            case "response.reasoning_summary_part.added":
                self.has_begun = True
                item = self.items.grown(REASONING, event)
                return _told(item, item.joiner.rest() + "\n\n") if item.text else []
            case "response.function_call_arguments.delta":
                self.has_begun = True
                self.items.grown(CALL, event).text += event.delta
            case "error":
                raise self._failed(event)
            case _:
                return self._end(kind, event)
        return []

    def _finish(self) -> list[ModelEvent]:
        reason = StopReason.REFUSAL if self.has_refused and self.stop else self.stop
        if reason is None:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        items = self.items.ordered()
        calls = [item for item in items if item.kind == CALL]
        if reason is StopReason.REFUSAL:
            # What was called before the answer was refused must never run, nor be replayed.
            calls = []
        elif self.is_cut:
            # The same for a call that was cut.
            calls = [call for call in calls if _is_whole(call)]
        elif not all(call.is_complete for call in calls):
            raise failure(self.provider, FailureKind.MALFORMED_STREAM)
        self.items.drop_calls(calls)
        events = [event for item in items for event in _told(item, item.joiner.rest())]
        events += [
            ModelToolCall(name=call.content["name"], arguments_json=call.arguments)
            for call in calls
        ]
        if reason is StopReason.END and calls:
            reason = StopReason.TOOL_CALLS
        spent = ModelUsage(usage=priced(self.model, self.usage, TokenUsage()))
        return [*events, spent, ModelStop(reason=reason, provider_state=self._state())]

    def _end(self, kind: Any, event: Any) -> list[ModelEvent]:
        """The last event, which repeats all items; some servers tell one only here."""
        if kind not in _ENDS:
            return []
        response = event.response
        self._count(getattr(response, "usage", None))
        if kind not in {_COMPLETED, _INCOMPLETE}:
            raise self._failed(getattr(response, "error", None))
        output = list(getattr(response, "output", None) or ())
        told = [
            event for item, done in self.items.settled(output) for event in self._done(item, done)
        ]
        self.is_cut = kind == _INCOMPLETE
        details = getattr(response, "incomplete_details", None)
        cut = text_of(getattr(details, "reason", None)) if self.is_cut else ""
        self.stop = _CUTS.get(cut, StopReason.END)
        return told

    def _grown(self, kind: str, event: Any) -> list[ModelEvent]:
        self.has_begun = True
        item = self.items.grown(kind, event)
        return _told(item, item.joiner.take(event.delta))

    def _done(self, item: Item, done: Any) -> list[ModelEvent]:
        """A finished item: what its fragments did not tell, and what is kept of it."""
        if item.is_complete:
            return []
        told = _told(item, item.joiner.rest())
        match item.kind:
            case "function_call":
                name = text_of(done.name)
                if not name:
                    raise failure(self.provider, FailureKind.MALFORMED_STREAM)
                item.text = text_of(done.arguments) or item.text
                item.is_cut = getattr(done, "status", None) == "incomplete"
                item.content = {**_kept(done, "id", "call_id"), "name": cleaned(name)}
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
                summary = [
                    {"type": text_of(part.type), "text": text_of(part.text)}
                    for part in done.summary or ()
                ]
                item.content = {**_kept(done, "id", "encrypted_content"), "summary": summary}
            case _:
                pass
        item.is_complete = True
        return told

    def _failed(self, error: Any) -> ModelFailure:
        detail = str(getattr(error, "message", None) or "")
        names = (getattr(error, "code", None), getattr(error, "type", None))
        kind = kind_of(status=None, names=names, text=detail)
        return failure(self.provider, kind, detail=detail)

    def _count(self, usage: Any) -> None:
        details = getattr(usage, "input_tokens_details", None)
        self.usage = usage_of(
            input_tokens=getattr(usage, "input_tokens", None),
            output_tokens=getattr(usage, "output_tokens", None),
            read=getattr(details, "cached_tokens", None),
            written=getattr(details, "cache_write_tokens", None),
        )

    def _state(self) -> str:
        items: list[Body] = [
            {"type": item.kind, **item.content}
            for item in self.items.ordered()
            if item.is_complete and item.content
        ]
        return dump_state(self.provider, self.model, {"items": items})


def _is_whole(call: Item) -> bool:
    """Whether the provider had finished the call; no arguments at all are none yet."""
    return call.is_complete and not call.is_cut and is_json(call.text)


def _kept(done: Any, *names: str) -> Body:
    found = {name: id_of(getattr(done, name, None)) for name in names}
    return {name: value for name, value in found.items() if value}


def _part(part: Any) -> Body:
    if part.type == "refusal":
        return {"type": "refusal", "refusal": cleaned(text_of(part.refusal))}
    return {"type": "output_text", "text": cleaned(text_of(part.text)), "annotations": []}


def _told(item: Item, text: str) -> list[ModelEvent]:
    if not text or item.kind not in {MESSAGE, REASONING}:
        return []
    item.text += text
    return [ModelThinking(text=text) if item.kind == REASONING else ModelText(text=text)]
