"""One service's database: SQLite in a file, or PostgreSQL; the same synchronous functions on both.

A function handed to `transaction` or `read` gets a SQLAlchemy Core connection, awaits nothing and
touches nothing but that connection, because PostgreSQL may run it again after a deadlock.
Statements that are built once and kept at module level skip SQLAlchemy's cache-key work on each
call; bind values as parameters so that equal statements share one compiled form.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from minara_core.errors import InvalidRequest, Unavailable
from minara_runtime import commit_notes, genai
from minara_runtime.figures import CONNECTIONS, Gauge
from minara_runtime.migrations import upgrade
from minara_runtime.postgres_engine import PostgresEngine
from minara_runtime.sqlite_engine import SqliteEngine

T = TypeVar("T")

Dialect = Literal["sqlite", "postgresql"]


class Engine(Protocol):
    """What one dialect does; `Database` is the same words for both."""

    async def transaction(
        self, fn: Callable[[sa.Connection], T], *, repeatable: bool, brief: bool
    ) -> T: ...

    async def read(self, fn: Callable[[sa.Connection], T], *, brief: bool) -> T: ...

    async def answers(self) -> bool: ...

    def exclusive(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that no other process can be in at the same time, for migrations."""
        ...

    def in_use(self) -> int:
        """Connections in use now, those that callers wait for included on SQLite."""
        ...

    async def aclose(self) -> None: ...


class Database:
    """The one way to a service's tables."""

    def __init__(self, engine: Engine, dialect: Dialect, url: str = "") -> None:
        self._engine = engine
        self._listeners: list[Callable[[object], None]] = []
        self.dialect: Dialect = dialect
        self.url = url

    @classmethod
    def open(
        cls, url: str, *, durable: bool = False, readers: int = 2, pool_size: int = 10
    ) -> "Database":
        """The database at `sqlite:///path` or `postgresql://…`; nothing is connected yet.

        `durable` makes every SQLite commit wait for the disk (PostgreSQL always does). `readers` is
        the number of SQLite reader threads, `pool_size` the most PostgreSQL connections. Raises
        InvalidRequest for any other URL, and for SQLite without a file.
        """
        try:
            parsed = sa.make_url(url)
        except (exc.ArgumentError, ValueError) as error:  # of a port that is no number
            raise InvalidRequest("a database URL is sqlite:///path or postgresql://…") from error
        match parsed.drivername.partition("+")[0]:
            case "sqlite":
                return cls(SqliteEngine(parsed, durable=durable, readers=readers), "sqlite", url)
            case "postgresql" | "postgres":
                return cls(PostgresEngine(parsed, pool_size=pool_size), "postgresql", url)
            case _:
                raise InvalidRequest(
                    "a database URL is sqlite:///path or postgresql://…, not "
                    f"{parsed.drivername}://…"
                )

    async def migrate(self, versions: Path, *, owner: str = "") -> None:
        """Bring the tables to the newest revision in the folder `versions`.

        All or nothing, and once: replicas that start together wait for the first. `owner` is who
        alone may use the database. Raises NotReady (`SCHEMA_TOO_NEW`), InvalidRequest for another
        owner's database, Unavailable (`DATABASE_UNAVAILABLE`) with its place.
        """
        try:
            async with self._engine.exclusive() as connection:
                await connection.run_sync(upgrade, versions, owner=owner)
        except Unavailable as error:
            place = sa.make_url(self.url).render_as_string(hide_password=True)
            raise Unavailable(
                f"the database {place} does not answer ({error.metadata.get('cause', '')})",
                reason=error.reason,
                metadata=error.metadata,
            ) from error

    async def transaction(
        self,
        fn: Callable[[sa.Connection], T],
        *,
        repeatable_read: bool = False,
        brief: bool = False,
    ) -> T:
        """Run `fn` and commit; roll back if it raises.

        On SQLite the one writer runs it. On PostgreSQL it runs READ COMMITTED, so lock what you
        read before you write it (`statements.lock_row`), or ask for `repeatable_read`; a deadlock
        or a serialization failure runs it again, a few times. A caller that is cancelled leaves a
        transaction that is committed whole or rolled back whole. Raises Unavailable
        (`DATABASE_UNAVAILABLE`) when the database is busy, gone or full.

        `brief` says that `fn` touches a few rows by their keys, and that its commit need not wait
        for the disk even on a `durable` SQLite: it reaches it with the next one that does, before
        which nothing that matters is built on it. SQLite then runs it on the calling thread.
        """
        if not self._listeners:
            return await self._engine.transaction(fn, repeatable=repeatable_read, brief=brief)
        fact: object | None = None

        def noting(connection: sa.Connection) -> T:
            nonlocal fact
            commit_notes.take(connection)  # of a transaction that was rolled back
            result = fn(connection)
            fact = commit_notes.take(connection)
            return result

        try:
            return await self._engine.transaction(noting, repeatable=repeatable_read, brief=brief)
        finally:
            if fact is not None:
                for listener in self._listeners:
                    listener(fact)

    def listen(self, listener: Callable[[object], None]) -> None:
        """Call `listener`, on the loop, with the fact (`commit_notes`) that a transaction leaves.

        After the commit; also when it is unknown whether that went through. Not for transactions of
        other `Database` objects, and not to be relied on: a process can end in between.
        """
        self._listeners.append(listener)

    async def read(self, fn: Callable[[sa.Connection], T], *, brief: bool = False) -> T:
        """Run `fn` on one consistent snapshot; it can write nothing. `brief` and errors as for
        `transaction`."""
        return await self._engine.read(fn, brief=brief)

    async def answers(self) -> bool:
        """Whether the database can be reached now; a busy one can."""
        return await self._engine.answers()

    def gauge(self, name: str) -> Gauge:
        """How many connections are in use, under this name of the database."""
        labels = {genai.POOL_NAME: name, genai.CONNECTION_STATE: "used"}
        return Gauge(figure=CONNECTIONS, read=lambda: ((self._engine.in_use(), labels),))

    async def aclose(self) -> None:
        """Finish what runs, refuse what comes (`SHUTTING_DOWN`), close every connection."""
        await self._engine.aclose()
