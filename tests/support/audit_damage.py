"""Every way to damage a chain, at any row of any user, by somebody who knows the code."""

from collections.abc import Mapping

import sqlalchemy as sa

from minara_runtime.audit_chain import GENESIS, record_hash
from minara_runtime.audit_tables import AUDIT_HEADS, AUDIT_PAYLOADS, AUDIT_RECORDS


def _at(user: str, sequence: int) -> sa.ColumnElement[bool]:
    return sa.and_(AUDIT_RECORDS.c.user_id == user, AUDIT_RECORDS.c.sequence == sequence)


def _row(connection: sa.Connection, user: str, sequence: int) -> dict[str, object]:
    found = connection.execute(sa.select(AUDIT_RECORDS).where(_at(user, sequence))).mappings().one()
    return {str(name): value for name, value in found.items()}


def _set(connection: sa.Connection, user: str, at: int, values: Mapping[str, object]) -> None:
    connection.execute(sa.update(AUDIT_RECORDS).where(_at(user, at)).values(dict(values)))


def _set_head(connection: sa.Connection, user: str, sequence: int, link: object) -> None:
    connection.execute(
        sa.update(AUDIT_HEADS)
        .where(AUDIT_HEADS.c.user_id == user)
        .values(sequence=sequence, record_hash=link)
    )


def change(connection: sa.Connection, user: str, sequence: int) -> None:
    """One field of one row."""
    _set(connection, user, sequence, {"outcome": "another"})


def change_payload(connection: sa.Connection, user: str, sequence: int) -> None:
    where = sa.and_(AUDIT_PAYLOADS.c.user_id == user, AUDIT_PAYLOADS.c.sequence == sequence)
    connection.execute(sa.update(AUDIT_PAYLOADS).where(where).values(payload_json="{}"))


def remove(connection: sa.Connection, user: str, sequence: int) -> None:
    connection.execute(sa.delete(AUDIT_RECORDS).where(_at(user, sequence)))


def swap_with_next(connection: sa.Connection, user: str, sequence: int) -> None:
    _set(connection, user, sequence, {"sequence": 9_999})
    _set(connection, user, sequence + 1, {"sequence": sequence})
    _set(connection, user, 9_999, {"sequence": sequence + 1})


def fork(connection: sa.Connection, user: str, sequence: int) -> None:
    """The row goes on from two rows before it, with a hash that fits."""
    row = _row(connection, user, sequence)
    row["previous_hash"] = (
        _row(connection, user, sequence - 2)["record_hash"] if sequence > 2 else GENESIS
    )
    row["record_hash"] = record_hash(row)
    _set(connection, user, sequence, row)


def cut_off(connection: sa.Connection, user: str, sequence: int) -> None:
    """The row and all behind it, and the head says so; from row 1 on nothing of the user stays."""
    of_user = AUDIT_RECORDS.c.user_id == user
    connection.execute(
        sa.delete(AUDIT_RECORDS).where(of_user, AUDIT_RECORDS.c.sequence >= sequence)
    )
    if sequence == 1:
        connection.execute(sa.delete(AUDIT_HEADS).where(AUDIT_HEADS.c.user_id == user))
    else:
        link = _row(connection, user, sequence - 1)["record_hash"]
        _set_head(connection, user, sequence - 1, link)


def write_anew(connection: sa.Connection, user: str, sequence: int) -> None:
    """Change the row and give it, all behind it and the head hashes that fit."""
    change(connection, user, sequence)
    count = sa.select(sa.func.count()).where(AUDIT_RECORDS.c.user_id == user)
    last = connection.execute(count).scalar_one()
    link = _row(connection, user, sequence - 1)["record_hash"] if sequence > 1 else GENESIS
    for at in range(sequence, last + 1):
        row = _row(connection, user, at) | {"previous_hash": link}
        link = record_hash(row)
        _set(connection, user, at, row | {"record_hash": link})
    _set_head(connection, user, last, link)


def erase(connection: sa.Connection, user: str, sequence: int) -> None:
    where = sa.and_(AUDIT_PAYLOADS.c.user_id == user, AUDIT_PAYLOADS.c.sequence == sequence)
    connection.execute(sa.delete(AUDIT_PAYLOADS).where(where))
