"""What a session's next turn starts from: its compaction, the turns after it, what they cost."""

from datetime import datetime
from decimal import Decimal
from functools import reduce

import sqlalchemy as sa

from minara_core.errors import InvalidRequest
from minara_core.ids import SessionId
from minara_core.money import add
from minara_runtime.statements import database_time, insert_if_absent
from minara_workspace.adapters.sql_tables import COMPACTIONS, TURNS
from minara_workspace.domain.session import Compaction

_COMPACTION = sa.select(COMPACTIONS).where(COMPACTIONS.c.session_id == sa.bindparam("session"))
_REPLACE = (
    sa.update(COMPACTIONS)
    .where(COMPACTIONS.c.session_id == sa.bindparam("session"))
    .values(
        through_turn_number=sa.bindparam("through"),
        history=sa.bindparam("kept"),
        update_time=sa.bindparam("now"),
    )
)
_TRANSCRIPTS = (
    sa.select(TURNS.c.transcript)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        TURNS.c.turn_number > sa.bindparam("through"),
    )
    .order_by(TURNS.c.turn_number)
)
_COSTS = sa.select(TURNS.c.cost_usd).where(
    TURNS.c.session_id == sa.bindparam("session"),
    TURNS.c.commit_time >= sa.bindparam("since", type_=TURNS.c.commit_time.type),
    TURNS.c.cost_usd.is_not(None),
)


def history(connection: sa.Connection, session_id: SessionId) -> bytes:
    """The history in wire form, as cut by the compaction that stands."""
    base = connection.execute(_COMPACTION, {"session": session_id}).first()
    through, kept = (base.through_turn_number, bytes(base.history)) if base else (0, b"")
    parameters = {"session": session_id, "through": through}
    transcripts = connection.execute(_TRANSCRIPTS, parameters).scalars()
    return kept + b"".join(bytes(each) for each in transcripts)


def spent_today(connection: sa.Connection, session_id: SessionId) -> Decimal:
    """Known costs of the session's turns since midnight UTC, by the database's clock."""
    midnight = database_time(connection).replace(hour=0, minute=0, second=0, microsecond=0)
    costs = connection.execute(_COSTS, {"session": session_id, "since": midnight}).scalars()
    return reduce(add, costs, Decimal(0))


def compact(
    connection: sa.Connection,
    session_id: SessionId,
    compaction: Compaction,
    *,
    turn_count: int,
    now: datetime,
) -> bool:
    """Let `compaction` stand; false when one of more turns stands already.

    `turn_count` is that of the session before this commit. Raises InvalidRequest for a compaction
    of more turns than that.
    """
    through = compaction.through_turn_number
    if not 0 <= through <= turn_count:
        raise InvalidRequest(
            "a compaction stands for turns that were recorded",
            metadata={"through_turn_number": str(through), "turn_count": str(turn_count)},
        )
    values = {
        "session_id": session_id,
        "through_turn_number": through,
        "history": compaction.history,
        "update_time": now,
    }
    if insert_if_absent(connection, COMPACTIONS, values):
        return True
    standing = connection.execute(_COMPACTION, {"session": session_id}).one()
    if through < standing.through_turn_number:
        return False
    replacement = {
        "session": session_id,
        "through": through,
        "kept": compaction.history,
        "now": now,
    }
    connection.execute(_REPLACE, replacement)
    return True
