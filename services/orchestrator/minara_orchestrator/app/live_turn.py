"""A turn that runs in this process: its outbox, its sequence, its watchers.

Persist, then deliver: an event reaches a watcher only after the commit that stored it. Text is
coalesced, so that a fast model costs one commit a window and not one a token.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

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
    TurnFailed,
)
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.stop_signal import StopSignal
from minara_orchestrator.app.turn_ports import EncodeEvent, Entry, StoredEvent, TurnEvents
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past
from minara_orchestrator.domain.turn import Stop, Turn

DELTA_WINDOW_SECONDS = 1 / 30
RING_SIZE = 2_000


class LiveTurn:
    """One running turn; implements TurnLink for the loop. `pump` is called by the hub, `follow` by
    watchers. `epoch` is that of the session's lease while it is held, or taken, for this turn: it
    is given up with the turn's last event."""

    def __init__(
        self,
        turn: Turn,
        *,
        events: TurnEvents,
        encode: EncodeEvent,
        clock: Clock,
        past: Past,
    ) -> None:
        self.turn = turn
        self.past = past
        self.stop = StopSignal()
        self.watchers = 0
        self.epoch = 0
        self.is_over = False
        self._events = events
        self._encode = encode
        self._clock = clock
        self._sequence = past.told.last_sequence
        self._attempt = past.told.attempt_sequence
        self._step = past.told.highest_step
        self._outbox: list[Payload] = []
        self._checkpoints: list[Checkpoint] = []
        self._checkpoint_count = len(past.checkpoints)
        self._is_closing = False
        self._is_closed = False
        self._interjections: list[Interjection] = []
        self._heard = set(past.interjections)
        self._taken = set(past.interjections)
        self._late: Sequence[str] = ()
        self._asked = 0
        self._done = 0
        self._ring: deque[StoredEvent] = deque(maxlen=RING_SIZE)
        self._urgent = asyncio.Event()
        self._stirred = asyncio.Event()
        self._delivered = asyncio.Condition()
        self._last_flush = float("-inf")
        self._is_abandoned = False

    def emit(self, payload: Payload) -> None:
        """Queue an event for storing; never blocks. Neighbouring text becomes one event."""
        if self.past.is_taken_over and self.past.told.knows(payload):
            return
        merged = _merged(self._outbox[-1], payload) if self._outbox else None
        if merged is not None:
            self._outbox[-1] = merged
        else:
            self._outbox.append(payload)
        self._stirred.set()
        if not isinstance(payload, TextDelta | ThinkingDelta):
            self._urgent.set()

    def keep(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint together with the events that are told next."""
        self._checkpoints.append(checkpoint)

    async def stored(self) -> None:
        """Wait until all that was told and kept is durable."""
        self._asked += 1
        asked = self._asked
        self._hurry()
        await self._until(lambda: self._done >= asked)

    async def step_stored(self, step: int) -> None:
        """Wait until it is durable that this step began."""
        if self._step < step:
            await self._until(lambda: self._step >= step)

    async def close(self) -> None:
        """Take no more interjections, and wait until all is durable."""
        self._is_closing = True
        await self.stored()

    @property
    def has_interjections(self) -> bool:
        """Whether a person has said something that was not taken yet."""
        return bool(self._interjections)

    def take_interjections(self) -> Sequence[Interjection]:
        """What persons have said into the turn since the last time, oldest first."""
        taken, self._interjections = self._interjections, []
        self._taken.update(each.message_id for each in taken)
        return taken

    def steer(self, stop: Stop | None, interjections: Iterable[Interjection]) -> None:
        """Pass on what is asked of the turn; what was passed on before changes nothing."""
        for each in interjections:
            if each.message_id not in self._heard:
                self._heard.add(each.message_id)
                self._interjections.append(each)
        if stop is not None:
            self.stop.request(stop)

    async def pump(self) -> None:
        """Store and deliver until the terminal event is delivered."""
        while not self.is_over:
            await self._stirred.wait()
            await self._wait_out_window()
            asked = self._asked
            payloads, self._outbox = self._outbox, []
            self._stirred.clear()
            self._urgent.clear()
            if payloads and isinstance(payloads[-1], TerminalEvent) and not self._is_closed:
                # An end tells what came too late, so nothing may come after that is counted.
                self._is_closing = True
                await self._deliver(payloads[:-1])
                payloads = payloads[-1:]
            await self._deliver(payloads)
            await self._tell_done(asked)

    def _hurry(self) -> None:
        self._urgent.set()
        self._stirred.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._delivered:
            await self._delivered.wait_for(holds)

    async def _tell_done(self, asked: int) -> None:
        self._done = asked
        async with self._delivered:
            self._delivered.notify_all()

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
        checkpoints, self._checkpoints = self._checkpoints, []
        if not (payloads or checkpoints or self._is_closing):
            return
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
        closes, self._is_closing = self._is_closing, False
        entry = Entry(
            events=stored,
            checkpoints=checkpoints,
            checkpoints_before=self._checkpoint_count,
            closes=closes,
            is_unrecorded=bool(payloads) and _is_unrecorded(payloads[-1]),
            gives_up=self.epoch,
        )
        self._checkpoint_count += len(checkpoints)
        heard = await self._events.append(self.turn, entry)
        if closes:
            self._is_closed = True
            self._late = [each.text for each in heard if each.message_id not in self._taken]
        self._sequence += len(stored)
        begun = [each.step for each in payloads if isinstance(each, StepStarted)]
        self._step = max(self._step, *begun) if begun else self._step
        self._last_flush = self._clock.monotonic()
        self._ring.extend(stored)
        self.is_over = bool(payloads) and isinstance(payloads[-1], TerminalEvent)

    def _placed(self, payload: Payload, sequence: int) -> Payload:
        """The payload with what only its place tells: from where on a broken attempt's text is
        void, and what came too late for the turn."""
        if isinstance(payload, TextReset):
            payload = replace(payload, since_sequence=self._attempt)
        if isinstance(payload, TerminalEvent):
            payload = replace(payload, pending_interjections=tuple(self._late))
        if isinstance(payload, StepStarted | TextReset):
            self._attempt = sequence
        return payload

    async def follow(self, after: int) -> AsyncGenerator[list[StoredEvent]]:
        """Batches of stored events after `after`, each once and in order, to the terminal one."""
        self.watchers += 1
        try:
            while True:
                batch = await self._missed(after) or await self._next_batch(after)
                if batch:
                    yield batch
                    after = batch[-1].sequence
                if self.is_over and after >= self._sequence:
                    return
        finally:
            self.watchers -= 1

    async def _missed(self, after: int) -> list[StoredEvent]:
        """What lies before the ring."""
        first_in_ring = self._ring[0].sequence if self._ring else self._sequence + 1
        if after + 1 >= first_in_ring:
            return []
        return await self._events.events_after(self.turn.context.turn_id, after)

    async def _next_batch(self, after: int) -> list[StoredEvent]:
        async with self._delivered:
            await self._delivered.wait_for(
                lambda: self.is_over or self._is_abandoned or self._sequence > after
            )
            known = len(self._ring)
            new = min(known, max(0, self._sequence - after))
            batch = list(islice(self._ring, known - new, None))
        if self._is_abandoned and not batch and not self.is_over:
            raise Unavailable(
                "the turn was cut off here; resume it", reason=ErrorReason.SHUTTING_DOWN
            )
        return batch

    async def ended(self) -> None:
        """Wait until the terminal event is stored and delivered."""
        await self._until(lambda: self.is_over)

    async def abandon(self) -> None:
        """Wake watchers of a turn that stops without a terminal event: they are to resume."""
        async with self._delivered:
            self._is_abandoned = True
            self._delivered.notify_all()


def _is_unrecorded(payload: Payload) -> bool:
    return isinstance(payload, TurnFailed) and payload.reason == ErrorReason.NOT_RECORDED


def _merged(last: Payload, new: Payload) -> Payload | None:
    if isinstance(last, TextDelta) and isinstance(new, TextDelta):
        return TextDelta(text=last.text + new.text)
    if isinstance(last, ThinkingDelta) and isinstance(new, ThinkingDelta):
        return ThinkingDelta(text=last.text + new.text)
    return None
