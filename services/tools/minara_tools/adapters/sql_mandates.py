"""Mandates as they were confirmed; a revocation is a fact with its audit row, in one commit."""

import json
from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from minara_core.actions import Side, TradingMode
from minara_core.audit import AuditRecord
from minara_core.ids import UserId
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_runtime.statements import database_time, insert_if_absent
from minara_tools.adapters.sql_limit_tables import MANDATES
from minara_tools.adapters.sql_limits import Now
from minara_tools.domain.mandates import Mandate

_ONE = sa.select(MANDATES).where(
    MANDATES.c.user_id == sa.bindparam("of_user"), MANDATES.c.mandate_id == sa.bindparam("of_id")
)
_IN_FORCE = (
    sa.select(MANDATES)
    .where(
        MANDATES.c.user_id == sa.bindparam("of_user"),
        MANDATES.c.end_time > sa.bindparam("now", type_=MANDATES.c.end_time.type),
        MANDATES.c.revoke_time.is_(None),
    )
    .order_by(MANDATES.c.create_time, MANDATES.c.mandate_id)
)
_LOCKED = _IN_FORCE.with_for_update()
_REVOKE = (
    sa.update(MANDATES)
    .where(MANDATES.c.mandate_id == sa.bindparam("of_id"))
    .values(revoke_time=sa.bindparam("now"), revoke_reason=sa.bindparam("why"))
)
_LONGEST_REASON = 200


def mandates_in_force(
    connection: sa.Connection, user_id: str, now: datetime
) -> tuple[Mandate, ...]:
    """A user's mandates that are neither over nor revoked, oldest first."""
    rows = connection.execute(_IN_FORCE, {"of_user": user_id, "now": now}).all()
    return tuple(_mandate(row) for row in rows)


def revoke_mandates(
    connection: sa.Connection,
    user_id: str,
    *,
    reason: str,
    now: datetime,
    audit: Callable[[Mandate, datetime], AuditRecord],
    mandate_id: str | None = None,
) -> tuple[str, ...]:
    """Take back one mandate or all; a halt does it in its own transaction."""
    rows = connection.execute(_LOCKED, {"of_user": user_id, "now": now}).all()
    found = [m for m in map(_mandate, rows) if mandate_id in {None, m.mandate_id}]
    for mandate in found:
        connection.execute(
            _REVOKE,
            {"of_id": mandate.mandate_id, "now": now, "why": reason[:_LONGEST_REASON]},
        )
    audit_chain.append(connection, [audit(mandate, now) for mandate in found])
    return tuple(mandate.mandate_id for mandate in found)


class SqlMandates:
    """Implements MandateStore."""

    def __init__(self, database: Database, now: Now = database_time) -> None:
        self._database = database
        self._now = now

    async def add(self, mandate: Mandate, audit: AuditRecord) -> None:
        def write(connection: sa.Connection) -> None:
            if insert_if_absent(connection, MANDATES, _row(mandate)):
                audit_chain.append(connection, [audit])

        await self._database.transaction(write)

    async def find(self, user_id: UserId, mandate_id: str) -> Mandate | None:
        of_mandate = {"of_user": user_id, "of_id": mandate_id}
        row = await self._database.read(lambda c: c.execute(_ONE, of_mandate).first())
        return None if row is None else _mandate(row)

    async def in_force(self, user_id: UserId, now: datetime) -> tuple[Mandate, ...]:
        return await self._database.read(lambda c: mandates_in_force(c, user_id, now))

    async def revoke(
        self,
        user_id: UserId,
        reason: str,
        audit: Callable[[Mandate, datetime], AuditRecord],
        *,
        mandate_id: str | None = None,
    ) -> tuple[str, ...]:
        return await self._database.transaction(
            lambda c: revoke_mandates(
                c, user_id, reason=reason, now=self._now(c), audit=audit, mandate_id=mandate_id
            )
        )


def _row(mandate: Mandate) -> dict[str, object]:
    return {
        "mandate_id": mandate.mandate_id,
        "user_id": mandate.user_id,
        "strategy": mandate.strategy,
        "definition_hash": mandate.definition_hash,
        "mode": mandate.mode.value,
        "account": mandate.account,
        "instruments_json": json.dumps(sorted(mandate.instruments)),
        "sides_json": json.dumps(sorted(side.value for side in mandate.sides)),
        "max_per_move": mandate.max_per_move,
        "max_per_day": mandate.max_per_day,
        "max_total": mandate.max_total,
        "max_loss": mandate.max_loss,
        "create_time": mandate.create_time,
        "end_time": mandate.end_time,
        "revoke_time": mandate.revoke_time,
        "revoke_reason": mandate.revoke_reason,
    }


def _mandate(row: sa.Row[*tuple[object, ...]]) -> Mandate:
    return Mandate(
        mandate_id=row.mandate_id,
        user_id=UserId(row.user_id),
        strategy=row.strategy,
        definition_hash=row.definition_hash,
        mode=TradingMode(row.mode),
        account=row.account,
        instruments=frozenset(json.loads(row.instruments_json)),
        sides=frozenset(Side(side) for side in json.loads(row.sides_json)),
        max_per_move=row.max_per_move,
        max_per_day=row.max_per_day,
        max_total=row.max_total,
        max_loss=row.max_loss,
        create_time=row.create_time,
        end_time=row.end_time,
        revoke_time=row.revoke_time,
        revoke_reason=row.revoke_reason,
    )
