"""A fact that a transaction leaves for those who listen to its database, told after the commit."""

import sqlalchemy as sa

_KEY = "minara_note"


def leave(connection: sa.Connection, fact: object) -> None:
    """Leave the transaction's one fact; a later one takes its place."""
    connection.info[_KEY] = fact


def left(connection: sa.Connection) -> object | None:
    """What this transaction has left so far."""
    return connection.info.get(_KEY)


def take(connection: sa.Connection) -> object | None:
    """The same, and nothing is left there any more."""
    return connection.info.pop(_KEY, None)
