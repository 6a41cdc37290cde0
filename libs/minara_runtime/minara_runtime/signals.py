"""Words between the processes that share a database: PostgreSQL's LISTEN and NOTIFY.

A word is a hint to look at the database, never a fact: it can be lost, and it comes after the
commit that it speaks of. An SQLite file has one process; there nobody else is told anything.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import asyncpg
import sqlalchemy as sa

from minara_core.clock import pause
from minara_runtime.database import Database

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_CONNECT_SECONDS = 5.0
_ALIVE_EVERY_SECONDS = 5.0
_ALIVE_WITHIN_SECONDS = 2.0
_OUTAGES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)

_NOTIFY = sa.text(
    "SELECT pg_notify(:channel, word) FROM unnest(CAST(:words AS text[])) AS told(word)"
)


def notify(connection: sa.Connection, channel: str, words: Iterable[str]) -> None:
    """Tell the other processes each of `words` once the transaction commits."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": channel, "words": list(words)})


class _Connection(Protocol):
    """What is used of asyncpg's connection, which comes without types."""

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...

    async def execute(self, query: str, *, timeout: float) -> str: ...

    def terminate(self) -> None: ...


class Listener:
    """Calls `on_word` on the loop for every word of a channel, and `on_gap` after a time in which
    words may have been missed."""

    def __init__(
        self,
        database: Database,
        channel: str,
        *,
        on_word: Callable[[str], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._is_shared = database.dialect == "postgresql"
        self._url = database.url
        self._channel = channel
        self._on_word = on_word
        self._on_gap = on_gap

    async def run_forever(self) -> None:
        """Listen until cancelled, through outages too. Returns at once on SQLite."""
        wait = _FIRST_PAUSE_SECONDS
        while self._is_shared:
            try:
                connection = await _connected(self._url)
            except _OUTAGES:
                await pause(wait)
                wait = min(2 * wait, _LONGEST_PAUSE_SECONDS)
                continue
            wait = _FIRST_PAUSE_SECONDS
            try:
                await self._listen(connection)
            except _OUTAGES:
                await pause(wait)
            finally:
                connection.terminate()

    async def _listen(self, connection: _Connection) -> None:
        """Pass on words until the connection ends."""
        ended = asyncio.Event()

        def heard(_: object, __: int, ___: str, word: object) -> None:
            self._on_word(str(word))

        connection.add_termination_listener(lambda _: ended.set())
        await connection.add_listener(self._channel, heard)
        self._on_gap()
        while not ended.is_set():
            try:
                async with asyncio.timeout(_ALIVE_EVERY_SECONDS):
                    await ended.wait()
            except TimeoutError:
                # A server that froze or a network that was cut says nothing either.
                await connection.execute("SELECT 1", timeout=_ALIVE_WITHIN_SECONDS)


async def _connected(url: str) -> _Connection:
    parsed = sa.make_url(url).set(drivername="postgresql")
    connect: Any = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no types
    return await connect(parsed.render_as_string(hide_password=False), timeout=_CONNECT_SECONDS)
