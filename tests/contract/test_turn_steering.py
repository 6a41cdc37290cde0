"""Steering and checkpoints of turns: one suite for the fake and for both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from minara_core.clock import SystemClock
from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.messages import Message, Role, ThinkingBlock, ToolCallBlock, user_message
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolCall
from minara_orchestrator.adapters.sql_turns import VERSIONS
from minara_orchestrator.app.turn_ports import (
    MOST_WAITING,
    Entry,
)
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Opening
from minara_orchestrator.domain.turn import DoubleTexting, Stop, Turn
from support.actions import an_action
from support.databases import Databases
from support.orchestrator.house import a_turn
from support.orchestrator.storage import FakeTurnStore
from support.orchestrator.turn_stores import FIRST, ME, Pair, a_process, event, told


def a_message(text: str = "and ETH?", *, turn_id: str = "message-1", **where: str) -> Turn:
    return a_turn(text, turn_id=turn_id, **where)


async def test_a_message_is_put_into_a_running_turn_once(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    for is_new in (True, False):
        admission = await pair.store.steer(a_message(), FIRST)
        assert (admission.is_new, admission.into) == (is_new, FIRST)
    (said,) = (await pair.store.steering([FIRST]))[FIRST].interjections
    assert said == Interjection(context=a_message().context, text="and ETH?")


@pytest.mark.parametrize("message", [a_message(user_id="somebody"), a_message(session_id="other")])
async def test_nobody_speaks_into_a_foreign_turn_or_session(pair: Pair, message: Turn) -> None:
    await pair.store.admit(a_turn())
    with pytest.raises(NotFound):
        await pair.store.steer(message, FIRST)
    with pytest.raises(NotFound):
        await pair.store.steer(message, TurnId("unknown"))
    assert await pair.store.steering([FIRST]) == {}


async def test_a_message_that_is_put_in_is_found_as_part_of_its_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    admission = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert admission.into == FIRST
    found = await pair.store.find(TurnId("message-1"), ME)
    assert found is not None
    assert found.into == FIRST
    again = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert (again.is_new, again.into) == (False, FIRST)
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    assert await pair.store.ahead(FIRST) == 0


async def test_a_message_for_a_session_in_which_nothing_runs_is_a_turn(pair: Pair) -> None:
    admission = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert (admission.is_new, admission.into) == (True, None)
    assert await pair.store.live_turn(SessionId("session-1"), ME) == TurnId("message-1")


async def test_a_closed_turn_tells_what_it_was_given_and_takes_no_more(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.store.steer(a_message("one", turn_id="message-1"), FIRST)
    await pair.store.steer(a_message("two", turn_id="message-2"), FIRST)
    heard = await pair.events.append(a_turn(), Entry(closes=True))
    assert [each.text for each in heard] == ["one", "two"]
    with pytest.raises(Conflict) as refused:
        await pair.store.steer(a_message(turn_id="message-3"), FIRST)
    assert refused.value.reason is ErrorReason.TURN_OVER
    late = await pair.store.admit(a_message(turn_id="message-4"), DoubleTexting.INTERJECT)
    assert (late.is_new, late.into, late.ahead) == (True, None, 1)


async def test_of_messages_that_race_with_the_close_none_is_lost(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    taken: list[str] = []

    async def say(number: int) -> None:
        message_id = f"message-{number}"
        try:
            await pair.store.steer(a_message(turn_id=message_id), FIRST)
        except Conflict:
            return
        taken.append(message_id)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(say(number))
        closing = group.create_task(pair.events.append(a_turn(), Entry(closes=True)))
        for number in range(6, 12):
            group.create_task(say(number))
    assert sorted(each.message_id for each in closing.result()) == sorted(taken)


async def test_another_message_under_the_same_id_is_refused(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.store.steer(a_message("one thing"), FIRST)
    for message in (a_message("another"), a_turn()):
        with pytest.raises(Conflict) as refused:
            await pair.store.steer(message, FIRST)
        assert refused.value.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED


async def test_a_turn_that_tells_a_decision_takes_no_messages(pair: Pair) -> None:
    await pair.store.admit(a_turn(decides="action-1"))
    with pytest.raises(Conflict) as refused:
        await pair.store.steer(a_message(), FIRST)
    assert refused.value.reason is ErrorReason.TURN_OVER
    admission = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert (admission.into, admission.ahead) == (None, 1)


async def test_a_stranger_in_the_session_is_in_nobodys_way(pair: Pair) -> None:
    await pair.store.admit(a_turn(turn_id="turn-0", user_id="stranger"))
    mine = await pair.store.admit(a_turn(), DoubleTexting.REJECT)
    assert mine.ahead == 0
    await pair.store.admit(a_turn(turn_id="turn-2", user_id="stranger"), DoubleTexting.INTERRUPT)
    assert FIRST not in await pair.store.steering([FIRST])


async def test_only_so_many_messages_are_put_into_a_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    for number in range(MOST_WAITING):
        await pair.store.steer(a_message(turn_id=f"message-{number}"), FIRST)
    with pytest.raises(LimitExceeded):
        await pair.store.steer(a_message(turn_id="one-too-many"), FIRST)


async def test_a_turn_is_asked_to_stop_once_and_only_by_its_person(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.store.steer(a_message(), FIRST)
    assert await pair.store.request_stop(TurnId("message-1"), ME, Stop.INTERRUPT) == FIRST
    assert await pair.store.request_stop(FIRST, ME, Stop.CANCEL) == FIRST
    assert (await pair.store.steering([FIRST]))[FIRST].stop is Stop.INTERRUPT
    with pytest.raises(NotFound):
        await pair.store.request_stop(FIRST, UserId("somebody"), Stop.INTERRUPT)
    await pair.events.append(a_turn(), Entry(events=[event(1, is_terminal=True)]))
    assert await pair.store.request_stop(FIRST, ME, Stop.INTERRUPT) is None


async def test_a_turn_that_interrupts_stops_all_before_it_and_none_after_it(pair: Pair) -> None:
    for number in (1, 2):
        await pair.store.admit(a_turn(turn_id=f"turn-{number}"))
    await pair.store.admit(a_turn(turn_id="elsewhere", session_id="session-2"))
    third = await pair.store.admit(a_turn(turn_id="turn-3"), DoubleTexting.INTERRUPT)
    await pair.store.admit(a_turn(turn_id="turn-4"))
    assert sorted(third.stopped) == ["turn-1", "turn-2"]
    everybody = [TurnId(each) for each in ("turn-1", "turn-2", "turn-3", "turn-4", "elsewhere")]
    asked = await pair.store.steering(everybody)
    assert sorted(asked) == ["turn-1", "turn-2"]
    again = await pair.store.admit(a_turn(turn_id="turn-3"), DoubleTexting.INTERRUPT)
    assert (again.is_new, again.stopped) == (False, ())


async def test_checkpoints_come_back_whole_and_go_with_their_turn(pair: Pair) -> None:
    opening = Opening(
        sent_blocks=("skill:core@1",), stage=LifecycleStage.DECIDE, risk_ceiling=PermissionTier(3)
    )
    call = ToolCall(
        tool_call_id=ToolCallId("1.0"), name="buy_token", arguments_json='{"amount":"5.00"}'
    )
    first = Checkpoint(
        messages=(user_message("hello"),), callable_tools=("get_price",), opening=opening
    )
    second = Checkpoint(
        step=1,
        messages=(
            Message(
                role=Role.ASSISTANT,
                blocks=(ThinkingBlock("hm"), ToolCallBlock(call)),
                provider_state='{"ids":["a"]}',
            ),
        ),
        awaits_results=True,
        usage=TokenUsage(input_tokens=7, cost_usd=Decimal("0.0125")),
        tool_calls=1,
        speaker="anthropic:claude",
    )
    third = Checkpoint(
        step=1,
        pending_actions=(an_action(),),
        interjections=(TurnId("message-1"),),
        finish_reason=FinishReason.BUDGET,
        limit="turn_usd",
        failure_reason="INTERNAL",
        failure_message="it broke",
    )
    await pair.store.admit(a_turn())
    await pair.events.append(a_turn(), Entry(events=[told(1)], checkpoints=[first, second]))
    await pair.events.append(a_turn(), Entry(checkpoints=[third], checkpoints_before=2))
    past = await pair.events.past(FIRST)
    assert past.checkpoints == (first, second, third)
    assert past.told.last_sequence == 1
    await pair.events.append(a_turn(), Entry(events=[event(2, is_terminal=True)]))
    assert (await _checkpoints(pair)) == ()


async def _checkpoints(pair: Pair) -> tuple[Checkpoint, ...]:
    """Of a turn that is over, whose last event here is no real one."""
    if isinstance(pair.store, FakeTurnStore):
        return tuple(pair.store.checkpoints.get(FIRST, {}).values())
    await pair.events.expire(datetime.max.replace(tzinfo=UTC))
    return (await pair.events.past(FIRST)).checkpoints


async def test_what_the_workspace_has_not_recorded_is_kept_beyond_the_end(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.store.admit(a_turn(turn_id="turn-2"))
    await pair.events.append(a_turn(), Entry(checkpoints=[Checkpoint(step=1)]))
    await pair.events.append(a_turn(turn_id="turn-2"), Entry(checkpoints=[Checkpoint(step=1)]))
    assert await pair.store.unrecorded() == []
    last = Entry(
        events=[event(1, is_terminal=True)],
        checkpoints=[Checkpoint(step=2)],
        checkpoints_before=1,
        is_unrecorded=True,
    )
    await pair.events.append(a_turn(), last)
    (left,) = await pair.store.unrecorded()
    assert left.context.turn_id == FIRST
    await pair.events.forget_checkpoints(FIRST)
    assert await pair.store.unrecorded() == []


async def test_events_are_kept_until_their_turn_is_long_over(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    process = a_process(database, "me")
    await process.store.admit(a_turn())
    await process.store.admit(a_turn(turn_id="turn-2"))
    await process.events.append(a_turn(), Entry(events=[event(1), event(2, is_terminal=True)]))
    await process.events.append(a_turn(turn_id="turn-2"), Entry(events=[event(1)]))
    now = SystemClock().now()
    assert await process.events.expire(now - timedelta(days=1)) == 0
    assert len(await process.events.events_after(FIRST, 0)) == 2
    assert await process.events.expire(now + timedelta(days=1)) == 1
    assert await process.events.events_after(FIRST, 0) == []
    assert not await process.events.has_any(FIRST)
    assert await process.events.has_any(TurnId("turn-2"))
    assert await process.events.expire(now + timedelta(days=1)) == 0
