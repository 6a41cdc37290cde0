"""A history is valid for every provider, whatever was stored."""

from dataclasses import replace

from minara_core.messages import Message, Role, ToolResultBlock, user_message
from minara_orchestrator.domain.history import OLDER_TURNS, history_of, repaired
from support.orchestrator.prompts import a_step, assert_paired

CALLS, RESULTS = a_step(1, "one", "two")
LAST = user_message("and now?")


def test_messages_with_nothing_wrong_are_returned_as_they_are() -> None:
    messages = (user_message("hi"), CALLS, RESULTS, LAST)
    assert repaired(messages) == messages


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    whole = repaired((CALLS, LAST))
    assert_paired(whole)
    assert whole[0] is CALLS
    assert whole[2] is LAST
    for block in whole[1].blocks:
        assert isinstance(block, ToolResultBlock)
        assert block.is_error
        assert "lost" in block.envelope


def test_a_missing_result_joins_the_ones_that_are_there() -> None:
    half = replace(RESULTS, blocks=RESULTS.blocks[:1])
    (_, answered, _) = repaired((CALLS, half, LAST))
    assert answered.blocks[0] == RESULTS.blocks[0]
    assert len(answered.blocks) == 2


def test_results_without_a_call_are_left_out() -> None:
    assert repaired((RESULTS, LAST)) == (LAST,)
    assert repaired((CALLS, RESULTS, LAST, RESULTS)) == (CALLS, RESULTS, LAST)


def test_a_second_result_of_a_call_is_left_out() -> None:
    twice = replace(RESULTS, blocks=RESULTS.blocks + RESULTS.blocks)
    assert repaired((CALLS, twice, LAST)) == (CALLS, RESULTS, LAST)
    assert repaired((CALLS, RESULTS, RESULTS, LAST)) == (CALLS, RESULTS, LAST)


def test_results_in_several_messages_stay_there() -> None:
    split = tuple(replace(RESULTS, blocks=(block,)) for block in RESULTS.blocks)
    messages = (CALLS, *split, LAST)
    assert repaired(messages) == messages


def test_calls_at_the_very_end_are_answered_too() -> None:
    assert_paired(repaired((LAST, CALLS)))


def test_an_equal_id_of_another_turn_answers_nothing() -> None:
    whole = repaired((CALLS, user_message("next"), CALLS, RESULTS))
    assert_paired(whole)
    assert whole[-1] is RESULTS
    assert len(whole) == 5


def test_a_history_is_taken_apart_turn_by_turn() -> None:
    messages = [user_message(text) for text in "abcd"]
    history = history_of(messages, [("", 1), ("turn-1", 2), ("turn-2", 0), ("turn-3", 1)])
    assert [(turn.turn_id, len(turn.messages)) for turn in history] == [
        ("", 1),
        ("turn-1", 2),
        ("turn-3", 1),
    ]
    assert history[0].is_note


def test_messages_that_no_part_covers_are_one_older_turn() -> None:
    messages = [user_message(text) for text in "abc"]
    older, newest = history_of(messages, [("turn-3", 1)])
    assert (older.turn_id, older.messages) == (OLDER_TURNS, tuple(messages[:2]))
    assert not older.is_note
    assert newest.messages == (messages[2],)
    (whole,) = history_of(messages, [])
    assert whole.messages == tuple(messages)
    assert history_of([], []) == ()
    (odd,) = history_of(messages, [("turn-1", 2), ("turn-2", 2)])
    assert (odd.turn_id, odd.messages) == (OLDER_TURNS, tuple(messages))


def test_an_interrupted_message_without_calls_needs_no_result() -> None:
    broken = Message(role=Role.ASSISTANT, blocks=(), is_interrupted=True)
    assert repaired((broken, LAST)) == (broken, LAST)
