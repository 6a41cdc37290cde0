"""A session's frozen blocks: fixed once, forgotten when its person has the pages read again."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from minara_core.ids import SessionId
from minara_runtime.statements import insert_if_absent
from minara_workspace.adapters.sql_tables import REFRESHES, SESSION_BLOCKS
from minara_workspace.domain.session import FrozenBlocks

_BLOCKS = sa.select(SESSION_BLOCKS).where(SESSION_BLOCKS.c.session_id == sa.bindparam("session"))
_FORGET = sa.delete(SESSION_BLOCKS).where(SESSION_BLOCKS.c.session_id == sa.bindparam("session"))
_REFRESH = sa.select(REFRESHES.c.time).where(REFRESHES.c.session_id == sa.bindparam("session"))
_REFRESH_AGAIN = (
    sa.update(REFRESHES)
    .where(REFRESHES.c.session_id == sa.bindparam("session"))
    .values(time=sa.bindparam("now"))
)
_REFRESHED = sa.delete(REFRESHES).where(REFRESHES.c.session_id == sa.bindparam("session"))
_LATER = timedelta(microseconds=1)


def frozen(connection: sa.Connection, session_id: SessionId) -> FrozenBlocks | None:
    row = connection.execute(_BLOCKS, {"session": session_id}).first()
    return None if row is None else FrozenBlocks(identity=row.identity, memory=row.memory)


def refresh_time(connection: sa.Connection, session_id: SessionId) -> datetime | None:
    """When the pages were last asked to be read again; None once what was read is frozen."""
    return connection.execute(_REFRESH, {"session": session_id}).scalar_one_or_none()


def freeze(connection: sa.Connection, session_id: SessionId, blocks: FrozenBlocks) -> None:
    """Fix the blocks unless some are, or the pages were asked to be read again since they were.

    The session's row is locked.
    """
    if refresh_time(connection, session_id) != blocks.refresh_time:
        return
    insert_if_absent(
        connection,
        SESSION_BLOCKS,
        {"session_id": session_id, "identity": blocks.identity, "memory": blocks.memory},
    )
    connection.execute(_REFRESHED, {"session": session_id})


def forget_blocks(connection: sa.Connection, session_id: SessionId, now: datetime) -> bool:
    """Forget what is fixed, and what is about to be; whether this was not asked for already.

    The session's row is locked.
    """
    connection.execute(_FORGET, {"session": session_id})
    if insert_if_absent(connection, REFRESHES, {"session_id": session_id, "time": now}):
        return True
    # A turn may have read the pages since the last time: no two refreshes have the same one.
    before = connection.execute(_REFRESH, {"session": session_id}).scalar_one()
    later = max(now, before + _LATER)
    connection.execute(_REFRESH_AGAIN, {"session": session_id, "now": later})
    return False
