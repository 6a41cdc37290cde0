"""What holds for every session, however long, in every window."""

import asyncio
from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minara_core.actions import PendingAction
from minara_core.messages import Message
from minara_llm.scripted import ScriptedModel, says
from minara_orchestrator.app.fit_prompt import Fitted
from minara_orchestrator.domain.compaction import budget_tokens
from minara_orchestrator.domain.estimate import Measure
from minara_orchestrator.domain.history import HistoryTurn, messages_of, repaired
from minara_orchestrator.domain.prompt import Prompt, PromptBlock, marks_in
from support.actions import an_action
from support.orchestrator.prompts import BLOCKS, a_prompt, a_step, a_turn, assert_paired, fit

WINDOWS = st.sampled_from([4_000, 8_000, 16_000, 40_000])
PEOPLE = st.sampled_from(
    ["price of BTC", "以太坊怎么样", "sell my SOL\nall of it", "비트코인 가격"]
)
SIZES = st.sampled_from([0, 40, 400, 4_000, 20_000])


@dataclass(frozen=True)
class Case:
    """A session at one moment, and the window that its prompt has to fit."""

    prompt: Prompt
    window: int
    pending: tuple[PendingAction, ...]
    has_batch: bool
    message: str

    def fitted(self, prompt: Prompt | None = None) -> Fitted:
        batch = ScriptedModel([says("Facts: BTC was 100,000. " * 20)] * 9)
        return asyncio.run(
            fit(
                prompt or self.prompt,
                window=self.window,
                batch=batch if self.has_batch else None,
                pending=self.pending,
                message=self.message,
            )
        )

    @property
    def budget(self) -> int:
        return budget_tokens(self.window)


@st.composite
def turns(draw: st.DrawFn, ids: st.SearchStrategy[int], pending: str) -> HistoryTurn:
    number = draw(ids)
    steps: list[list[Message]] = []
    for step in range(1, draw(st.integers(0, 3)) + 1):
        results = ["x" * draw(SIZES) for _ in range(draw(st.integers(1, 2)))]
        if draw(st.integers(0, 9)) == 0:
            results[0] = f"parked as {pending} " + results[0]
        steps.append(a_step(step, *results, arguments=f'{{"symbol":"S{draw(st.integers(0, 3))}"}}'))
    sent = draw(st.lists(st.sampled_from(BLOCKS), max_size=3, unique=True))
    return a_turn(
        f"turn-{number}",
        *steps,
        text=draw(PEOPLE) * draw(st.integers(1, 30)),
        answer="y" * (1 + draw(SIZES) // 4),
        blocks=[block for block in sent if not block.is_prefix],
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    numbers = iter(range(1_000))
    ids = st.builds(lambda: next(numbers))
    waits = draw(st.booleans())
    history = draw(st.lists(turns(ids, "action-7"), max_size=14))
    own = [m for step in range(draw(st.integers(0, 4))) for m in a_step(step, "z" * draw(SIZES))]
    message = draw(PEOPLE)
    return Case(
        prompt=a_prompt(*history, text=message, following=own),
        window=draw(WINDOWS),
        pending=(an_action("action-7"),) if waits else (),
        has_batch=draw(st.booleans()),
        message=message,
    )


def fitted_or_none(case: Case, prompt: Prompt | None = None) -> Fitted | None:
    fitted = case.fitted(prompt)
    return fitted if fitted.failure is None else None


def grown(prompt: Prompt, more: list[HistoryTurn]) -> Prompt:
    """What the next turn's prompt is after this one was committed, and then `more`."""
    done = HistoryTurn(turn_id="turn-done", messages=prompt.transcript)
    return a_prompt(*prompt.history, done, *more)


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_a_prompt_fits_or_is_refused_as_too_large(case: Case) -> None:
    fitted = fitted_or_none(case)
    if fitted is None:
        without = Measure().prompt(a_prompt(text=case.message))
        own = Measure().messages(case.prompt.following)
        assert without + own + 600 > case.budget // 2
        return
    assert fitted.tokens == Measure().prompt(fitted.prompt)
    assert fitted.tokens <= case.budget


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_calls_and_results_are_kept_or_dropped_together(case: Case) -> None:
    fitted = fitted_or_none(case)
    assume(fitted is not None)
    assert fitted is not None
    stored = messages_of(fitted.prompt.history) + fitted.prompt.transcript
    assert_paired(stored)
    assert fitted.prompt.messages == stored


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_the_ladder_on_its_own_output_changes_nothing(case: Case) -> None:
    fitted = fitted_or_none(case)
    assume(fitted is not None)
    assert fitted is not None
    again = case.fitted(fitted.prompt)
    assert again.prompt == fitted.prompt
    assert again.records == ()


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_what_waits_and_what_was_said_last_is_never_lost(case: Case) -> None:
    fitted = fitted_or_none(case)
    assume(fitted is not None)
    assert fitted is not None
    assert fitted.prompt.opening[-1] == case.prompt.opening[-1]
    everything = repr(fitted.prompt.messages)
    for action in case.pending:
        if action.pending_action_id in repr(case.prompt.messages):
            assert action.pending_action_id in everything


@given(case=cases(), data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_history_is_valid_after_two_compactions(case: Case, data: st.DataObject) -> None:
    first = fitted_or_none(case)
    assume(first is not None)
    assert first is not None
    numbers = iter(range(1_000, 2_000))
    ids = st.builds(lambda: next(numbers))
    more = data.draw(st.lists(turns(ids, "action-7"), min_size=1, max_size=8))
    second = fitted_or_none(case, grown(first.prompt, more))
    assume(second is not None)
    assert second is not None
    assert_paired(messages_of(second.prompt.history) + second.prompt.transcript)
    assert sum(turn.is_note for turn in second.prompt.history) <= 1
    begins = [turn.messages[0].role.value for turn in second.prompt.history]
    assert set(begins) <= {"context", "user"}
    assert case.fitted(second.prompt).prompt == second.prompt


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_every_block_stands_whole_in_the_request_that_refers_to_it(case: Case) -> None:
    fitted = fitted_or_none(case)
    assume(fitted is not None)
    assert fitted is not None
    there = marks_in(fitted.prompt.messages)
    expected = {b.mark for b in BLOCKS if not b.is_prefix and not b.is_sent_every_turn}
    assert expected <= set(there)
    compaction = fitted.prompt.compaction
    if compaction is not None:
        assert compaction.sent_blocks == marks_in(messages_of(fitted.prompt.history))
        assert compaction.history == fitted.prompt.history
        assert compaction.through_turn_number == case.prompt.turn_count
    else:
        assert fitted.prompt.history == case.prompt.history


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_the_cached_prefix_is_untouched_and_the_outcome_always_the_same(case: Case) -> None:
    fitted, again = fitted_or_none(case), fitted_or_none(case)
    assert fitted == again
    assume(fitted is not None)
    assert fitted is not None
    assert fitted.prompt.system == case.prompt.system
    assert fitted.prompt.definitions == case.prompt.definitions
    if not fitted.records:
        assert fitted.prompt == case.prompt


@given(text=st.text(), key=st.sampled_from(["skill:a", "playbooks"]))
def test_whatever_a_block_says_its_mark_is_found_where_it_was_sent(text: str, key: str) -> None:
    odd = f'{text}\n</block>\n<block name="x">\n{text}'
    block = PromptBlock(number=5, key=key, text=odd)
    prompt = replace(a_prompt(), blocks=(*BLOCKS, block)).with_history(())
    assert block.mark in marks_in(prompt.messages)
    assert set(prompt.sent_blocks) == set(marks_in(prompt.messages))


@given(case=cases(), data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_broken_history_is_repaired_once_and_for_all(case: Case, data: st.DataObject) -> None:
    messages = list(case.prompt.messages)
    for _ in range(data.draw(st.integers(0, 4))):
        if messages:
            place = data.draw(st.integers(0, len(messages) - 1))
            if data.draw(st.booleans()):
                del messages[place]
            else:
                messages.insert(place, messages[place])
    whole = repaired(messages)
    assert_paired(whole)
    assert repaired(whole) == whole
