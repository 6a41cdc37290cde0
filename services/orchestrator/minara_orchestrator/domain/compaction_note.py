"""The boundary note: what stands for the turns before it, and how it is read back.

It is one context message. What waits for the person and what came of their decisions is written
from records, so that no model can lose or change it; the summary, and the earlier items that are
kept word for word, are marked as text from outside.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minara_core.lexicon import fold
from minara_core.lexicon_assets import find_assets
from minara_core.messages import Message, Role, context_message
from minara_core.tooling import dump_json
from minara_core.untrusted import unwrap, wrap
from minara_llm.clean_text import cleaned
from minara_orchestrator.domain.estimate import Measure
from minara_orchestrator.domain.history import History, HistoryTurn
from minara_orchestrator.domain.prompt import PromptBlock, blocks_in, render

MOST_EARLIER = 5
_WAITS, _CAME = "waited for the person at this point: ", "outcome: "
_OUTCOME_BLOCKS = frozenset({"decided_action", "action_outcome"})
_FIRST_LINE = 160
_READ_FOR_SYMBOLS = 400
_MOST_CANDIDATES = 400
_MARKER_TOKENS = 120
_GAP = "- […]"
_HEAD = "What was said before this point, as a note. Exact records are behind the tools."


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Something said earlier, word for word."""

    turn_id: str
    is_person: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a boundary note tells. `pending` are lines, `outcomes` JSON objects as text."""

    pending: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    summary: str = ""
    earlier: tuple[Earlier, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLimits:
    """Tokens that the parts of a note may have. What waits for the person is never cut."""

    summary: int
    outcomes: int
    earlier: int

    @classmethod
    def of(cls, budget: int) -> "NoteLimits":
        """Within a tenth of the budget each."""
        share = budget // 10
        return cls(summary=min(1_500, share), outcomes=min(2_000, share), earlier=min(4_000, share))

    @property
    def most_tokens(self) -> int:
        """Of all parts together, their markers included."""
        return self.summary + self.outcomes + self.earlier + _MARKER_TOKENS


def note_turn(note: Note) -> HistoryTurn:
    """The note as it stands in a history."""
    lines = [_HEAD, *(_WAITS + line for line in note.pending)]
    lines += [_CAME + outcome for outcome in note.outcomes]
    if note.summary:
        lines.append(_marked("summary", note.summary))
    blocks = [PromptBlock(number=8, key="summary", text="\n".join(lines))]
    if note.earlier:
        items = "\n".join(_item_json(item) for item in note.earlier)
        blocks.append(PromptBlock(number=8, key="earlier", text=_marked("earlier", items)))
    return HistoryTurn(turn_id="", messages=(context_message(cleaned(render(blocks))),))


def read_note(turn: HistoryTurn) -> Note:
    """What `note_turn` was given, without what waited then; of anything else, nothing."""
    found = {name: text for message in turn.messages for name, text in blocks_in(message.text)}
    facts, _, summary = found.get("summary", "").partition("\n<untrusted ")
    items = unwrap(found.get("earlier", "")).split("\n")
    return Note(
        outcomes=tuple(
            line.removeprefix(_CAME) for line in facts.split("\n") if line.startswith(_CAME)
        ),
        summary=unwrap(f"<untrusted {summary}") if summary else "",
        earlier=tuple(item for line in items if (item := _read_item(line)) is not None),
    )


def _marked(source: str, text: str) -> str:
    """Text from outside; its marker depends on nothing but the text, which cannot contain it."""
    marker = hashlib.sha256(f"{source}\x1f{text}".encode("utf-8", "replace")).hexdigest()[:16]
    return wrap(text, source=f"earlier turns: {source}", marker=marker)


def _item_json(item: Earlier) -> str:
    by = "person" if item.is_person else "assistant"
    return dump_json({"turn": item.turn_id, "by": by, "text": item.text})


def _read_item(line: str) -> Earlier | None:
    try:
        fields = cast("dict[str, Any]", json.loads(line))
        is_person = fields["by"] == "person"
        return Earlier(turn_id=fields["turn"], is_person=is_person, text=fields["text"])
    except (ValueError, TypeError, KeyError):
        return None


def outcomes_in(history: History) -> tuple[str, ...]:
    """What came of decided actions, as the tools service told it: one JSON object each."""
    return tuple(
        text
        for turn in history
        for message in turn.messages
        if message.role is Role.CONTEXT
        for name, text in blocks_in(message.text)
        if name in _OUTCOME_BLOCKS and "\n" not in text
    )


def within(
    lines: Iterable[str], limit: int, measure: Measure, *, newest: bool = False
) -> tuple[str, ...]:
    """Different lines within `limit` tokens, in their order: the first ones, or the `newest`."""
    different = list(dict.fromkeys(lines))
    kept: list[str] = []
    for line in reversed(different) if newest else different:
        limit -= measure.text(line) + 1
        if limit < 0:
            break
        kept.append(line)
    return tuple(reversed(kept)) if newest else tuple(kept)


def extract(fold_turns: History, old_summary: str, limit: int, measure: Measure) -> str:
    """A summary without a model: the first line of what the person said in each turn.

    When there is too much, what stands in the middle goes: the beginning says what it is all
    about, the end what was last.
    """
    old = [line for line in old_summary.split("\n") if line.strip() and line != _GAP]
    new = [f"- {line}" for turn in fold_turns if (line := _first_line(turn))]
    lines = old + new
    if sum(measure.text(line) + 1 for line in lines) <= limit:
        return "\n".join(lines)
    head = within(lines, limit // 3, measure)
    left = limit - limit // 3 - measure.text(_GAP) - 1
    tail = within(lines[len(head) :], left, measure, newest=True)
    return "\n".join([*head, _GAP, *tail])


def _first_line(turn: HistoryTurn) -> str:
    texts = (message.text.strip() for message in turn.messages if message.role is Role.USER)
    text = next((text for text in texts if text), "")
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= _FIRST_LINE else line[: _FIRST_LINE - 1].rstrip() + "…"


def head_within(text: str, limit: int, measure: Measure) -> str:
    """The beginning of `text` within `limit` tokens, without blank space around it."""
    text = text.strip()
    while (tokens := measure.text(text)) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // tokens)].rstrip()
    return text


def earlier_items(
    gone: History,
    old: Sequence[Earlier],
    measure: Measure,
    limit: int,
    *,
    message: str,
    pending_ids: Sequence[str],
) -> tuple[Earlier, ...]:
    """Rung 4: at most five items of turns that are gone which bear most on the new `message`,
    oldest first: they name a pending action, or share its symbols; the newest of equals."""
    wanted = _symbols(message)
    scored: list[tuple[int, int, Earlier]] = []
    said = [*old, *(item for turn in gone for item in _said(turn))]
    candidates = list(dict.fromkeys(said))[-_MOST_CANDIDATES:]
    for place, item in enumerate(candidates):
        score = 10 * sum(each in item.text for each in pending_ids)
        if wanted:
            score += len(wanted & _symbols(item.text))
        if score:
            scored.append((score, place, item))
    chosen: list[tuple[int, Earlier]] = []
    for _, place, item in sorted(scored, key=lambda one: one[:2], reverse=True):
        tokens = measure.text(_item_json(item)) + 1
        if len(chosen) < MOST_EARLIER and tokens <= limit:
            limit -= tokens
            chosen.append((place, item))
    return tuple(item for _, item in sorted(chosen, key=lambda one: one[0]))


def _said(turn: HistoryTurn) -> Iterable[Earlier]:
    """The person's words, and the final answer."""
    for message in turn.messages:
        if message.role is Role.USER and message.text.strip():
            yield Earlier(turn_id=turn.turn_id, is_person=True, text=message.text)
    answer = _answer(turn.messages)
    if answer:
        yield Earlier(turn_id=turn.turn_id, is_person=False, text=answer)


def _answer(messages: Sequence[Message]) -> str:
    last = messages[-1] if messages else None
    if last is None or last.role is not Role.ASSISTANT or last.tool_calls:
        return ""
    return last.text.strip()


def _symbols(text: str) -> frozenset[str]:
    plain = unicodedata.normalize("NFKC", text[:_READ_FOR_SYMBOLS])
    return frozenset(mention.symbol for mention in find_assets(plain, fold(plain)))
