"""What people said in a session's turns: what began them, and what was put into them since."""

import sqlalchemy as sa

from minara_core.actions import ActionState
from minara_core.taxonomy import Origin
from minara_runtime.statements import one_of
from minara_tools.adapters.sql_tables import PENDING_ACTIONS, TURNS
from minara_tools.domain.intent import REMEMBERED_MESSAGES

_ASKED = sa.alias(TURNS, "asked")
_LAST_ANSWERED = (
    sa.select(sa.func.coalesce(sa.func.max(_ASKED.c.position), 0))
    .join(PENDING_ACTIONS, PENDING_ACTIONS.c.turn_id == _ASKED.c.turn_id)
    .where(
        PENDING_ACTIONS.c.session_id == sa.bindparam("session"),
        PENDING_ACTIONS.c.state != ActionState.PENDING.value,
        _ASKED.c.turn_id != sa.bindparam("turn"),
    )
    .scalar_subquery()
)
# Words put into a turn stand behind it; a move that the turn made of them is theirs too.
_ANSWERED_SINCE = sa.exists().where(
    TURNS.c.into_turn_id != "",
    PENDING_ACTIONS.c.turn_id == TURNS.c.into_turn_id,
    PENDING_ACTIONS.c.turn_id != sa.bindparam("turn"),
    PENDING_ACTIONS.c.state != ActionState.PENDING.value,
)
# A message whose move was answered, with yes or no, asks for nothing again.
_MESSAGES = (
    sa.select(TURNS.c.message)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        sa.or_(
            TURNS.c.position <= sa.bindparam("until"),
            TURNS.c.into_turn_id == sa.bindparam("turn"),
        ),
        TURNS.c.position > _LAST_ANSWERED,
        sa.not_(_ANSWERED_SINCE),
        one_of(TURNS.c.origin, [origin.value for origin in Origin if origin.is_human]),
        TURNS.c.message != "",
    )
    .order_by(TURNS.c.position.desc())
    .limit(REMEMBERED_MESSAGES)
)
_INTERJECTIONS = (
    sa.select(TURNS.c.message)
    .where(
        TURNS.c.session_id == sa.bindparam("session"),
        TURNS.c.position > sa.bindparam("until"),
        TURNS.c.into_turn_id == sa.bindparam("turn"),
    )
    .order_by(TURNS.c.position.desc())
)


def human_messages(
    connection: sa.Connection, *, session_id: str, turn_id: str, position: int
) -> tuple[str, ...]:
    """The session's newest messages of people up to this turn and inside of it, newest first, that
    no decision has answered."""
    told = {"session": session_id, "turn": turn_id, "until": position}
    return tuple(connection.execute(_MESSAGES, told).scalars())


def interjections(
    connection: sa.Connection, *, session_id: str, turn_id: str, position: int
) -> tuple[str, ...]:
    """What was put into this turn, newest first."""
    told = {"session": session_id, "turn": turn_id, "until": position}
    return tuple(connection.execute(_INTERJECTIONS, told).scalars())
