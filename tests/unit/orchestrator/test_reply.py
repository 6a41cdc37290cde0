"""Listening to a model: it may be silent, endless, or refuse; the turn goes on all the same."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from minara_core.events import Payload, TextDelta
from minara_llm.model import (
    FailureKind,
    ModelEvent,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    StopReason,
)
from minara_orchestrator.app.reply import Reply, hear
from minara_orchestrator.app.stop_signal import StopSignal


async def saying(
    events: Iterable[ModelEvent], *, then_silent: bool = False
) -> AsyncGenerator[ModelEvent]:
    for event in events:
        yield event
    if then_silent:
        await asyncio.Event().wait()


async def endless() -> AsyncGenerator[ModelEvent]:
    while True:
        yield ModelThinking(text="hm ")


async def heard(
    events: AsyncGenerator[ModelEvent], *, seconds: float = 60.0, silence_seconds: float = 60.0
) -> tuple[Reply, list[Payload]]:
    told: list[Payload] = []
    reply = await hear(
        events,
        1,
        told.append,
        seconds=seconds,
        most_tokens=1_000,
        stop=StopSignal(),
        silence_seconds=silence_seconds,
    )
    return reply, told


async def test_a_model_that_falls_silent_has_failed_and_what_it_said_is_kept() -> None:
    events = saying([ModelText(text="Hello")], then_silent=True)
    reply, told = await heard(events, silence_seconds=0.01)
    assert told == [TextDelta(text="Hello")]
    assert reply.failure is not None
    assert reply.failure.kind is FailureKind.TIMEOUT
    assert not reply.is_out_of_time
    message = reply.message()
    assert message is not None
    assert message.is_interrupted


async def test_a_turns_wall_time_ends_a_model_that_goes_on() -> None:
    reply, _ = await heard(saying([], then_silent=True), seconds=0.01)
    assert reply.is_out_of_time


async def test_a_model_that_does_not_stop_has_failed() -> None:
    reply, _ = await heard(endless())
    assert reply.failure is not None
    assert reply.failure.kind is FailureKind.MALFORMED_STREAM
    assert reply.characters < 1_000 * 16 + 100_010


async def test_a_model_that_refuses_has_called_nothing() -> None:
    call = ModelToolCall(name="buy_token", arguments_json='{"symbol":"ETH"}')
    stop = ModelStop(reason=StopReason.REFUSAL)
    reply, _ = await heard(saying([ModelText(text="No."), call, stop]))
    message = reply.message()
    assert reply.calls == []
    assert message is not None
    assert message.tool_calls == ()
    assert message.text == "No."
