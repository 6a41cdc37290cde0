"""The JSON reply is what the events told, and a cancelled turn is no reply."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara_core.errors import Conflict, MinaraError, Unavailable
from minara_core.reasons import ErrorReason
from minara_gateway.errors import status_of
from minara_gateway.reply import reply_of
from minara_gateway.turns import RunningTurn

ASKED = event_pb.TurnEvent(
    sequence=2,
    tool_call_started=event_pb.ToolCallStarted(
        name="ask_user", arguments_json='{"question": "Which one?", "options": ["ETH", "BTC"]}'
    ),
)


def said(text: str, sequence: int = 3) -> event_pb.TurnEvent:
    return event_pb.TurnEvent(sequence=sequence, text_delta=event_pb.TextDelta(text=text))


def ended(reason: event_pb.FinishReason.ValueType, *late: str) -> event_pb.TurnEvent:
    completed = event_pb.TurnCompleted(finish_reason=reason, pending_interjections=late)
    return event_pb.TurnEvent(sequence=9, turn_completed=completed)


async def reply(*told: event_pb.TurnEvent) -> dict[str, Any]:
    async def events() -> AsyncGenerator[event_pb.TurnEvent]:
        for event in told:
            yield event

    turn = RunningTurn(turn_id="turn-1", session_id="session-1")
    turn.events = events()
    return await reply_of(turn)


async def test_a_question_is_part_of_the_reply_of_the_turn_that_asks_it() -> None:
    answer = await reply(said("Let me see."), ASKED, ended(event_pb.FINISH_REASON_QUESTION))
    assert answer["reply"] == "Let me see.\n\nWhich one?\n1. ETH\n2. BTC"
    assert answer["question"] == {"text": "Which one?", "options": ["ETH", "BTC"]}


async def test_a_question_that_did_not_end_the_turn_is_not_asked() -> None:
    answer = await reply(ASKED, said("Done."), ended(event_pb.FINISH_REASON_STOP))
    assert answer["reply"] == "Done."
    assert answer["question"] is None


async def test_a_turn_that_was_stopped_replies_with_what_it_had_said() -> None:
    answer = await reply(said("It is"), ended(event_pb.FINISH_REASON_INTERRUPTED))
    assert (answer["reply"], answer["finish_reason"]) == ("It is", "interrupted")


async def test_messages_that_came_too_late_are_handed_back() -> None:
    answer = await reply(ended(event_pb.FINISH_REASON_STOP, "and ETH?", "and SOL?"))
    assert answer["pending_interjections"] == ["and ETH?", "and SOL?"]


async def test_the_verdict_on_the_goal_is_told() -> None:
    judged = event_pb.GoalJudged(verdict="continue", reason="half", turns_used=1, max_turns=20)
    event = event_pb.TurnEvent(sequence=4, goal_judged=judged)
    answer = await reply(event, ended(event_pb.FINISH_REASON_STOP))
    verdict = {"verdict": "continue", "reason": "half", "turns_used": 1, "max_turns": 20}
    assert answer["goal_judged"] == verdict
    assert (await reply(ended(event_pb.FINISH_REASON_STOP)))["goal_judged"] is None


async def test_a_cancelled_turn_is_a_conflict_that_names_it() -> None:
    cancelled = event_pb.TurnEvent(sequence=2, turn_cancelled=event_pb.TurnCancelled(reason="left"))
    with pytest.raises(Conflict) as refusal:
        await reply(cancelled)
    assert refusal.value.reason is ErrorReason.CANCELLED
    assert refusal.value.metadata == {"turn_id": "turn-1"}
    assert status_of(refusal.value)[0] == 409


async def test_a_stream_without_an_end_is_one_to_resume() -> None:
    with pytest.raises(Unavailable) as refusal:
        await reply(said("It is"))
    assert isinstance(refusal.value, MinaraError)
    assert refusal.value.metadata == {"turn_id": "turn-1"}


async def test_calls_of_a_sub_agent_are_calls_of_the_turn() -> None:
    result = call_pb.ToolResult(tool_call_id="1.0/1.0", name="get_price")
    finished = event_pb.ToolCallFinished(result=result, parent_tool_call_id="1.0")
    event = event_pb.TurnEvent(sequence=2, tool_call_finished=finished)
    answer = await reply(event, ended(event_pb.FINISH_REASON_STOP))
    assert [call["tool_call_id"] for call in answer["tool_calls"]] == ["1.0/1.0"]
