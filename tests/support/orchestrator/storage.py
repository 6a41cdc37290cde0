"""In-memory TurnStore, TurnEvents and SessionWriters; all pass the contract suites of the ports."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from minara_core.clock import pause
from minara_core.errors import Conflict, LimitExceeded, MinaraError, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.turn_ports import (
    MOST_WAITING,
    Admission,
    Claimed,
    Entry,
    Held,
    Steering,
    Stirred,
    StoredEvent,
)
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past, Told
from minara_orchestrator.domain.turn import DecidedInput, DoubleTexting, Stop, Turn, UserInput


@dataclass
class FakeTurnStore:
    """`told` is what a turn's events have told, for tests that take one over."""

    turns: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    events: dict[TurnId, list[StoredEvent]] = field(default_factory=dict[TurnId, list[StoredEvent]])
    checkpoints: dict[TurnId, dict[int, Checkpoint]] = field(
        default_factory=dict[TurnId, dict[int, Checkpoint]]
    )
    told: dict[TurnId, Told] = field(default_factory=dict[TurnId, Told])
    into: dict[TurnId, TurnId] = field(default_factory=dict[TurnId, TurnId])
    stops: dict[TurnId, Stop] = field(default_factory=dict[TurnId, Stop])
    closed: set[TurnId] = field(default_factory=set[TurnId])
    lost: set[TurnId] = field(default_factory=set[TurnId])
    end_times: dict[TurnId, datetime] = field(default_factory=dict[TurnId, datetime])
    take_overs: dict[TurnId, int] = field(default_factory=dict[TurnId, int])

    async def admit(self, turn: Turn, policy: DoubleTexting = DoubleTexting.ENQUEUE) -> Admission:
        turn_id, context = turn.context.turn_id, turn.context
        if turn_id in self.turns:
            return self._standing(turn)
        live = await self.live_turn(context.session_id, context.user_id)
        if policy is DoubleTexting.INTERJECT and live is not None and self._takes(live):
            return self._put(turn, live)
        self.turns[turn_id] = turn
        self.events[turn_id] = []
        others = self._ahead(turn_id)
        if policy is DoubleTexting.REJECT and others:
            self._forget(turn_id)
            raise Conflict("a turn runs", reason=ErrorReason.TURN_RUNNING)
        if len(others) > MOST_WAITING:
            self._forget(turn_id)
            raise LimitExceeded("too many turns wait")
        stopped: tuple[TurnId, ...] = ()
        if policy is DoubleTexting.INTERRUPT:
            stopped = tuple(other for other in others if other not in self.stops)
            self.stops.update(dict.fromkeys(stopped, Stop.INTERRUPT))
        return Admission(is_new=True, is_over=False, ahead=len(others), stopped=stopped)

    async def steer(self, message: Turn, into: TurnId) -> Admission:
        if message.context.turn_id in self.turns:
            standing = self._standing(message)
            if standing.into is None or self.turns[message.context.turn_id].input != message.input:
                raise Conflict("it has this id", reason=ErrorReason.IDEMPOTENCY_KEY_REUSED)
            return standing
        target = self.turns.get(into)
        asks = (message.context.user_id, message.context.session_id)
        if target is None or (target.context.user_id, target.context.session_id) != asks:
            raise _unknown()
        if not self._takes(into):
            raise Conflict("it takes no more", reason=ErrorReason.TURN_OVER)
        if len(self._said(into)) >= MOST_WAITING:
            raise LimitExceeded("too many messages wait")
        return self._put(message, into)

    async def request_stop(self, turn_id: TurnId, user_id: UserId, stop: Stop) -> TurnId | None:
        turn_id = self.into.get(turn_id, turn_id)
        found = await self.find(turn_id, user_id)
        if found is None:
            raise _unknown()
        if not found.is_over:
            self.stops.setdefault(turn_id, stop)
        return None if found.is_over else turn_id

    async def steering(self, turn_ids: Collection[TurnId]) -> dict[TurnId, Steering]:
        asked = {
            turn_id: Steering(stop=self.stops.get(turn_id), interjections=self._said(turn_id))
            for turn_id in turn_ids
        }
        return {turn_id: each for turn_id, each in asked.items() if each != Steering()}

    async def next_steered(self) -> Collection[TurnId]:
        await asyncio.Event().wait()
        return ()

    async def ahead(self, turn_id: TurnId) -> int:
        return len(self._ahead(turn_id))

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        turn = self.turns.get(turn_id)
        if turn is None or turn.context.user_id != user_id:
            return None
        return self._standing(turn)

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        for turn_id, turn in self.turns.items():
            context = turn.context
            mine = context.session_id == session_id and context.user_id == user_id
            if mine and not self._is_over(turn_id):
                return turn_id
        return None

    async def claim(self, running: Collection[TurnId]) -> list[Claimed]:
        left = [
            turn
            for turn_id, turn in self.turns.items()
            if not self._is_over(turn_id) and turn_id not in running
        ]
        for turn in left:
            turn_id = turn.context.turn_id
            self.take_overs[turn_id] = self.take_overs.get(turn_id, 0) + 1
        return [
            Claimed(turn=turn, take_overs=self.take_overs[turn.context.turn_id]) for turn in left
        ]

    async def unrecorded(self) -> list[Turn]:
        return [self.turns[each] for each in self.checkpoints if self._is_over(each)]

    async def forget_checkpoints(self, turn_id: TurnId) -> None:
        self.checkpoints.pop(turn_id, None)

    async def leave(self) -> None:
        for turn_id in self.turns:
            self.take_overs[turn_id] = self.take_overs.get(turn_id, 0) - 1

    async def next_left(self) -> None:
        await pause(0.01)

    async def append(self, turn: Turn, entry: Entry) -> Sequence[Interjection]:
        turn_id = turn.context.turn_id
        self.events[turn_id] += entry.events
        kept = self.checkpoints.setdefault(turn_id, {})
        kept.update(enumerate(entry.checkpoints, start=entry.checkpoints_before))
        is_last = bool(entry.events) and entry.events[-1].is_terminal
        if is_last and not entry.is_unrecorded:
            del self.checkpoints[turn_id]
        if not entry.closes:
            return ()
        self.closed.add(turn_id)
        return self._said(turn_id)

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        return [event for event in self.events.get(turn_id, []) if event.sequence > sequence]

    async def has_any(self, turn_id: TurnId) -> bool:
        return turn_id not in self.lost

    async def past(self, turn_id: TurnId) -> Past:
        stored = self.events.get(turn_id, [])
        told = self.told.get(turn_id, Told())
        return Past(
            is_taken_over=True,
            checkpoints=tuple(self.checkpoints.get(turn_id, {}).values()),
            told=replace(told, last_sequence=stored[-1].sequence if stored else 0),
        )

    @contextmanager
    def watch(self, turn_id: TurnId) -> Generator[Stirred]:
        async def stirred() -> None:
            await pause(0.001)

        yield stirred

    async def expire(self, before: datetime) -> int:
        over = [turn_id for turn_id, end in self.end_times.items() if end < before]
        for turn_id in over:
            del self.end_times[turn_id]
            self.events[turn_id] = []
            self.lost.add(turn_id)
        return len(over)

    def _ahead(self, turn_id: TurnId) -> list[TurnId]:
        mine = self.turns[turn_id].context
        before = list(self.turns)[: list(self.turns).index(turn_id)]
        return [
            other
            for other in before
            if self.turns[other].context.session_id == mine.session_id
            and self.turns[other].context.user_id == mine.user_id
            and not self._is_over(other)
        ]

    def _takes(self, turn_id: TurnId) -> bool:
        tells_decision = isinstance(self.turns[turn_id].input, DecidedInput)
        return not (tells_decision or self._is_over(turn_id) or turn_id in self.closed)

    def _put(self, message: Turn, into: TurnId) -> Admission:
        self.turns[message.context.turn_id] = message
        self.into[message.context.turn_id] = into
        return Admission(is_new=True, is_over=False, into=into)

    def _said(self, into: TurnId) -> tuple[Interjection, ...]:
        said = [self.turns[each] for each, target in self.into.items() if target == into]
        return tuple(
            Interjection(context=turn.context, text=turn.input.text)
            for turn in said
            if isinstance(turn.input, UserInput)
        )

    def _standing(self, turn: Turn) -> Admission:
        turn_id = turn.context.turn_id
        if self.turns[turn_id].context.user_id != turn.context.user_id:
            raise _unknown()
        return Admission(is_new=False, is_over=self._is_over(turn_id), into=self.into.get(turn_id))

    def _forget(self, turn_id: TurnId) -> None:
        del self.turns[turn_id], self.events[turn_id]

    def _is_over(self, turn_id: TurnId) -> bool:
        return turn_id in self.into or any(event.is_terminal for event in self.events[turn_id])


def _unknown() -> NotFound:
    return NotFound("no such turn", reason=ErrorReason.TURN_NOT_FOUND)


class FakeWriters:
    def __init__(self) -> None:
        self._locks: dict[SessionId, asyncio.Lock] = {}
        self._epochs: dict[SessionId, int] = {}

    @asynccontextmanager
    async def hold(self, session_id: SessionId, *, taken: int = 0) -> AsyncGenerator[Held]:
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            self._epochs[session_id] = self._epochs.get(session_id, 0) + 1
            yield Held(epoch=self._epochs[session_id])


class FakePreferences:
    """Implements ModelPreferences in memory; fails with `error` while there is one."""

    def __init__(self) -> None:
        self.choices: dict[UserId, str] = {}
        self.error: MinaraError | None = None

    async def get(self, user_id: UserId) -> str:
        if self.error is not None:
            raise self.error
        return self.choices.get(user_id, "")

    async def set(self, user_id: UserId, choice: str) -> None:
        self.choices[user_id] = choice
