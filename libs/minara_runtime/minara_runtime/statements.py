"""The few statements whose SQL differs between SQLite and PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
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


_DATABASE_TIME = sa.select(DatabaseClock())


def database_time(connection: sa.Connection) -> datetime:
    """What time the database has, UTC: the one clock that all replicas share."""
    return connection.execute(_DATABASE_TIME).scalar_one()


def insert_if_absent(
    connection: sa.Connection, table: sa.Table, values: Mapping[str, object]
) -> bool:
    """Insert one row unless it collides with a unique key; whether it was inserted."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).on_conflict_do_nothing()
    return connection.execute(statement, values).rowcount == 1


def lock_row(connection: sa.Connection, statement: sa.Select[*Ts]) -> sa.Row[*Ts] | None:
    """The first row of `statement`, locked until the transaction ends.

    On SQLite the transaction holds the whole file already, and FOR UPDATE is left out.
    """
    return connection.execute(statement.with_for_update()).first()
