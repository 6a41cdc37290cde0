"""A turn that runs in this process: its outbox, its sequence, its watchers.

Persist, then deliver: an event reaches a watcher only after the commit that stored it. Text is
coalesced, so that a fast model costs one commit a window and not one a token.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace

from minara_core.clock import Clock
from minara_core.errors import Unavailable
from minara_core.events import (
    Payload,
    StepStarted,
    TerminalEvent,
    TextDelta,
    TextReset,
    ThinkingDelta,
    TurnEvent,
)
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.ports import EncodeEvent, StoredEvent, TurnStore
from minara_orchestrator.domain.turn import Turn

DELTA_WINDOW_SECONDS = 1 / 30
RING_SIZE = 2_000


class LiveTurn:
    """One running turn. `emit` is called by the loop, `pump` by the hub, `follow` by watchers."""

    def __init__(
        self,
        turn: Turn,
        *,
        store: TurnStore,
        encode: EncodeEvent,
        clock: Clock,
        last_sequence: int = 0,
    ) -> None:
        self.turn = turn
        self._store = store
        self._encode = encode
        self._clock = clock
        self._sequence = last_sequence
        self._attempt = last_sequence
        self._outbox: list[Payload] = []
        self._ring: deque[StoredEvent] = deque(maxlen=RING_SIZE)
        self._urgent = asyncio.Event()
        self._stirred = asyncio.Event()
        self._delivered = asyncio.Condition()
        self._last_flush = float("-inf")
        self.is_over = False
        self._is_abandoned = False

    def emit(self, payload: Payload) -> None:
        """Queue an event for storing; never blocks. Neighbouring text becomes one event."""
        merged = _merged(self._outbox[-1], payload) if self._outbox else None
        if merged is not None:
            self._outbox[-1] = merged
        else:
            self._outbox.append(payload)
        self._stirred.set()
        if not isinstance(payload, TextDelta | ThinkingDelta):
            self._urgent.set()

    async def pump(self) -> None:
        """Store and deliver until the terminal event is delivered."""
        while not self.is_over:
            await self._stirred.wait()
            await self._wait_out_window()
            payloads, self._outbox = self._outbox, []
            self._stirred.clear()
            self._urgent.clear()
            if payloads:
                await self._deliver(payloads)

    async def _wait_out_window(self) -> None:
        left = self._last_flush + DELTA_WINDOW_SECONDS - self._clock.monotonic()
        if left <= 0 or self._urgent.is_set():
            return
        try:
            async with asyncio.timeout(left):
                await self._urgent.wait()
        except TimeoutError:
            return

    async def _deliver(self, payloads: list[Payload]) -> None:
        now = self._clock.now()
        events = [
            TurnEvent(sequence=sequence, time=now, payload=self._placed(payload, sequence))
            for sequence, payload in enumerate(payloads, start=self._sequence + 1)
        ]
        stored = [
            StoredEvent(
                sequence=event.sequence, is_terminal=event.is_terminal, body=self._encode(event)
            )
            for event in events
        ]
        await self._store.append(self.turn.context.turn_id, stored)
        self._sequence += len(stored)
        self._last_flush = self._clock.monotonic()
        async with self._delivered:
            self._ring.extend(stored)
            self.is_over = isinstance(payloads[-1], TerminalEvent)
            self._delivered.notify_all()

    def _placed(self, payload: Payload, sequence: int) -> Payload:
        """The payload with what only its place tells: from where on a broken attempt's text is
        void."""
        if isinstance(payload, TextReset):
            payload = replace(payload, since_sequence=self._attempt)
        if isinstance(payload, StepStarted | TextReset):
            self._attempt = sequence
        return payload

    async def follow(self, after: int) -> AsyncIterator[list[StoredEvent]]:
        """Batches of stored events after `after`, each once and in order, to the terminal one."""
        while True:
            first_in_ring = self._ring[0].sequence if self._ring else self._sequence + 1
            if after + 1 < first_in_ring:
                missed = await self._store.events_after(self.turn.context.turn_id, after)
                if missed:
                    yield missed
                    after = missed[-1].sequence
                    if missed[-1].is_terminal:
                        return
                    continue
            batch = await self._next_batch(after)
            if batch:
                yield batch
                after = batch[-1].sequence
            if self.is_over and after >= self._sequence:
                return

    async def _next_batch(self, after: int) -> list[StoredEvent]:
        async with self._delivered:
            await self._delivered.wait_for(
                lambda: self.is_over or self._is_abandoned or self._sequence > after
            )
            batch = [event for event in self._ring if event.sequence > after]
        if self._is_abandoned and not batch and not self.is_over:
            raise Unavailable(
                "the turn was cut off here; resume it", reason=ErrorReason.SHUTTING_DOWN
            )
        return batch

    async def ended(self) -> None:
        """Wait until the terminal event is stored and delivered."""
        async with self._delivered:
            await self._delivered.wait_for(lambda: self.is_over)

    async def abandon(self) -> None:
        """Wake watchers of a turn that stops without a terminal event: they are to resume."""
        async with self._delivered:
            self._is_abandoned = True
            self._delivered.notify_all()


def _merged(last: Payload, new: Payload) -> Payload | None:
    if isinstance(last, TextDelta) and isinstance(new, TextDelta):
        return TextDelta(text=last.text + new.text)
    if isinstance(last, ThinkingDelta) and isinstance(new, ThinkingDelta):
        return ThinkingDelta(text=last.text + new.text)
    return None
