"""The hundred messages: what people write to the offline model, and what must come of it."""

import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from minara_core.untrusted import unwrap
from minara_gateway.client import StreamedEvent
from minara_llm.offline.phrases import all_phrases
from support.invented import invented_numbers
from support.minara import finish_reason, is_well_formed, named, text_of

_FILE = Path(__file__).parent / "hundred_messages.toml"
_PLACEHOLDER = "{"


@dataclass(frozen=True, slots=True, kw_only=True)
class HundredMessage:
    """A message and what must come of it.

    `calls` are the tools in order, each with the arguments that count ("get_price symbol=BTC").
    `says` stand in the answer, and so do the sentences of `remarks`, by their key in the phrases of
    the locale. `pending` are the orders that wait afterwards, with the fields that count.
    """

    locale: str
    text: str
    calls: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """What the answer must contain."""
        phrases = all_phrases()[self.locale]
        told = (phrases[key].partition(_PLACEHOLDER)[0].strip() for key in self.remarks)
        return (*self.says, *told)


@cache
def hundred_messages() -> tuple[HundredMessage, ...]:
    """All of them, in the order of the file."""
    raw = tomllib.loads(_FILE.read_text("utf-8"))
    return tuple(
        HundredMessage(
            locale=locale,
            text=entry["text"],
            **{name: tuple(entry[name]) for name in entry if name != "text"},
        )
        for locale, entries in raw.items()
        for entry in entries
    )


def matches(expected: str, name: str, fields: Mapping[str, Any]) -> bool:
    """Whether `name` with `fields` is what "name key=value …" says; other fields may be there."""
    wanted, *pairs = shlex.split(expected)
    split = (pair.partition("=") for pair in pairs)
    return wanted == name and all(str(fields.get(key)) == value for key, _, value in split)


def complaints(message: HundredMessage, events: list[StreamedEvent]) -> Iterator[str]:
    """What is wrong with the turn that answered the message."""
    answer, envelopes = text_of(events), envelopes_of(events)
    if not is_well_formed(events):
        yield "the events are not well formed"
    if finish_reason(events) != ("approval_requested" if message.pending else "stop"):
        yield f"it ended with {finish_reason(events)}"
    called = [
        (str(each["name"]), json.loads(each["arguments_json"] or "{}"))
        for each in named(events, "tool_call_started")
    ]
    if not _all_match(message.calls, called):
        yield f"it called {called}"
    waiting = [("order", _plain(each["action"])) for each in named(events, "approval_requested")]
    if not _all_match([f"order {one}" for one in message.pending], waiting):
        yield f"these orders wait: {waiting}"
    yield from (f"it does not say {s!r}" for s in message.sentences() if s not in answer)
    yield from (f"it does not tell of {code}" for code in codes_in(envelopes) if code not in answer)
    if made_up := invented_numbers(answer, message.text, envelopes):
        yield f"it invents {', '.join(made_up)}"
    if '":' in answer:
        yield "it shows raw JSON"


def envelopes_of(events: list[StreamedEvent]) -> list[str]:
    """What the tools answered."""
    return [unwrap(each["result"]["envelope"]) for each in named(events, "tool_call_finished")]


def codes_in(envelopes: Sequence[str]) -> Iterator[str]:
    """The codes of failures and denials."""
    for envelope in envelopes:
        loaded = json.loads(envelope)
        if not loaded["ok"]:
            yield str(loaded["error"]).partition(":")[0]


def _all_match(expected: Sequence[str], found: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    return len(expected) == len(found) and all(
        matches(one, name, fields) for one, (name, fields) in zip(expected, found, strict=True)
    )


def _plain(action: Mapping[str, Any]) -> dict[str, str]:
    """An order's fields in short words: side "buy", the instrument's symbol, amounts as text."""
    order = cast("Mapping[str, Any]", action["order"])
    told = {"tool": str(action["tool_name"])}
    for name, value in order.items():
        if name == "instrument":
            told[name] = str(value["symbol"])
        elif isinstance(value, dict):
            told[name] = str(cast("Mapping[str, Any]", value)["value"])
        else:
            prefix = {"side": "SIDE_", "kind": "MOVE_KIND_", "order_type": "ORDER_TYPE_"}
            told[name] = str(value).removeprefix(prefix.get(name, "")).lower()
    return told
