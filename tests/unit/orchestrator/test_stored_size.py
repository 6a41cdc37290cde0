"""What providers keep for themselves in a history: no model counts it, but it has to be stored."""

from dataclasses import replace

import pytest

from minara_core.messages import Message, Role
from minara_orchestrator.app.fit_prompt import Fitted
from minara_orchestrator.domain.compaction import MOST_STORED_BYTES, stored, without_state
from minara_orchestrator.domain.estimate import Measure, stored_bytes
from minara_orchestrator.domain.history import HistoryTurn, messages_of
from minara_orchestrator.domain.prompt import Prompt
from support.orchestrator.prompts import a_prompt, a_step, a_turn, fit

MIB = 1024 * 1024
WINDOW = 200_000


def with_state(messages: list[Message] | tuple[Message, ...], size: int) -> tuple[Message, ...]:
    """The messages, each of the model's with `size` bytes of its provider."""
    return tuple(
        replace(each, provider_state="x" * size) if each.role is Role.ASSISTANT else each
        for each in messages
    )


def a_thoughtful_turn(number: int, size: int = MIB) -> HistoryTurn:
    turn = a_turn(f"turn-{number}")
    return replace(turn, messages=with_state(turn.messages, size))


def keep_state(prompt: Prompt) -> list[str]:
    return [
        turn.turn_id
        for turn in prompt.history
        if any(each.provider_state for each in turn.messages)
    ]


async def fitted(prompt: Prompt) -> Fitted:
    return await fit(prompt, window=WINDOW)


def test_stored_bytes_count_what_no_model_counts() -> None:
    bare = a_turn("turn-0", text="以" * 10).messages
    assert stored_bytes(with_state(bare, 1_000)) == stored_bytes(bare) + 1_000
    assert Measure().messages(with_state(bare, 1_000)) == Measure().messages(bare)
    assert stored_bytes(bare) > 30


async def test_states_within_the_limit_are_left_as_they_are() -> None:
    prompt = a_prompt(a_thoughtful_turn(0), a_thoughtful_turn(1))
    assert (await fitted(prompt)).prompt == prompt


async def test_beyond_the_limit_the_last_three_turns_keep_their_state() -> None:
    turns = [a_thoughtful_turn(number, MIB - 10_000) for number in range(11)]
    cut = await fitted(a_prompt(*turns))
    assert keep_state(cut.prompt) == ["turn-8", "turn-9", "turn-10"]
    (record,) = cut.records
    assert (record.rung, record.tokens_before) == ("state", record.tokens_after)
    assert cut.prompt.compaction is not None
    assert cut.prompt.compaction.records == cut.records
    assert cut.prompt.compaction.history == cut.prompt.history
    bare = messages_of(a_prompt(*(a_turn(f"turn-{number}") for number in range(11))).history)
    assert [m.blocks for m in messages_of(cut.prompt.history)] == [m.blocks for m in bare]
    again = await fitted(cut.prompt)
    assert (again.prompt, again.records) == (cut.prompt, ())


async def test_when_three_turns_have_too_much_of_it_none_keeps_any() -> None:
    turns = [a_thoughtful_turn(number, 2 * MIB) for number in range(4)]
    cut = await fitted(a_prompt(*turns))
    assert keep_state(cut.prompt) == []
    assert stored(cut.prompt) <= MOST_STORED_BYTES


async def test_of_a_long_turn_the_last_two_steps_keep_theirs() -> None:
    steps = [m for number in range(1, 6) for m in with_state(a_step(number, "ok"), MIB)]
    cut = await fitted(a_prompt(a_thoughtful_turn(0), following=steps))
    assert keep_state(cut.prompt) == []
    said = [each for each in cut.prompt.following if each.role is Role.ASSISTANT]
    assert [bool(each.provider_state) for each in said] == [False, False, False, True, True]


async def test_text_that_is_too_large_to_be_stored_is_cut_as_if_the_window_were_full() -> None:
    answers = [a_turn(f"turn-{number}", answer="y" * 300_000) for number in range(12)]
    prompt = a_prompt(*answers)
    assert stored(prompt) > MOST_STORED_BYTES
    cut = await fit(prompt, window=2_000_000_000)
    assert cut.failure is None
    assert stored(cut.prompt) <= MOST_STORED_BYTES


@pytest.mark.parametrize("size", [0, 1])
def test_without_anything_to_drop_the_prompt_is_the_same(size: int) -> None:
    prompt = a_prompt(a_thoughtful_turn(0, size), text="x" * (MOST_STORED_BYTES + 1))
    assert (without_state(prompt) is prompt) == (not size)
