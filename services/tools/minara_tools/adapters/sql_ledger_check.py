"""Reads whole books for `minara ledger check`."""

from decimal import Decimal

import sqlalchemy as sa

from minara_core.actions import ActionState
from minara_core.ids import UserId
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_tools.adapters.sql_fund_rows import operation_from
from minara_tools.adapters.sql_fund_tables import (
    ENTRIES,
    LEDGER_BALANCES,
    OPERATIONS,
    POSTINGS,
)
from minara_tools.adapters.sql_tables import PENDING_ACTIONS
from minara_tools.domain.ledger_check import Books
from minara_tools.domain.postings import Entry, LedgerAccount, Posting, PostingKind

_OPERATION_AUDIT = (
    sa.select(AUDIT_RECORDS.c.subject)
    .join(OPERATIONS, OPERATIONS.c.operation_id == AUDIT_RECORDS.c.subject)
    .distinct()
)


def read_books(connection: sa.Connection, user_id: UserId | None = None) -> Books:
    """One person's books, or all. Postings with their entries, in the order they were booked."""
    return Books(
        postings=_postings(connection, user_id),
        balances=_balances(connection, user_id),
        operations=[
            operation_from(row)
            for row in connection.execute(_of(sa.select(OPERATIONS), OPERATIONS, user_id))
            .mappings()
            .all()
        ],
        actions={
            row.pending_action_id: ActionState(row.state)
            for row in connection.execute(
                _of(
                    sa.select(PENDING_ACTIONS.c.pending_action_id, PENDING_ACTIONS.c.state),
                    PENDING_ACTIONS,
                    user_id,
                )
            )
        },
        audited=frozenset(connection.execute(_OPERATION_AUDIT).scalars()),
    )


def _postings(connection: sa.Connection, user_id: UserId | None) -> list[Posting]:
    entries: dict[int, list[Entry]] = {}
    for row in connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.position)):
        entries.setdefault(row.posting, []).append(
            Entry(
                account=row.account,
                ledger_account=LedgerAccount(row.ledger_account),
                asset=row.asset,
                amount=row.amount,
            )
        )
    found = connection.execute(
        _of(sa.select(POSTINGS).order_by(POSTINGS.c.position), POSTINGS, user_id)
    )
    return [
        Posting(
            kind=PostingKind(row.kind),
            venue=row.venue,
            account=row.account,
            instrument=row.instrument,
            trade_id=row.trade_id,
            order_id=row.order_id,
            operation_id=row.operation_id,
            time=row.time,
            entries=tuple(entries.get(row.position, ())),
            client_order_id=row.client_order_id,
            quantity=row.quantity,
            price=row.price,
        )
        for row in found
    ]


def _balances(
    connection: sa.Connection, user_id: UserId | None
) -> dict[tuple[str, str, LedgerAccount, str], Decimal]:
    statement = sa.select(LEDGER_BALANCES)
    if user_id is not None:
        own = sa.select(POSTINGS.c.account).where(POSTINGS.c.user_id == user_id)
        statement = statement.where(LEDGER_BALANCES.c.account.in_(own))
    return {
        (row.venue, row.account, LedgerAccount(row.ledger_account), row.asset): row.amount
        for row in connection.execute(statement)
    }


def _of(
    statement: sa.Select[*tuple[object, ...]], table: sa.Table, user_id: UserId | None
) -> sa.Select[*tuple[object, ...]]:
    return statement if user_id is None else statement.where(table.c.user_id == user_id)
