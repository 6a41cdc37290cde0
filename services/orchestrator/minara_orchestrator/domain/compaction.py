"""The compaction ladder (turn.md §4): how a history is made to fit, rung by rung.

Rung 0 is done by the tools service when it finishes a call. The others are here, one pure function
each: they take a prompt and give one with less in it, or the same one when they have nothing to do.
The order in which they are climbed is `compaction_climb.py`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from minara_core.messages import Message, Role
from minara_orchestrator.domain.compaction_note import (
    Earlier,
    Note,
    NoteLimits,
    earlier_items,
    note_turn,
    outcomes_in,
    read_note,
    within,
)
from minara_orchestrator.domain.compaction_stubs import ToolFacts, cheapest, stubbable, stubbed
from minara_orchestrator.domain.estimate import Measure, stored_bytes
from minara_orchestrator.domain.history import History, HistoryTurn, messages_of, repaired
from minara_orchestrator.domain.prompt import Prompt

MOST_WINDOW = 500_000
MOST_STORED_BYTES = 3 * 1024 * 1024
"""Of a larger window no more is used, and no more is kept, so that a stored history stays far from
the 8 MiB that one message between services may have."""

RESERVED_OUTPUT_TOKENS = 8_192
SMALL_WINDOW = 32_000
"""A model with less reserves a quarter of its window for output."""

SAFETY_MARGIN = 0.04
SLICE_FROM, COLLAPSE_FROM, SUMMARISE_FROM, CUT_TO = 0.5, 0.65, 0.8, 0.4
"""Shares of the budget: where rungs 1 to 3 fire, and what a rung that fires cuts to."""

LEAST_AIM = 2.5
"""No prompt is asked to be smaller than this many times what it has without any history."""

WHOLE_TURNS = 3
WHOLE_STEPS = 2
VERBATIM_TURNS = (6, 3, 1, 0)
"""Turns that a boundary note leaves after it; fewer than the first only when nothing else helps."""


class Rung(StrEnum):
    """What a record says was done."""

    STATE = "state"
    BOUNDARY = "boundary"
    COLLAPSE = "collapse"
    SUMMARY = "summary"
    OWN_RESULTS = "own_results"


def reserved_output(context_window: int) -> int:
    """Tokens of a window that input may never take: they are left for what the model says."""
    is_small = context_window < SMALL_WINDOW
    return context_window // 4 if is_small else RESERVED_OUTPUT_TOKENS


def budget_tokens(context_window: int) -> int:
    """What input may take of a window, after reserved output and the safety margin."""
    window = min(context_window, MOST_WINDOW)
    return window - reserved_output(window) - int(window * SAFETY_MARGIN)


def stored(prompt: Prompt) -> int:
    """Bytes of the history and of this turn, as they will be stored."""
    return stored_bytes(messages_of(prompt.history)) + stored_bytes(prompt.transcript)


def without_state(prompt: Prompt) -> Prompt:
    """Without what providers keep for themselves in old messages, until MOST_STORED_BYTES: first in
    all but the last three turns, then in all of them, then in all but this turn's last two steps.
    """
    for whole_turns in (WHOLE_TURNS, 0):
        if stored(prompt) <= MOST_STORED_BYTES:
            return prompt
        split = max(0, len(prompt.history) - whole_turns)
        old = tuple(
            turn
            if (bare := _bare(turn.messages)) == turn.messages
            else replace(turn, messages=bare)
            for turn in prompt.history[:split]
        )
        if old != prompt.history[:split]:
            prompt = prompt.with_history(old + prompt.history[split:])
    said = [
        place for place, message in enumerate(prompt.following) if message.role is Role.ASSISTANT
    ]
    if stored(prompt) <= MOST_STORED_BYTES or len(said) <= WHOLE_STEPS:
        return prompt
    split = said[-WHOLE_STEPS]
    own = _bare(prompt.following[:split]) + prompt.following[split:]
    return prompt if own == prompt.following else replace(prompt, following=own)


def _bare(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(each, provider_state="") if each.provider_state else each for each in messages
    )


def aim(prompt: Prompt, measure: Measure, tokens: int, budget: int, most_tokens: int | None) -> int:
    """What shares are taken of: the budget, or the fewer tokens that the prompt should have, or
    what it has to shrink to before it can be stored. `tokens` is what it has."""
    if most_tokens is not None and most_tokens < budget:
        least = int(_fixed_tokens(prompt, measure) * LEAST_AIM)
        budget = min(budget, max(most_tokens, least))
    size = stored(prompt)
    if size > MOST_STORED_BYTES:
        budget = min(budget, tokens * MOST_STORED_BYTES // size)
    return budget


def sliced(prompt: Prompt, measure: Measure, target: int) -> Prompt:
    """Rung 1: without turns that the boundary note covers, oldest first, until `target` tokens."""
    place = _note_place(prompt.history)
    if place is None:
        return prompt
    covered, rest = prompt.history[:place], prompt.history[place:]
    room = target - _fixed_tokens(prompt, measure) - _turn_tokens(rest, measure)
    kept = _newest_within(covered, room, measure)
    return prompt if kept == covered else prompt.with_history(kept + rest)


def collapsed(
    prompt: Prompt, measure: Measure, target: int, *, protected: Collection[str]
) -> Prompt:
    """Rung 2: one line for results of all but the last three turns until `target` tokens; results
    that name a `protected` id stay."""
    finished = [place for place, turn in enumerate(prompt.history) if not turn.is_note]
    end = finished[-WHOLE_TURNS:]
    facts = ToolFacts.of(prompt.definitions)
    chosen = cheapest(
        (
            each
            for each in stubbable(prompt.history, facts, protected=protected)
            if each.place.turn < end[0]
        ),
        excess=measure.prompt(prompt) - target,
        size_of=lambda result: measure.text(result.envelope),
    )
    return prompt.with_history(stubbed(prompt.history, chosen)) if chosen else prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What rung 3 would do: `folded` goes into a new note together with the `old` one, `verbatim`
    stays after it; of `covered`, and of `folded`, turns may stay before it while there is room."""

    covered: History
    old: Note
    folded: History
    verbatim: History


def planned_fold(prompt: Prompt, verbatim_turns: int) -> Fold | None:
    """Rung 3, before the summary is written; None when there is nothing to fold."""
    place = _note_place(prompt.history)
    covered = prompt.history[: place or 0]
    later = prompt.history if place is None else prompt.history[place + 1 :]
    split = len(later) - verbatim_turns
    if split <= 0:
        return None
    return Fold(
        covered=covered,
        old=Note() if place is None else read_note(prompt.history[place]),
        folded=later[:split],
        verbatim=later[split:],
    )


def most_tokens(
    prompt: Prompt, fold: Fold, note: Note, measure: Measure, limits: NoteLimits
) -> int:
    """How many tokens the prompt has at most once `fold` is done; `note` has what waits."""
    rest = _turn_tokens((note_turn(note), *fold.verbatim), measure)
    return _fixed_tokens(prompt, measure) + rest + limits.most_tokens


def folded(
    prompt: Prompt,
    fold: Fold,
    note: Note,
    measure: Measure,
    target: int,
    *,
    limits: NoteLimits,
    message: str,
    pending_ids: Sequence[str],
) -> Prompt:
    """Rungs 3 and 4: the boundary note in place of what it tells, with the earlier items that bear
    most on `message`. `note` has what waits for the person, and the summary."""
    outcomes = within(
        (*fold.old.outcomes, *outcomes_in(fold.folded)), limits.outcomes, measure, newest=True
    )
    note = replace(note, outcomes=outcomes)
    taken = _turn_tokens((note_turn(note), *fold.verbatim), measure) + limits.earlier
    before = fold.covered + fold.folded
    kept = _newest_within(before, target - _fixed_tokens(prompt, measure) - taken, measure)
    gone = before[: len(before) - len(kept)]
    items: tuple[Earlier, ...] = earlier_items(
        gone, fold.old.earlier, measure, limits.earlier, message=message, pending_ids=pending_ids
    )
    whole = note_turn(replace(note, earlier=items))
    return prompt.with_history((*kept, whole, *fold.verbatim))


def own_results_stubbed(prompt: Prompt, *, protected: Collection[str]) -> Prompt:
    """The last resort: one line for this turn's own results of all but its last two steps. What
    models and people said stays."""
    answered = [
        place for place, message in enumerate(prompt.following) if message.role is Role.TOOL
    ]
    if len(answered) <= WHOLE_STEPS:
        return prompt
    own = (HistoryTurn(turn_id=prompt.turn_id, messages=prompt.following),)
    facts = ToolFacts.of(prompt.definitions)
    chosen = [
        each
        for each in stubbable(own, facts, protected=protected)
        if each.place.message < answered[-WHOLE_STEPS]
    ]
    if not chosen:
        return prompt
    (turn,) = stubbed(own, chosen)
    return replace(prompt, following=turn.messages)


def _note_place(history: History) -> int | None:
    places = [place for place, turn in enumerate(history) if turn.is_note]
    return places[-1] if places else None


def _turn_tokens(turns: Sequence[HistoryTurn], measure: Measure) -> int:
    return sum(measure.messages(repaired(turn.messages)) for turn in turns)


def _fixed_tokens(prompt: Prompt, measure: Measure) -> int:
    """What the prompt has without any history, when all its blocks have to be sent again."""
    return measure.prompt(prompt.with_history(()))


def _newest_within(turns: History, room: int, measure: Measure) -> History:
    """The longest row of newest turns within `room` tokens."""
    place = len(turns)
    while place and (room := room - _turn_tokens(turns[place - 1 : place], measure)) >= 0:
        place -= 1
    return turns[place:]
