"""Words between replicas about turns: one is to be steered, or was left behind."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress

import sqlalchemy as sa

from minara_core.ids import TurnId
from minara_runtime.database import Database
from minara_runtime.signals import Listener, notify

_CHANNEL = "minara_turn_requests"
_LEFT = "left"


class TurnRequests:
    """On SQLite, where nobody else runs turns, no words come."""

    def __init__(self, database: Database) -> None:
        self._steered: set[TurnId] = set()
        self._may_lack = False
        self._has_steered = asyncio.Event()
        self._has_left = asyncio.Event()
        self._listener = Listener(database, _CHANNEL, on_word=self._on_word, on_gap=self._on_gap)

    def tell_steered(self, connection: sa.Connection, turn_ids: Iterable[str]) -> None:
        """Tell all replicas, once the transaction commits, that something is asked of turns."""
        notify(connection, _CHANNEL, turn_ids)

    def tell_left(self, connection: sa.Connection) -> None:
        """Tell all replicas, once the transaction commits, that turns may be claimed."""
        notify(connection, _CHANNEL, [_LEFT])

    async def next_steered(self) -> Collection[TurnId]:
        """Wait for words; the turns they name, or none when words may have been missed."""
        await self._has_steered.wait()
        self._has_steered.clear()
        named, self._steered = self._steered, set()
        lacks, self._may_lack = self._may_lack, False
        return () if lacks else named

    async def next_left(self, seconds: float) -> None:
        """Wait until turns were left, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_left.wait()
        self._has_left.clear()

    async def listen_forever(self) -> None:
        """Hear of other replicas; runs until cancelled, or returns where there are none."""
        await self._listener.run_forever()

    def _on_word(self, word: str) -> None:
        if word == _LEFT:
            self._has_left.set()
            return
        self._steered.add(TurnId(word))
        self._has_steered.set()

    def _on_gap(self) -> None:
        self._may_lack = True
        self._has_steered.set()
        self._has_left.set()
