"""In-memory TurnStore and SessionWriters; both pass the contract suites of the ports."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from minara_core.clock import pause
from minara_core.errors import Conflict, LimitExceeded, MinaraError, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.ports import MOST_WAITING, Admission, Stirred, StoredEvent
from minara_orchestrator.domain.turn import Turn


@dataclass
class FakeTurnStore:
    turns: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    events: dict[TurnId, list[StoredEvent]] = field(default_factory=dict[TurnId, list[StoredEvent]])

    async def admit(self, turn: Turn, *, alone: bool = False) -> Admission:
        turn_id = turn.context.turn_id
        standing = self.turns.get(turn_id)
        if standing is None:
            self.turns[turn_id] = turn
            self.events[turn_id] = []
            ahead = await self.ahead(turn_id)
            if alone and ahead:
                del self.turns[turn_id], self.events[turn_id]
                raise Conflict("a turn runs", reason=ErrorReason.TURN_RUNNING)
            if ahead > MOST_WAITING:
                del self.turns[turn_id], self.events[turn_id]
                raise LimitExceeded("too many turns wait")
            return Admission(is_new=True, is_over=False, ahead=ahead)
        if standing.context.user_id != turn.context.user_id:
            raise NotFound("no such turn", reason=ErrorReason.TURN_NOT_FOUND)
        return Admission(is_new=False, is_over=self._is_over(turn_id))

    async def ahead(self, turn_id: TurnId) -> int:
        session_id = self.turns[turn_id].context.session_id
        before = list(self.turns)[: list(self.turns).index(turn_id)]
        return sum(
            self.turns[other].context.session_id == session_id and not self._is_over(other)
            for other in before
        )

    @contextmanager
    def watch(self, turn_id: TurnId) -> Generator[Stirred]:
        async def stirred() -> None:
            await pause(0.001)

        yield stirred

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        turn = self.turns.get(turn_id)
        if turn is None or turn.context.user_id != user_id:
            return None
        return Admission(is_new=False, is_over=self._is_over(turn_id))

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        for turn_id, turn in self.turns.items():
            context = turn.context
            mine = context.session_id == session_id and context.user_id == user_id
            if mine and not self._is_over(turn_id):
                return turn_id
        return None

    async def append(self, turn_id: TurnId, events: Sequence[StoredEvent]) -> None:
        self.events[turn_id] += events

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        return [event for event in self.events.get(turn_id, []) if event.sequence > sequence]

    async def last_sequence(self, turn_id: TurnId) -> int:
        stored = self.events.get(turn_id, [])
        return stored[-1].sequence if stored else 0

    async def claim(self, running: Collection[TurnId]) -> list[Turn]:
        return [
            turn
            for turn_id, turn in self.turns.items()
            if not self._is_over(turn_id) and turn_id not in running
        ]

    def _is_over(self, turn_id: TurnId) -> bool:
        return any(event.is_terminal for event in self.events[turn_id])


class FakeWriters:
    def __init__(self) -> None:
        self._locks: dict[SessionId, asyncio.Lock] = {}
        self._epochs: dict[SessionId, int] = {}

    @asynccontextmanager
    async def hold(self, session_id: SessionId) -> AsyncGenerator[int]:
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            self._epochs[session_id] = self._epochs.get(session_id, 0) + 1
            yield self._epochs[session_id]


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
