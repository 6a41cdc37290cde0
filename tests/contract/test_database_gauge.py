"""What the databases tell of themselves while they work."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_runtime.database import Database
from minara_tools.adapters.operation_counts import OperationCounts
from minara_tools.adapters.sql_fund_tables import OPERATIONS
from minara_tools.domain.operations import OperationState
from minara_tools.main import VERSIONS
from support.databases import Databases

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def in_use(database: Database) -> float:
    ((used, labels),) = database.gauge("tools").read()
    assert labels == {
        "db.client.connection.pool.name": "tools",
        "db.client.connection.state": "used",
    }
    return used


def insert(number: int, state: str) -> Callable[[sa.Connection], None]:
    values = {
        **dict.fromkeys(
            ["order_json", "order_end", "reason", "hold_asset", "venue_order_id", "sender"], ""
        ),
        **dict.fromkeys(
            ["notional_usd", "hold_amount", "hold_left", "filled_quantity"], Decimal(0)
        ),
        **dict.fromkeys(["create_time", "update_time"], NOW),
        "operation_id": str(number),
        "user_id": "ada",
        "venue": "paper",
        "account": "main",
        "client_order_id": str(number),
        "state": state,
        "is_exit": False,
        "epoch": 1,
        "absent_polls": 0,
    }

    def fn(connection: sa.Connection) -> None:
        connection.execute(sa.insert(OPERATIONS), values)

    return fn


async def test_a_connection_counts_as_long_as_it_is_in_use(database: Database) -> None:
    seen: list[float] = []

    def look(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT 1"))
        seen.append(in_use(database))

    assert in_use(database) == 0
    await database.transaction(look)
    await database.read(look)
    assert seen == [1, 1]
    assert in_use(database) == 0


async def test_unsettled_operations_are_counted_by_state(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    counts = OperationCounts(database)
    assert list(counts.gauge().read()) == [], "nothing is told before it was counted"
    for number, state in enumerate(["held", "sent", "sent", "closed"]):
        await database.transaction(insert(number, state))
    await counts.count()
    told = {str(labels["minara.state"]): value for value, labels in counts.gauge().read()}
    assert told == {"intent": 0, "held": 1, "sent": 2, "open": 0, "uncertain": 0}
    assert set(told) == {state.value for state in OperationState if not state.is_final}
