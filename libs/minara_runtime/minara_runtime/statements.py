"""The few statements whose SQL differs between SQLite and PostgreSQL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from typing_extensions import TypeVarTuple

from minara_runtime.columns import UtcTime

Ts = TypeVarTuple("Ts")


class DatabaseClock(FunctionElement[datetime]):
    """The database's wall clock as an SQL expression, comparable with `UtcTime` columns.

    SQLite's has milliseconds; PostgreSQL's moves on within a transaction.
    """

    type = UtcTime()
    inherit_cache = True


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: DatabaseClock, compiler: SQLCompiler, **_: Any) -> str:
    return "(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000+00:00')"


@compiles(DatabaseClock, "postgresql")
def _postgres_clock(element: DatabaseClock, compiler: SQLCompiler, **_: Any) -> str:
    return "clock_timestamp()"


_LOCK_NAME = sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_DATABASE_TIME = sa.select(DatabaseClock())


def database_time(connection: sa.Connection) -> datetime:
    """What time the database has, UTC: the one clock that all replicas share."""
    return connection.execute(_DATABASE_TIME).scalar_one()


def one_of(column: sa.ColumnElement[str], values: Iterable[str]) -> sa.ColumnElement[bool]:
    """`column IN (values)` for values that are fixed: a bare list is written anew each time."""
    return column.in_([sa.literal(value) for value in values])


def insert_if_absent(
    connection: sa.Connection, table: sa.Table, values: Mapping[str, object]
) -> bool:
    """Insert one row unless it collides with a unique key; whether it was inserted."""
    return connection.execute(_absent(table, connection.dialect.name), values).rowcount == 1


def insert_absent(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]
) -> None:
    """Insert those of `rows` (at least one) that collide with no unique key."""
    connection.execute(_absent(table, connection.dialect.name), [*rows])


def lock_row(
    connection: sa.Connection,
    statement: sa.Select[*Ts],
    parameters: Mapping[str, object] | None = None,
) -> sa.Row[*Ts] | None:
    """The first row of `statement`, locked until the transaction ends.

    On SQLite the transaction holds the whole file already, and FOR UPDATE is left out.
    """
    return connection.execute(_locking(statement), parameters).first()


def lock_name(connection: sa.Connection, name: str) -> None:
    """Let one transaction at a time be behind this line for the same `name`, until it ends.

    On SQLite there is one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK_NAME, {"name": name})


# A statement that is the same object each time is a statement compiled once.
@cache
def _absent(table: sa.Table, dialect: str) -> sa.Insert:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing()


@lru_cache(maxsize=128)
def _locking(statement: sa.Select[*Ts]) -> sa.Select[*Ts]:
    return statement.with_for_update()
