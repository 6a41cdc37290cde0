"""Frames between a turn and its client: what is ready goes out together; never too much waits."""

import asyncio
from collections.abc import AsyncIterator

from minara.agent.v1 import event_pb2 as event_pb
from minara_gateway.sse import frame

MOST_BYTES = 65_536
"""Beyond this a turn's events are not asked for before some are taken."""


class Outgoing:
    """`fill` runs as a task beside the one that takes. `taken` is the sequence of the newest event
    that was taken."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self._newest = taken
        self._frames: list[bytes] = []
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._stirred = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    async def fill(self, events: AsyncIterator[event_pb.TurnEvent]) -> None:
        """Put events in until they end. Raises what they raise."""
        async for event in events:
            data = frame(event)
            self._frames.append(data)
            self._bytes += len(data)
            self._newest = event.sequence
            self._stirred.set()
            if self._bytes > MOST_BYTES:
                self._has_room.clear()
                await self._has_room.wait()

    def stir(self, *_: object) -> None:
        """Something else has happened: let `wait` return."""
        self._stirred.set()

    async def wait(self, seconds: float) -> None:
        """Until there are frames to take, or `stir` is called, or `seconds` have passed."""
        # One timer for many waits: to make and cancel one for each event costs more than the event.
        self._due = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._look_at_clock)
        await self._stirred.wait()

    def take(self) -> bytes:
        """All frames that are in; empty when there are none."""
        self._stirred.clear()
        frames, self._frames, self._bytes = self._frames, [], 0
        self.taken = self._newest
        self._has_room.set()
        return b"".join(frames)

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_at_clock(self) -> None:
        left = self._due - self._loop.time()
        self._timer = None if left <= 0 else self._loop.call_later(left, self._look_at_clock)
        if left <= 0:
            self.stir()
