"""The paper venue's rows: accounts, balances and orders, inside a transaction of the caller.

Locks are always taken in one order: the person's account, then the venue's balances by asset.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.actions import PlacedOrder, PlacedState
from minara_core.ids import UserId
from minara_core.money import add, subtract
from minara_runtime.statements import insert_if_absent, lock_row
from minara_tools.adapters.venue_paper_tables import ACCOUNTS, BALANCES, ORDERS
from minara_tools.app.ports import Balance

HOUSE = "house"
"""The venue's own account: the other side of every posting, so that all sums are zero."""

_ACCOUNT = sa.select(ACCOUNTS.c.account).where(ACCOUNTS.c.user_id == sa.bindparam("person"))
_LOCK = sa.select(ACCOUNTS.c.account).where(ACCOUNTS.c.account == sa.bindparam("owner"))
_BALANCE = sa.select(BALANCES.c.available).where(
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
    .values(available=sa.bindparam("amount"))
)
_ORDER = sa.select(ORDERS).where(
    ORDERS.c.account == sa.bindparam("owner"), ORDERS.c.client_order_id == sa.bindparam("client")
)
_INSERT_ORDER = sa.insert(ORDERS)


def account_of(connection: sa.Connection, user_id: UserId) -> str | None:
    return connection.execute(_ACCOUNT, {"person": user_id}).scalar()


def open_account(
    connection: sa.Connection,
    account: str,
    user_id: UserId,
    starting: Mapping[str, Decimal],
    now: datetime,
) -> None:
    """Open the user's account with its starting balances, unless they have one."""
    values = {"account": account, "user_id": user_id, "open_time": now}
    if insert_if_absent(connection, ACCOUNTS, values):
        post(connection, account, starting)


def lock_account(connection: sa.Connection, account: str) -> bool:
    """Lock the account until the transaction ends; false if there is none."""
    return lock_row(connection, _LOCK, {"owner": account}) is not None


def balances_of(connection: sa.Connection, account: str) -> tuple[Balance, ...]:
    rows = connection.execute(_BALANCES, {"owner": account}).all()
    return tuple(Balance(asset=row.asset, available=row.available, held=row.held) for row in rows)


def available(connection: sa.Connection, account: str, asset: str) -> Decimal:
    found = connection.execute(_BALANCE, {"owner": account, "coin": asset}).scalar()
    return Decimal(0) if found is None else found


def post(connection: sa.Connection, account: str, changes: Mapping[str, Decimal]) -> None:
    """Add `changes` to the account and take them from the house. The account is locked."""
    for asset, change in sorted(changes.items()):
        if change == 0:
            continue
        _add(connection, account, asset, change)
        _add(connection, HOUSE, asset, subtract(Decimal(0), change))


def _add(connection: sa.Connection, account: str, asset: str, change: Decimal) -> None:
    key = {"account": account, "asset": asset}
    insert_if_absent(connection, BALANCES, key | {"available": Decimal(0), "held": Decimal(0)})
    parameters = {"owner": account, "coin": asset}
    row = lock_row(connection, _BALANCE, parameters)
    standing = Decimal(0) if row is None else row.available
    connection.execute(_SET_BALANCE, parameters | {"amount": add(standing, change)})


def recorded_order(
    connection: sa.Connection, account: str, client_order_id: str
) -> tuple[str, PlacedOrder] | None:
    """The JSON of the order that was placed under this id, and what came of it."""
    row = connection.execute(_ORDER, {"owner": account, "client": client_order_id}).first()
    if row is None:
        return None
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
    )
    return row.order_json, placed


def record_order(
    connection: sa.Connection, account: str, order_json: str, placed: PlacedOrder, now: datetime
) -> None:
    connection.execute(
        _INSERT_ORDER,
        {
            "account": account,
            "client_order_id": placed.client_order_id,
            "venue_order_id": placed.venue_order_id,
            "order_json": order_json,
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
            "place_time": now,
        },
    )
