"""What services have stored of one person, read beside them, on SQLite and PostgreSQL."""

from typing import Any

import sqlalchemy as sa

from minara_core.ids import UserId
from minara_orchestrator.adapters import sql_tables as orchestrator
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_runtime.database import Database
from minara_tools.adapters import sql_tables as tools
from minara_tools.adapters import venue_paper_tables as paper
from minara_workspace.adapters import sql_tables as workspace

_TABLES = {
    ("orchestrator", "turns"): orchestrator.TURNS,
    ("workspace", "sessions"): workspace.SESSIONS,
    ("workspace", "turns"): workspace.TURNS,
    ("workspace", "audit_records"): AUDIT_RECORDS,
    ("tools", "turns"): tools.TURNS,
    ("tools", "tool_calls"): tools.TOOL_CALLS,
    ("tools", "pending_actions"): tools.PENDING_ACTIONS,
    ("tools", "audit_records"): AUDIT_RECORDS,
    ("paper", "paper_orders"): paper.ORDERS,
    ("paper", "paper_balances"): paper.BALANCES,
}


async def rows_of(
    database: Database, user_id: UserId, service: str, table: str, **equal: object
) -> list[dict[str, Any]]:
    """A person's rows of a table, in no order, whose columns have these values."""
    source = _TABLES[service, table]
    statement = sa.select(source).where(
        _is_theirs(source, user_id), *(source.c[name] == value for name, value in equal.items())
    )
    found = await database.read(lambda c: c.execute(statement).all())
    return [dict(row._mapping) for row in found]  # pyright: ignore[reportPrivateUsage] - SQLAlchemy's public name for it


def _is_theirs(source: sa.Table, user_id: UserId) -> sa.ColumnElement[bool]:
    if "user_id" in source.c:
        return source.c.user_id == user_id
    if "account" in source.c:
        theirs = sa.select(paper.ACCOUNTS.c.account).where(paper.ACCOUNTS.c.user_id == user_id)
        return source.c.account.in_(theirs)
    theirs = sa.select(tools.TURNS.c.turn_id).where(tools.TURNS.c.user_id == user_id)
    return source.c.turn_id.in_(theirs)


async def tables_with(database: Database, text: str) -> list[str]:
    """The names of all tables that hold this text in any row of anybody, also inside bytes."""

    def search(connection: sa.Connection) -> list[str]:
        names = sa.inspect(connection).get_table_names()
        return [name for name in names if _holds(connection, name, text)]

    return await database.read(search)


def _holds(connection: sa.Connection, table: str, text: str) -> bool:
    needle = text.encode()
    for row in connection.execute(sa.text(f'SELECT * FROM "{table}"')):
        for value in row:
            held = value if isinstance(value, bytes) else str(value).encode()
            if needle in held:
                return True
    return False
