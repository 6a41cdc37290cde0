"""What waits between a turn and its client: all of it, in order, and never too much."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.errors import Unavailable
from minara_gateway.outgoing import MOST_BYTES, Outgoing
from support.eventually import eventually

LONG = "x" * 10_000


class Turn:
    """Text events of a turn, made as they are asked for."""

    def __init__(self, *texts: str, error: Exception | None = None) -> None:
        self.asked_for = 0
        self._texts = texts
        self._error = error

    async def events(self) -> AsyncIterator[event_pb.TurnEvent]:
        for number, text in enumerate(self._texts, start=2):
            self.asked_for += 1
            yield event_pb.TurnEvent(sequence=number, text_delta=event_pb.TextDelta(text=text))
        if self._error is not None:
            raise self._error


async def test_frames_that_are_ready_together_leave_together() -> None:
    outgoing = Outgoing(1)
    await outgoing.fill(Turn("a", "b", "c").events())
    assert outgoing.taken == 1
    assert outgoing.take().count(b"event: text_delta") == 3
    assert outgoing.taken == 4
    assert outgoing.take() == b""


async def test_a_turn_is_not_asked_for_more_than_may_wait() -> None:
    turn, outgoing = Turn(*[LONG] * 50), Outgoing(1)
    filling = asyncio.create_task(outgoing.fill(turn.events()))
    taken = 0
    while taken < 50:
        await outgoing.wait(5)
        frames = outgoing.take()
        assert len(frames) <= MOST_BYTES + 2 * len(LONG)
        taken += frames.count(b"event: text_delta")
        assert turn.asked_for == taken
    await filling
    outgoing.close()
    assert outgoing.taken == 51


async def test_a_wait_ends_after_its_time_and_again_after_the_next() -> None:
    outgoing = Outgoing(1)
    for _ in range(2):
        async with asyncio.timeout(2):
            await outgoing.wait(0.01)
        assert outgoing.take() == b""


async def test_a_wait_ends_when_something_else_happens() -> None:
    outgoing = Outgoing(1)
    waiting = asyncio.create_task(outgoing.wait(60))
    outgoing.stir()
    await eventually(waiting.done)
    outgoing.close()


async def test_what_was_put_in_before_an_error_can_be_taken() -> None:
    outgoing = Outgoing(1)
    with pytest.raises(Unavailable):
        await outgoing.fill(Turn("a", error=Unavailable("cut")).events())
    assert b"text_delta" in outgoing.take()
    assert outgoing.taken == 2
