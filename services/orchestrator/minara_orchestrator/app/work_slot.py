"""How many sub-agents of a turn work at once, however deep they lie."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

MOST_AT_ONCE = 4


class WorkSlot:
    """Room for one sub-agent to ask and to call; the turn itself needs none.

    All slots of a turn come from its first one, by `another`. Whoever waits for sub-agents of its
    own lends its room to them: those that hold one always work, so none waits for ever.
    """

    def __init__(self, room: asyncio.Semaphore | None = None) -> None:
        self._room = room or asyncio.Semaphore(MOST_AT_ONCE)
        self._is_held = False

    def another(self) -> "WorkSlot":
        """One for a sub-agent; enter it to wait for room and to hold it."""
        return WorkSlot(self._room)

    async def __aenter__(self) -> Self:
        await self._take()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_held:
            self._give_up()

    async def _take(self) -> None:
        await self._room.acquire()
        self._is_held = True

    def _give_up(self) -> None:
        self._is_held = False
        self._room.release()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Leave the room to others while the body waits for them; after an error there is no more
        work, so it stays with them."""
        if not self._is_held:
            yield
            return
        self._give_up()
        yield
        await self._take()
