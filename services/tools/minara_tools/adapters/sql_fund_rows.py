"""Operations, postings and balances as rows, inside somebody's money transaction."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from minara_core.ids import UserId
from minara_core.money import add
from minara_runtime.statements import insert_if_absent
from minara_tools.adapters.sql_fund_tables import (
    ENTRIES,
    LEDGER_BALANCES,
    OPERATIONS,
    POSTINGS,
)
from minara_tools.app.fund_ledger import BookKey
from minara_tools.domain.action_json import (
    canonical_json,
    order_from_json,
    order_to_json,
    read_json,
)
from minara_tools.domain.operations import Operation, OperationEnd, OperationState
from minara_tools.domain.postings import Entry, LedgerAccount, Posting
from minara_tools.domain.venue_terms import VenueFact

_BY_ID = sa.select(OPERATIONS).where(OPERATIONS.c.operation_id == sa.bindparam("operation"))
_BY_CLIENT_IDS = sa.select(OPERATIONS).where(
    OPERATIONS.c.user_id == sa.bindparam("person"),
    OPERATIONS.c.venue == sa.bindparam("at_venue"),
    OPERATIONS.c.client_order_id.in_(sa.bindparam("clients", expanding=True)),
)
_CHANGING = (
    "state",
    "order_end",
    "reason",
    "hold_left",
    "filled_quantity",
    "venue_order_id",
    "sender",
    "epoch",
    "absent_polls",
    "update_time",
    "sign_time",
    "not_after",
    "sent_time",
    "last_poll_time",
)
_UPDATE = (
    sa.update(OPERATIONS)
    .where(OPERATIONS.c.operation_id == sa.bindparam("operation"))
    .values({name: sa.bindparam(f"to_{name}") for name in _CHANGING})
)
_POSTING_POSITION = sa.select(POSTINGS.c.position).where(
    POSTINGS.c.venue == sa.bindparam("at_venue"),
    POSTINGS.c.account == sa.bindparam("of_account"),
    POSTINGS.c.instrument == sa.bindparam("of_instrument"),
    POSTINGS.c.trade_id == sa.bindparam("trade"),
    POSTINGS.c.order_id == sa.bindparam("of_order"),
    POSTINGS.c.kind == sa.bindparam("of_kind"),
)
_INSERT_ENTRY = sa.insert(ENTRIES)
_BALANCES = sa.select(LEDGER_BALANCES).where(
    LEDGER_BALANCES.c.venue == sa.bindparam("at_venue"),
    LEDGER_BALANCES.c.account == sa.bindparam("of_account"),
)
_BALANCE = sa.select(LEDGER_BALANCES.c.amount).where(
    LEDGER_BALANCES.c.venue == sa.bindparam("at_venue"),
    LEDGER_BALANCES.c.account == sa.bindparam("of_account"),
    LEDGER_BALANCES.c.ledger_account == sa.bindparam("book"),
    LEDGER_BALANCES.c.asset == sa.bindparam("coin"),
)
_SET_BALANCE = (
    sa.update(LEDGER_BALANCES)
    .where(
        LEDGER_BALANCES.c.venue == sa.bindparam("at_venue"),
        LEDGER_BALANCES.c.account == sa.bindparam("of_account"),
        LEDGER_BALANCES.c.ledger_account == sa.bindparam("book"),
        LEDGER_BALANCES.c.asset == sa.bindparam("coin"),
    )
    .values(amount=sa.bindparam("to_amount"))
)


def operation_of(connection: sa.Connection, operation_id: str) -> Operation | None:
    row = connection.execute(_BY_ID, {"operation": operation_id}).mappings().first()
    return None if row is None else operation_from(row)


def operations_of_facts(
    connection: sa.Connection, user_id: UserId, venue: str, facts: Iterable[VenueFact]
) -> dict[str, Operation]:
    """The person's operations that caused facts, by client id."""
    clients = sorted({fact.client_order_id for fact in facts if fact.client_order_id})
    if not clients:
        return {}
    parameters = {"person": user_id, "at_venue": venue, "clients": clients}
    rows = connection.execute(_BY_CLIENT_IDS, parameters).mappings()
    return {row["client_order_id"]: operation_from(row) for row in rows}


def write_operation(connection: sa.Connection, operation: Operation) -> None:
    """Insert a new operation, or write what has changed of a known one."""
    values = _values(operation)
    if insert_if_absent(connection, OPERATIONS, values):
        return
    changed = {f"to_{name}": values[name] for name in _CHANGING}
    connection.execute(_UPDATE, changed | {"operation": operation.operation_id})


def book_posting(
    connection: sa.Connection, user_id: UserId, posting: Posting, now: datetime
) -> bool:
    """Write a posting with its entries and move the balances; false when it is booked already."""
    row = {
        "user_id": user_id,
        "venue": posting.venue,
        "account": posting.account,
        "instrument": posting.instrument,
        "trade_id": posting.trade_id,
        "order_id": posting.order_id,
        "kind": posting.kind.value,
        "operation_id": posting.operation_id,
        "client_order_id": posting.client_order_id,
        "quantity": posting.quantity,
        "price": posting.price,
        "time": posting.time,
        "book_time": now,
    }
    if not insert_if_absent(connection, POSTINGS, row):
        return False
    position = connection.execute(
        _POSTING_POSITION,
        {
            "at_venue": posting.venue,
            "of_account": posting.account,
            "of_instrument": posting.instrument,
            "trade": posting.trade_id,
            "of_order": posting.order_id,
            "of_kind": posting.kind.value,
        },
    ).scalar_one()
    for entry in posting.entries:
        _write_entry(connection, posting.venue, position, entry)
    return True


def is_booked(connection: sa.Connection, venue: str, fact: VenueFact) -> bool:
    """Whether a fact has its posting."""
    key = {
        "at_venue": venue,
        "of_account": fact.account,
        "of_instrument": fact.instrument,
        "trade": fact.trade_id,
        "of_order": fact.venue_order_id,
        "of_kind": fact.kind.value,
    }
    return connection.execute(_POSTING_POSITION, key).first() is not None


def balances_of(connection: sa.Connection, venue: str, account: str) -> Mapping[BookKey, Decimal]:
    rows = connection.execute(_BALANCES, {"at_venue": venue, "of_account": account})
    return {(LedgerAccount(row.ledger_account), row.asset): row.amount for row in rows}


def _write_entry(connection: sa.Connection, venue: str, posting: int, entry: Entry) -> None:
    key = {
        "venue": venue,
        "account": entry.account,
        "ledger_account": entry.ledger_account.value,
        "asset": entry.asset,
    }
    connection.execute(_INSERT_ENTRY, key | {"posting": posting, "amount": entry.amount})
    if insert_if_absent(connection, LEDGER_BALANCES, key | {"amount": entry.amount}):
        return
    parameters = {
        "at_venue": venue,
        "of_account": entry.account,
        "book": entry.ledger_account.value,
        "coin": entry.asset,
    }
    standing = connection.execute(_BALANCE, parameters).scalar_one()
    connection.execute(_SET_BALANCE, parameters | {"to_amount": add(standing, entry.amount)})


def _values(operation: Operation) -> dict[str, Any]:
    order = operation.order
    return {
        "operation_id": operation.operation_id,
        "user_id": operation.user_id,
        "venue": order.venue,
        "account": order.account,
        "client_order_id": operation.client_order_id,
        "order_json": canonical_json(order_to_json(order)),
        "state": operation.state.value,
        "order_end": operation.end.value,
        "reason": operation.reason,
        "is_exit": operation.is_exit,
        "notional_usd": operation.notional_usd,
        "hold_asset": operation.hold_asset,
        "hold_amount": operation.hold_amount,
        "hold_left": operation.hold_left,
        "filled_quantity": operation.filled_quantity,
        "venue_order_id": operation.venue_order_id,
        "sender": operation.sender,
        "epoch": operation.epoch,
        "absent_polls": operation.absent_polls,
        "create_time": operation.create_time,
        "update_time": operation.update_time,
        "sign_time": operation.sign_time,
        "not_after": operation.not_after,
        "sent_time": operation.sent_time,
        "last_poll_time": operation.last_poll_time,
    }


def operation_from(row: Any) -> Operation:
    return Operation(
        operation_id=row["operation_id"],
        user_id=UserId(row["user_id"]),
        client_order_id=row["client_order_id"],
        order=order_from_json(read_json(row["order_json"])),
        state=OperationState(row["state"]),
        is_exit=row["is_exit"],
        notional_usd=row["notional_usd"],
        hold_asset=row["hold_asset"],
        hold_amount=row["hold_amount"],
        hold_left=row["hold_left"],
        sender=row["sender"],
        epoch=row["epoch"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        sign_time=row["sign_time"],
        not_after=row["not_after"],
        sent_time=row["sent_time"],
        end=OperationEnd(row["order_end"]),
        reason=row["reason"],
        filled_quantity=row["filled_quantity"],
        venue_order_id=row["venue_order_id"],
        absent_polls=row["absent_polls"],
        last_poll_time=row["last_poll_time"],
    )
