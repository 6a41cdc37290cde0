"""How far the ladder is climbed, and who writes the summary."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest

from minara_core.events import TokenUsage
from minara_core.reasons import ErrorReason
from minara_llm.model import (
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelText,
)
from minara_llm.scripted import ScriptedModel, says
from minara_orchestrator.app.fit_prompt import FitAsk, PromptFitter
from minara_orchestrator.domain.compaction import budget_tokens
from minara_orchestrator.domain.compaction_note import read_note
from minara_orchestrator.domain.estimate import Measure, TokenEstimator
from minara_orchestrator.domain.history import HistoryTurn
from minara_orchestrator.domain.prompt import Prompt
from support.actions import an_action
from support.orchestrator.prompts import a_prompt, a_step, a_turn, fit

WINDOW = 40_000


def a_talking_turn(number: int, tokens: int = 1_000) -> HistoryTurn:
    return a_turn(f"turn-{number}", text=f"question {number}", answer="y" * int(tokens * 3.6))


def a_full_prompt(share: float, turns: int = 12) -> list[HistoryTurn]:
    """Turns that take this share of the budget of WINDOW."""
    each = int(budget_tokens(WINDOW) * share / turns)
    return [a_talking_turn(number, each) for number in range(turns)]


async def test_a_prompt_below_half_the_budget_is_left_as_it_is() -> None:
    prompt = a_prompt(*a_full_prompt(0.4))
    fitted = await fit(prompt, window=WINDOW)
    assert fitted.prompt == prompt
    assert fitted.records == ()


async def test_below_four_fifths_nothing_is_summarised() -> None:
    batch = ScriptedModel([])
    fitted = await fit(a_prompt(*a_full_prompt(0.7)), window=WINDOW, batch=batch)
    assert fitted.records == ()


async def test_above_four_fifths_the_batch_model_writes_the_note() -> None:
    usage = TokenUsage(input_tokens=900, output_tokens=30)
    batch = ScriptedModel([says("Facts: BTC was ", "100,000", usage=usage)])
    fitted = await fit(a_prompt(*a_full_prompt(0.9)), window=WINDOW, batch=batch)
    (record,) = fitted.records
    assert record.rung == "summary"
    assert record.tokens_before > record.tokens_after == fitted.tokens
    assert fitted.usage == usage
    (note,) = [turn for turn in fitted.prompt.history if turn.is_note]
    assert read_note(note).summary == "Facts: BTC was 100,000"
    assert fitted.prompt.compaction is not None
    assert fitted.prompt.compaction.records == fitted.records
    batch.assert_exhausted()


async def test_the_summary_is_asked_without_tools_for_what_is_folded_alone() -> None:
    batch = ScriptedModel([says("noted")])
    await fit(a_prompt(*a_full_prompt(0.9)), window=WINDOW, batch=batch)
    (request,) = batch.requests
    assert request.tools == ()
    assert request.max_output_tokens == 1_500
    assert len(request.system) == 1
    asked = request.messages[0].text
    assert "question 5" in asked
    assert "question 6" not in asked
    assert "Help plainly." not in asked


def breaks(_: ModelRequest) -> list[ModelEvent]:
    raise ModelFailure("gone", kind=FailureKind.CONNECTION)


@pytest.mark.parametrize("batch", [None, ScriptedModel([breaks]), ScriptedModel([says(" ")])])
async def test_without_a_summary_the_first_lines_of_what_was_said_are_kept(
    batch: ScriptedModel | None,
) -> None:
    fitted = await fit(a_prompt(*a_full_prompt(0.9)), window=WINDOW, batch=batch)
    (note,) = [turn for turn in fitted.prompt.history if turn.is_note]
    assert read_note(note).summary.splitlines() == [f"- question {n}" for n in range(6)]


class Silent(ScriptedModel):
    """Says something, then nothing more, until it is closed."""

    def __init__(self) -> None:
        super().__init__([])
        self.was_closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            yield ModelText(text="half a ")
            await asyncio.Event().wait()
        finally:
            self.was_closed = True


async def test_a_batch_model_that_falls_silent_is_closed_and_done_without() -> None:
    batch = Silent()
    prompt = a_prompt(*a_full_prompt(0.9))
    fitted = await fit(prompt, window=WINDOW, batch=batch, summary_seconds=0.05)
    assert batch.was_closed
    (note,) = [turn for turn in fitted.prompt.history if turn.is_note]
    assert "half a" not in read_note(note).summary


async def test_when_nothing_else_helps_fewer_turns_stay_word_for_word() -> None:
    turns = [a_talking_turn(number, 4_000) for number in range(8)]
    fitted = await fit(a_prompt(*turns), window=WINDOW)
    whole = [turn.turn_id for turn in fitted.prompt.history if not turn.is_note]
    assert whole == ["turn-5", "turn-6", "turn-7"]


async def test_one_turn_larger_than_the_window_is_told_by_the_note_alone() -> None:
    fitted = await fit(a_prompt(a_talking_turn(0, 60_000)), window=WINDOW)
    assert [turn.is_note for turn in fitted.prompt.history] == [True]


async def test_a_turns_own_results_yield_last() -> None:
    steps = [m for n in range(1, 9) for m in a_step(n, "x" * 20_000)]
    fitted = await fit(a_prompt(following=steps), window=WINDOW)
    assert [record.rung for record in fitted.records] == ["own_results"]
    assert fitted.prompt.compaction is None


async def test_what_cannot_be_made_to_fit_is_refused_and_never_tried_for_ever() -> None:
    fitted = await fit(a_prompt(text="x" * 400_000), window=WINDOW)
    assert fitted.failure is not None
    assert fitted.failure.reason is ErrorReason.CONTEXT_TOO_LARGE
    assert int(fitted.failure.metadata["tokens"]) > int(fitted.failure.metadata["available"])


async def test_a_failure_carries_the_cut_and_what_its_summary_has_cost() -> None:
    usage = TokenUsage(input_tokens=900, output_tokens=30)
    batch = ScriptedModel([says("noted", usage=usage)])
    prompt = a_prompt(*a_full_prompt(0.9), text="x" * 400_000)
    fitted = await fit(prompt, window=WINDOW, batch=batch)
    assert fitted.failure is not None
    assert fitted.usage == usage
    assert [record.rung for record in fitted.records] == ["summary"]
    assert fitted.prompt.compaction is not None
    assert fitted.prompt.compaction.records == fitted.records
    again = await fit(fitted.prompt, window=WINDOW, batch=batch)
    assert again.failure is not None
    assert again.records == ()


async def test_pending_actions_stand_in_the_note_whoever_wrote_it() -> None:
    batch = ScriptedModel([says("nothing happened")])
    fitted = await fit(
        a_prompt(*a_full_prompt(0.9)), window=WINDOW, batch=batch, pending=(an_action("action-7"),)
    )
    (note,) = [turn for turn in fitted.prompt.history if turn.is_note]
    assert "(action-7)" in note.messages[0].text


async def test_each_overflow_takes_one_more_rung_whatever_the_estimate_says() -> None:
    turns = [
        a_turn(f"turn-{n}", a_step(1, "x" * 2_000, arguments=f'{{"n":{n}}}')) for n in range(9)
    ]
    prompt = a_prompt(*turns)
    untouched = await fit(prompt, window=WINDOW)
    assert untouched.records == ()
    first = await fit(prompt, window=WINDOW, overflows=1)
    assert [record.rung for record in first.records] == ["collapse"]
    again = await fit(first.prompt, window=WINDOW, overflows=1)
    assert again.records == ()
    second = await fit(first.prompt, window=WINDOW, overflows=2)
    assert [record.rung for record in second.records] == ["summary"]
    next_step = await fit(second.prompt, window=WINDOW)
    assert next_step.prompt.overflows_met == 0
    third = await fit(next_step.prompt, window=WINDOW, overflows=1)
    assert third.tokens < second.tokens


@dataclass(frozen=True, slots=True)
class Waiting(Measure):
    """Measures nothing before the loop has gone on."""

    went_on: threading.Event = field(default_factory=threading.Event)

    def prompt(self, prompt: Prompt) -> int:
        assert self.went_on.wait(10)
        return super(Waiting, self).prompt(prompt)


class Estimator(TokenEstimator):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = Waiting()

    def measure(self, model_name: str) -> Measure:
        return self.waiting


async def test_other_turns_go_on_while_a_long_history_is_cut() -> None:
    estimator = Estimator()
    fitter = PromptFitter(lambda: None, estimator)
    prompt = a_prompt(*(a_talking_turn(number, 20) for number in range(2_000)))
    ask = FitAsk(session_id="session-1", message="and now?")
    model = ScriptedModel([], context_window=WINDOW)
    asyncio.get_running_loop().call_later(0.01, estimator.waiting.went_on.set)
    fitted = await fitter.fit(prompt, model, ask)
    assert fitted == await fit(prompt, window=WINDOW)
    assert fitted.records


async def test_rungs_are_taken_for_what_a_prompt_should_have_at_most() -> None:
    prompt = a_prompt(*a_full_prompt(0.4))
    assert (await fit(prompt, window=WINDOW)).records == ()
    most = budget_tokens(WINDOW) // 4
    fitted = await fit(prompt, window=WINDOW, most_tokens=most)
    assert fitted.failure is None
    assert [record.rung for record in fitted.records] == ["summary"]
    assert fitted.tokens <= most
    again = await fit(fitted.prompt, window=WINDOW, most_tokens=most)
    assert again.prompt == fitted.prompt
    more_than_the_window = await fit(prompt, window=WINDOW, most_tokens=10**9)
    assert more_than_the_window.prompt == prompt


async def test_what_a_prompt_has_without_history_is_no_reason_to_cut_or_to_refuse_it() -> None:
    alone = a_prompt(text="x" * 36_000)
    fitted = await fit(alone, window=WINDOW, most_tokens=1)
    assert (fitted.prompt, fitted.failure) == (alone, None)
    few = a_prompt(*a_full_prompt(0.2, turns=12), text="x" * 36_000)
    assert (await fit(few, window=WINDOW, most_tokens=1)).prompt == few


async def test_an_overflow_with_nothing_left_to_take_is_told() -> None:
    fitted = await fit(a_prompt(), window=WINDOW, overflows=1)
    assert fitted.failure is not None
    assert fitted.failure.reason is ErrorReason.CONTEXT_TOO_LARGE


async def test_a_rung_that_would_save_little_waits_until_it_is_worth_it() -> None:
    small = [a_turn(f"turn-{n}", a_step(1, "x" * 900, arguments=f'{{"n":{n}}}')) for n in range(3)]
    large = [a_talking_turn(number, 6_300) for number in range(3)]
    prompt = a_prompt(*small, *large)
    fitted = await fit(prompt, window=WINDOW)
    assert fitted.tokens > budget_tokens(WINDOW) * 0.65
    assert fitted.prompt == prompt
