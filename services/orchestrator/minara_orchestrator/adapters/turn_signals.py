"""Who waits for a turn's events hears of those that any replica stores."""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.ids import TurnId
from minara_orchestrator.app.turn_ports import Stirred
from minara_runtime.database import Database
from minara_runtime.signals import Listener, notify

_CHANNEL = "minara_turn_events"
_POLL_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 1.0
"""Where words can be lost, nobody relies on them for longer."""


class TurnSignals:
    """On SQLite, where nobody else writes, watchers look every 50 ms."""

    def __init__(self, database: Database) -> None:
        self._is_shared = database.dialect == "postgresql"
        self._watched: dict[str, set[asyncio.Event]] = {}
        self._listener = Listener(
            database, _CHANNEL, on_word=self._stir, on_gap=self._stir_everybody
        )

    def tell(self, connection: sa.Connection, turn_ids: Iterable[TurnId]) -> None:
        """Tell all replicas, once the transaction commits, that these turns have new events."""
        notify(connection, _CHANNEL, turn_ids)

    @contextmanager
    def watch(self, turn_id: TurnId) -> Generator[Stirred]:
        event = asyncio.Event()
        self._watched.setdefault(turn_id, set()).add(event)

        async def stirred() -> None:
            if not self._is_shared:
                await pause(_POLL_SECONDS)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                    await event.wait()
            event.clear()

        try:
            yield stirred
        finally:
            watchers = self._watched[turn_id]
            watchers.discard(event)
            if not watchers:
                del self._watched[turn_id]

    async def listen_forever(self) -> None:
        """Hear of other replicas; runs until cancelled, or returns where there are none."""
        await self._listener.run_forever()

    def _stir(self, turn_id: str) -> None:
        for event in self._watched.get(turn_id, ()):
            event.set()

    def _stir_everybody(self) -> None:
        for turn_id in self._watched:
            self._stir(turn_id)
