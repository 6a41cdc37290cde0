"""Limits and locked pairs; every change of a limit with its audit row, in one commit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.audit import AuditRecord
from minara_core.ids import UserId
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_runtime.statements import database_time, insert_if_absent, lock_row
from minara_tools.adapters.sql_fund_tables import OPERATIONS
from minara_tools.adapters.sql_limit_tables import FUND_LIMITS, LIMIT_CHANGES, PAIR_LOCKS
from minara_tools.domain.limits import (
    LIMIT_NAMES,
    STANDARD,
    Limits,
    LimitsRecord,
    PendingRaise,
    changed,
    limits_from,
    settled,
    values_of,
)
from minara_tools.domain.operations import OperationState

Now = Callable[[sa.Connection], datetime]

PENDING, EFFECTIVE, CANCELLED = "pending", "effective", "cancelled"

_LIMITS = sa.select(FUND_LIMITS).where(FUND_LIMITS.c.user_id == sa.bindparam("of_user"))
_RAISES = (
    sa.select(LIMIT_CHANGES)
    .where(LIMIT_CHANGES.c.user_id == sa.bindparam("of_user"), LIMIT_CHANGES.c.state == PENDING)
    .order_by(LIMIT_CHANGES.c.position)
)
_SET = (
    sa.update(FUND_LIMITS)
    .where(FUND_LIMITS.c.user_id == sa.bindparam("of_user"))
    .values({name: sa.bindparam(name) for name in LIMIT_NAMES})
    .values(is_chosen=True, update_time=sa.bindparam("now"))
)
_END_RAISE = (
    sa.update(LIMIT_CHANGES)
    .where(
        LIMIT_CHANGES.c.user_id == sa.bindparam("of_user"),
        LIMIT_CHANGES.c.limit_name == sa.bindparam("of_limit"),
        LIMIT_CHANGES.c.state == PENDING,
    )
    .values(state=sa.bindparam("to_state"))
)
_NOTE = sa.insert(LIMIT_CHANGES)
_ANY_MOVE = (
    sa.select(OPERATIONS.c.position)
    .where(
        OPERATIONS.c.user_id == sa.bindparam("of_user"),
        OPERATIONS.c.state != OperationState.VOIDED.value,
    )
    .limit(1)
)
_LOCKS = sa.select(PAIR_LOCKS).where(
    PAIR_LOCKS.c.user_id == sa.bindparam("of_user"), PAIR_LOCKS.c.venue == sa.bindparam("of_venue")
)
_LATER_LOCK = (
    sa.update(PAIR_LOCKS)
    .where(
        PAIR_LOCKS.c.user_id == sa.bindparam("of_user"),
        PAIR_LOCKS.c.venue == sa.bindparam("of_venue"),
        PAIR_LOCKS.c.instrument == sa.bindparam("of_instrument"),
    )
    .values(reason=sa.bindparam("why"), until_time=sa.bindparam("until"))
)


def limits_of(connection: sa.Connection, user_id: str, now: datetime) -> Limits:
    """What holds for a user at `now`."""
    return limits_record(connection, user_id, now).limits


def limits_record(connection: sa.Connection, user_id: str, now: datetime) -> LimitsRecord:
    """A user's limits at `now`, and the raises that wait."""
    of_user = {"of_user": user_id}
    row = connection.execute(_LIMITS, of_user).first()
    return _record(row, connection.execute(_RAISES, of_user).all(), now)


def first_limits(user_id: str) -> dict[str, object]:
    """The row of a user who has not chosen: the standard limits."""
    return {**asdict(STANDARD), "user_id": user_id, "is_chosen": False, "update_time": None}


def pair_locks_of(connection: sa.Connection, user_id: str, venue: str) -> Mapping[str, datetime]:
    """Until when each instrument is locked for a user, also where that time is over."""
    rows = connection.execute(_LOCKS, {"of_user": user_id, "of_venue": venue})
    return {row.instrument: row.until_time for row in rows}


def lock_pair(
    connection: sa.Connection,
    user_id: str,
    venue: str,
    instrument: str,
    *,
    until: datetime,
    reason: str,
) -> None:
    """Lock an instrument for a user until then; an older lock gives way."""
    row = {
        "user_id": user_id,
        "venue": venue,
        "instrument": instrument,
        "reason": reason,
        "until_time": until,
    }
    if not insert_if_absent(connection, PAIR_LOCKS, row):
        of_lock = {"of_user": user_id, "of_venue": venue, "of_instrument": instrument}
        connection.execute(_LATER_LOCK, of_lock | {"why": reason, "until": until})


class SqlLimits:
    """Implements LimitStore."""

    def __init__(self, database: Database, now: Now = database_time) -> None:
        self._database = database
        self._now = now

    async def find(self, user_id: UserId) -> LimitsRecord:
        return await self._database.read(lambda c: limits_record(c, user_id, self._now(c)))

    async def update(
        self,
        user_id: UserId,
        wanted: Mapping[str, Decimal],
        audit: Callable[[LimitsRecord, LimitsRecord, datetime], AuditRecord],
    ) -> LimitsRecord:
        def write(connection: sa.Connection) -> LimitsRecord:
            insert_if_absent(connection, FUND_LIMITS, first_limits(user_id))
            of_user = {"of_user": user_id}
            row = lock_row(connection, _LIMITS, of_user)
            now = self._now(connection)
            raises = connection.execute(_RAISES, of_user).all()
            before = _record(row, raises, now)
            has_moved = connection.execute(_ANY_MOVE, of_user).first() is not None
            after = changed(before, wanted, now, has_moved=has_moved)
            if _is_same(before, after):
                return before
            _write(connection, user_id, before, after, now, stored=_raises(raises))
            audit_chain.append(connection, [audit(before, after, now)])
            return after

        return await self._database.transaction(write)


def _is_same(before: LimitsRecord, after: LimitsRecord) -> bool:
    return (before.limits, before.raises, before.is_chosen) == (
        after.limits,
        after.raises,
        after.is_chosen,
    )


def _write(
    connection: sa.Connection,
    user_id: str,
    before: LimitsRecord,
    after: LimitsRecord,
    now: datetime,
    *,
    stored: tuple[PendingRaise, ...],
) -> None:
    values = asdict(after.limits)
    connection.execute(_SET, {"of_user": user_id, "now": now, **values})
    for one in stored:
        if one not in after.raises:
            is_due = one not in before.raises
            state = EFFECTIVE if is_due else CANCELLED
            connection.execute(
                _END_RAISE, {"of_user": user_id, "of_limit": one.limit, "to_state": state}
            )
    old, new = values_of(before.limits), values_of(after.limits)
    notes = [
        _note(user_id, name, old[name], new[name], EFFECTIVE, now, now)
        for name in LIMIT_NAMES
        if old[name] != new[name]
    ]
    notes += [
        _note(user_id, one.limit, old[one.limit], one.value, PENDING, now, one.effective_time)
        for one in after.raises
        if one not in before.raises
    ]
    if notes:
        connection.execute(_NOTE, notes)


def _note(
    user_id: str,
    name: str,
    old: Decimal,
    new: Decimal,
    state: str,
    now: datetime,
    effective_time: datetime,
) -> dict[str, object]:
    return {
        "user_id": user_id,
        "limit_name": name,
        "old_value": old,
        "new_value": new,
        "state": state,
        "create_time": now,
        "effective_time": effective_time,
    }


def _record(
    row: sa.Row[*tuple[object, ...]] | None,
    raises: Sequence[sa.Row[*tuple[object, ...]]],
    now: datetime,
) -> LimitsRecord:
    if row is None:
        return LimitsRecord()
    stored = LimitsRecord(
        limits=limits_from({name: Decimal(getattr(row, name)) for name in LIMIT_NAMES}),
        raises=_raises(raises),
        is_chosen=row.is_chosen,
        update_time=row.update_time,
    )
    return settled(stored, now)


def _raises(rows: Sequence[sa.Row[*tuple[object, ...]]]) -> tuple[PendingRaise, ...]:
    return tuple(
        PendingRaise(limit=row.limit_name, value=row.new_value, effective_time=row.effective_time)
        for row in rows
    )
