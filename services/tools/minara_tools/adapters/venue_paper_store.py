"""The paper venue's rows: statements and reads, inside a transaction of the caller."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from minara_core.actions import MoveKind, PlacedOrder, PlacedState
from minara_core.ids import UserId
from minara_core.money import add, canonical
from minara_runtime.statements import insert_if_absent, lock_row
from minara_tools.adapters.venue_paper_book import Fills
from minara_tools.adapters.venue_paper_orders import Recorded
from minara_tools.adapters.venue_paper_signing import stored_order
from minara_tools.adapters.venue_paper_tables import ACCOUNTS, BALANCES, FACTS, ORDERS, PRICES
from minara_tools.domain.action_json import canonical_json, order_to_json, read_json
from minara_tools.domain.venue_terms import Balance, FactKind, VenueAccount, VenueFact

PRIMARY = "spot"
PERPS = "perps"

_ACCOUNTS = (
    sa.select(ACCOUNTS.c.account, ACCOUNTS.c.purpose)
    .where(ACCOUNTS.c.user_id == sa.bindparam("person"))
    .order_by(ACCOUNTS.c.purpose.desc())  # spot before perps
)
_LOCK = sa.select(ACCOUNTS).where(ACCOUNTS.c.account == sa.bindparam("owner"))
_BALANCE = sa.select(BALANCES.c.available, BALANCES.c.held).where(
    BALANCES.c.account == sa.bindparam("owner"), BALANCES.c.asset == sa.bindparam("coin")
)
_BALANCES = (
    sa.select(BALANCES.c.asset, BALANCES.c.available, BALANCES.c.held)
    .where(BALANCES.c.account == sa.bindparam("owner"))
    .order_by(BALANCES.c.asset)
)
_SET_BALANCE = (
    sa.update(BALANCES)
    .where(BALANCES.c.account == sa.bindparam("owner"), BALANCES.c.asset == sa.bindparam("coin"))
    .values(available=sa.bindparam("free"), held=sa.bindparam("kept"))
)
_SET_COUNT = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.account == sa.bindparam("owner"))
    .values(fact_count=sa.bindparam("count"))
)
_IS_OWNER = ORDERS.c.account == sa.bindparam("owner")
_IS_OPEN = ORDERS.c.state == sa.literal(PlacedState.OPEN.value)
_ORDER = sa.select(ORDERS).where(_IS_OWNER, ORDERS.c.client_order_id == sa.bindparam("client"))
_OPEN_ORDERS = (
    sa.select(ORDERS)
    .where(_IS_OWNER, _IS_OPEN)
    .order_by(ORDERS.c.create_time, ORDERS.c.venue_order_id)
)
_CLOSED_ORDERS = (
    sa.select(ORDERS)
    .where(
        _IS_OWNER,
        ORDERS.c.kind == sa.literal(MoveKind.TRADE.value),
        ORDERS.c.end_time >= sa.bindparam("since"),
    )
    .order_by(ORDERS.c.end_time, ORDERS.c.venue_order_id)
)
_ALL_ORDERS = sa.select(ORDERS).order_by(ORDERS.c.create_time, ORDERS.c.venue_order_id)
_ACCOUNTS_WITH_OPEN_ORDERS = sa.select(ORDERS.c.account).where(_IS_OPEN).distinct()
_INSERT_ORDER = sa.insert(ORDERS)
_FACTS = (
    sa.select(FACTS)
    .where(FACTS.c.account == sa.bindparam("owner"), FACTS.c.fact_time >= sa.bindparam("since"))
    .order_by(FACTS.c.sequence)
)
_FACTS_OF_ORDER = (
    sa.select(FACTS)
    .where(
        FACTS.c.account == sa.bindparam("owner"),
        FACTS.c.client_order_id == sa.bindparam("client"),
    )
    .order_by(FACTS.c.sequence)
)
_INSERT_FACT = sa.insert(FACTS)
_PRICE = sa.select(PRICES).where(PRICES.c.symbol == sa.bindparam("market"))
_SET_PRICE = (
    sa.update(PRICES)
    .where(PRICES.c.symbol == sa.bindparam("market"))
    .values(
        price=sa.bindparam("now_price"),
        source=sa.bindparam("now_source"),
        price_time=sa.bindparam("now_time"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    account: str
    user_id: str
    purpose: str
    fact_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodPrice:
    """A reference price in the quote asset that was fit to trade at, and when it was."""

    price: Decimal
    source: str
    time: datetime


def accounts_of(connection: sa.Connection, user_id: UserId) -> tuple[VenueAccount, ...]:
    """The user's accounts, the primary one first; none before the first use."""
    rows = connection.execute(_ACCOUNTS, {"person": user_id}).all()
    return tuple(
        VenueAccount(account=row.account, purpose=row.purpose, is_primary=row.purpose == PRIMARY)
        for row in rows
    )


def insert_account(
    connection: sa.Connection, account: str, user_id: UserId, purpose: str, now: datetime
) -> bool:
    values = {
        "account": account,
        "user_id": user_id,
        "purpose": purpose,
        "fact_count": 0,
        "open_time": now,
    }
    return insert_if_absent(connection, ACCOUNTS, values)


def lock_account(connection: sa.Connection, account: str) -> AccountRow | None:
    """Lock the account until the transaction ends; None if there is none."""
    row = lock_row(connection, _LOCK, {"owner": account})
    if row is None:
        return None
    return AccountRow(
        account=row.account,
        user_id=row.user_id,
        purpose=row.purpose,
        fact_count=row.fact_count,
    )


def set_fact_count(connection: sa.Connection, account: str, count: int) -> None:
    connection.execute(_SET_COUNT, {"owner": account, "count": count})


def balances_of(connection: sa.Connection, account: str) -> tuple[Balance, ...]:
    rows = connection.execute(_BALANCES, {"owner": account}).all()
    return tuple(Balance(asset=row.asset, available=row.available, held=row.held) for row in rows)


def change_balance(
    connection: sa.Connection, account: str, asset: str, free: Decimal, held: Decimal
) -> None:
    """Add to what is free and to what is held."""
    zero = Decimal(0)
    key = {"account": account, "asset": asset}
    insert_if_absent(connection, BALANCES, key | {"available": zero, "held": zero})
    parameters = {"owner": account, "coin": asset}
    row = lock_row(connection, _BALANCE, parameters)
    assert row is not None
    sums = {"free": add(row.available, free), "kept": add(row.held, held)}
    connection.execute(_SET_BALANCE, parameters | sums)


def recorded_order(
    connection: sa.Connection, account: str, client_order_id: str
) -> tuple[str, Recorded] | None:
    """The JSON of the order that was placed under this id, and what came of it."""
    row = connection.execute(_ORDER, {"owner": account, "client": client_order_id}).first()
    return None if row is None else (row.order_json, _recorded(row))


def open_orders(connection: sa.Connection, account: str) -> tuple[Recorded, ...]:
    """Oldest first."""
    rows = connection.execute(_OPEN_ORDERS, {"owner": account}).all()
    return tuple(_recorded(row) for row in rows)


def closed_orders(
    connection: sa.Connection, account: str, since: datetime
) -> tuple[PlacedOrder, ...]:
    """Trades that ended at `since` or later, oldest end first."""
    rows = connection.execute(_CLOSED_ORDERS, {"owner": account, "since": since}).all()
    return tuple(_recorded(row).placed for row in rows)


def all_orders(connection: sa.Connection) -> tuple[tuple[str, MoveKind, PlacedOrder], ...]:
    """Every order, transfer, withdrawal and cancel of every account, with account and kind."""
    rows = connection.execute(_ALL_ORDERS).all()
    return tuple((row.account, MoveKind(row.kind), _recorded(row).placed) for row in rows)


def accounts_with_open_orders(connection: sa.Connection) -> tuple[str, ...]:
    return tuple(connection.execute(_ACCOUNTS_WITH_OPEN_ORDERS).scalars())


def insert_order(connection: sa.Connection, recorded: Recorded) -> None:
    order = recorded.order
    fixed = {
        "account": order.account,
        "client_order_id": recorded.placed.client_order_id,
        "venue_order_id": recorded.placed.venue_order_id,
        "kind": order.kind.value,
        "order_json": canonical_json(order_to_json(order)),
        "create_time": recorded.placed.create_time,
    }
    connection.execute(_INSERT_ORDER, fixed | _changing(recorded))


def update_order(connection: sa.Connection, recorded: Recorded) -> None:
    statement = (
        sa.update(ORDERS)
        .where(
            ORDERS.c.account == recorded.order.account,
            ORDERS.c.client_order_id == recorded.placed.client_order_id,
        )
        .values(**_changing(recorded))
    )
    connection.execute(statement)


def facts_since(connection: sa.Connection, account: str, since: datetime) -> tuple[VenueFact, ...]:
    rows = connection.execute(_FACTS, {"owner": account, "since": since}).all()
    return tuple(_fact(row) for row in rows)


def facts_of_order(
    connection: sa.Connection, account: str, client_order_id: str
) -> tuple[VenueFact, ...]:
    parameters = {"owner": account, "client": client_order_id}
    return tuple(_fact(row) for row in connection.execute(_FACTS_OF_ORDER, parameters))


def insert_fact(connection: sa.Connection, sequence: int, fact: VenueFact) -> None:
    changes = {asset: canonical(change) for asset, change in fact.changes.items()}
    connection.execute(
        _INSERT_FACT,
        {
            "account": fact.account,
            "sequence": sequence,
            "kind": fact.kind.value,
            "instrument": fact.instrument,
            "trade_id": fact.trade_id,
            "venue_order_id": fact.venue_order_id,
            "client_order_id": fact.client_order_id,
            "changes_json": canonical_json(changes),
            "quantity": fact.quantity,
            "price": fact.price,
            "counterparty": fact.counterparty,
            "fact_time": fact.time,
        },
    )


def good_price(connection: sa.Connection, symbol: str) -> GoodPrice | None:
    row = connection.execute(_PRICE, {"market": symbol}).first()
    if row is None:
        return None
    return GoodPrice(price=row.price, source=row.source, time=row.price_time)


def keep_price(connection: sa.Connection, symbol: str, good: GoodPrice) -> None:
    """Remember the price, unless a later one is known."""
    values = {
        "symbol": symbol,
        "price": good.price,
        "source": good.source,
        "price_time": good.time,
    }
    if insert_if_absent(connection, PRICES, values):
        return
    row = lock_row(connection, _PRICE, {"market": symbol})
    if row is not None and row.price_time <= good.time:
        parameters = {"now_price": good.price, "now_source": good.source, "now_time": good.time}
        connection.execute(_SET_PRICE, {"market": symbol} | parameters)


def _changing(recorded: Recorded) -> dict[str, Any]:
    placed = recorded.placed
    return {
        "state": placed.state.value,
        "reason": placed.reason,
        "filled_quantity": placed.filled_quantity,
        "average_price": placed.average_price,
        "spent": placed.spent,
        "spent_asset": placed.spent_asset,
        "received": placed.received,
        "received_asset": placed.received_asset,
        "fee": placed.fee,
        "fee_asset": placed.fee_asset,
        "exact_turnover": recorded.fills.turnover,
        "exact_fee": recorded.fills.fee,
        "held": recorded.held,
        "book_met": recorded.book_met,
        "end_time": recorded.end_time,
    }


def _recorded(row: sa.Row[Any]) -> Recorded:
    order = stored_order(row.order_json)
    placed = PlacedOrder(
        client_order_id=row.client_order_id,
        venue_order_id=row.venue_order_id,
        state=PlacedState(row.state),
        filled_quantity=row.filled_quantity,
        average_price=row.average_price,
        spent=row.spent,
        spent_asset=row.spent_asset,
        received=row.received,
        received_asset=row.received_asset,
        fee=row.fee,
        fee_asset=row.fee_asset,
        reason=row.reason,
        instrument=order.instrument.symbol,
        side=order.side,
        quantity=order.quantity,
        limit_price=order.limit_price,
        create_time=row.create_time,
    )
    return Recorded(
        order=order,
        placed=placed,
        fills=Fills(quantity=row.filled_quantity, turnover=row.exact_turnover, fee=row.exact_fee),
        held=row.held,
        book_met=row.book_met,
        end_time=row.end_time,
    )


def _fact(row: sa.Row[Any]) -> VenueFact:
    changes = {asset: Decimal(text) for asset, text in read_json(row.changes_json).items()}
    return VenueFact(
        kind=FactKind(row.kind),
        account=row.account,
        instrument=row.instrument,
        trade_id=row.trade_id,
        venue_order_id=row.venue_order_id,
        client_order_id=row.client_order_id,
        changes=changes,
        time=row.fact_time,
        quantity=row.quantity,
        price=row.price,
        counterparty=row.counterparty,
    )
