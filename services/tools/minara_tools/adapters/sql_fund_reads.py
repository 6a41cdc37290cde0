"""Operations and booked facts, read beside the ledger."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from minara_core.ids import UserId
from minara_runtime.database import Database
from minara_runtime.statements import one_of
from minara_tools.adapters.sql_fund_rows import operation_from
from minara_tools.adapters.sql_fund_tables import ENTRIES, OPERATIONS, POSTINGS
from minara_tools.app.fund_reads import BookedFacts
from minara_tools.domain.operations import Operation
from minara_tools.domain.postings import Entry, LedgerAccount, Posting, PostingKind

MOST_FACTS = 20_000

_OWN_KINDS = frozenset({PostingKind.HOLD, PostingKind.RELEASE})
_FACTS = tuple(kind.value for kind in PostingKind if kind not in _OWN_KINDS)
_OPERATIONS = (
    sa.select(OPERATIONS)
    .where(OPERATIONS.c.user_id == sa.bindparam("person"))
    .order_by(OPERATIONS.c.position.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_LATEST = (
    sa.select(POSTINGS)
    .where(POSTINGS.c.user_id == sa.bindparam("person"), one_of(POSTINGS.c.kind, _FACTS))
    .order_by(POSTINGS.c.position.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_FILLS = (
    sa.select(POSTINGS)
    .where(
        POSTINGS.c.user_id == sa.bindparam("person"),
        one_of(POSTINGS.c.kind, (PostingKind.FILL.value, PostingKind.FEE.value)),
        POSTINGS.c.client_order_id != "",
    )
    .order_by(POSTINGS.c.position.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_ENTRIES = (
    sa.select(ENTRIES)
    .join(POSTINGS, POSTINGS.c.position == ENTRIES.c.posting)
    .where(
        POSTINGS.c.user_id == sa.bindparam("person"),
        ENTRIES.c.posting >= sa.bindparam("first"),
        one_of(POSTINGS.c.kind, _FACTS),
    )
    .order_by(ENTRIES.c.position)
)


class SqlFundReads:
    """Implements FundReads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def operations(self, user_id: UserId, limit: int) -> tuple[Operation, ...]:
        given = {"person": user_id, "most": limit}

        def look(connection: sa.Connection) -> tuple[Operation, ...]:
            rows = connection.execute(_OPERATIONS, given).mappings()
            return tuple(operation_from(row) for row in rows)

        return await self._database.read(look)

    async def fills(self, user_id: UserId, limit: int) -> BookedFacts:
        return await self._database.read(lambda c: _facts(c, _FILLS, user_id, 2 * limit))

    async def facts(self, user_id: UserId) -> BookedFacts:
        return await self._database.read(lambda c: _facts(c, _LATEST, user_id, MOST_FACTS))


def _facts(
    connection: sa.Connection, statement: sa.Select[Any], user_id: UserId, most: int
) -> BookedFacts:
    rows = connection.execute(statement, {"person": user_id, "most": most + 1}).mappings().all()
    kept = rows[:most][::-1]
    entries = _entries(connection, user_id, kept[0]["position"]) if kept else {}
    return BookedFacts(
        postings=tuple(_posting(row, entries.get(row["position"], ())) for row in kept),
        is_complete=len(rows) <= most,
    )


def _entries(
    connection: sa.Connection, user_id: UserId, first: int
) -> dict[int, tuple[Entry, ...]]:
    found: dict[int, tuple[Entry, ...]] = {}
    for row in connection.execute(_ENTRIES, {"person": user_id, "first": first}):
        entry = Entry(
            account=row.account,
            ledger_account=LedgerAccount(row.ledger_account),
            asset=row.asset,
            amount=row.amount,
        )
        found[row.posting] = (*found.get(row.posting, ()), entry)
    return found


def _posting(row: Any, entries: Sequence[Entry]) -> Posting:
    return Posting(
        kind=PostingKind(row["kind"]),
        venue=row["venue"],
        account=row["account"],
        instrument=row["instrument"],
        trade_id=row["trade_id"],
        order_id=row["order_id"],
        operation_id=row["operation_id"],
        time=row["time"],
        entries=tuple(entries),
        client_order_id=row["client_order_id"],
        quantity=row["quantity"],
        price=row["price"],
    )
