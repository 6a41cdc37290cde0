"""How a turn is asked to stop, and how what it waits for is broken off."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from minara_orchestrator.domain.turn import Stop


class TurnStopped(Exception):
    """What was waited for was broken off, since the turn is to stop."""


class StopSignal:
    """One per turn. The first request stands."""

    def __init__(self) -> None:
        self.requested: Stop | None = None
        self._limits: set[asyncio.Timeout] = set()

    def request(self, stop: Stop) -> None:
        """Ask the turn to stop; whatever waits under `breaking` ends at once."""
        if self.requested is not None:
            return
        self.requested = stop
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)

    @asynccontextmanager
    async def breaking(self) -> AsyncGenerator[None]:
        """Raises TurnStopped out of the body once the turn is asked to stop, or was."""
        if self.requested is not None:
            raise TurnStopped
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if limit.expired():
                raise TurnStopped from None
            raise
