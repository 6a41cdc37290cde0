"""The one row that every money transaction of a person locks first."""

from datetime import datetime

import sqlalchemy as sa

from minara_runtime.statements import insert_if_absent, lock_row
from minara_tools.adapters.sql_fund_tables import FUND_LOCKS

_LOCK = sa.select(FUND_LOCKS).where(FUND_LOCKS.c.user_id == sa.bindparam("person"))
_TOUCH = (
    sa.update(FUND_LOCKS)
    .where(FUND_LOCKS.c.user_id == sa.bindparam("person"))
    .values(revision=FUND_LOCKS.c.revision + 1, update_time=sa.bindparam("now"))
)

_BACK_TO = (
    sa.update(FUND_LOCKS)
    .where(FUND_LOCKS.c.update_time > sa.bindparam("now"))
    .values(update_time=sa.bindparam("now"))
)


def lock_funds(connection: sa.Connection, user_id: str) -> datetime | None:
    """Lock a person's money until the transaction ends; when it was last moved."""
    first = {"user_id": user_id, "revision": 0, "update_time": None}
    insert_if_absent(connection, FUND_LOCKS, first)
    row = lock_row(connection, _LOCK, {"person": user_id})
    assert row is not None
    return row.update_time


def touch_funds(connection: sa.Connection, user_id: str, now: datetime) -> None:
    """Note when the locked money was last moved."""
    connection.execute(_TOUCH, {"person": user_id, "now": now})


def latest_move(connection: sa.Connection, user_id: str) -> datetime | None:
    """When a person's money was last moved, without the lock."""
    row = connection.execute(_LOCK, {"person": user_id}).first()
    return None if row is None else row.update_time


def forget_the_future(connection: sa.Connection, now: datetime) -> None:
    """Let no money have been moved later than now."""
    connection.execute(_BACK_TO, {"now": now})
