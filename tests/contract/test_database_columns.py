"""Column types come back as they went in, on both dialects."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import exc

from minara_core.errors import InvalidRequest
from minara_core.money import canonical
from minara_core.reasons import ErrorReason
from minara_runtime.columns import DecimalText, UtcTime
from minara_runtime.database import Database
from minara_runtime.statements import DatabaseClock, database_time

ENTRIES = sa.Table(
    "entries",
    sa.MetaData(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("amount", DecimalText),
    sa.Column("time", UtcTime),
)


def store(connection: sa.Connection, **values: object) -> None:
    connection.execute(sa.delete(ENTRIES))
    connection.execute(sa.insert(ENTRIES), {"name": "x", **values})


@given(
    amounts=st.lists(
        st.decimals(min_value=-(10**20) + 1, max_value=10**20 - 1, places=18), max_size=40
    )
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_decimals_come_back_digit_for_digit(
    database: Database, amounts: list[Decimal]
) -> None:
    def there_and_back(connection: sa.Connection) -> list[Decimal]:
        connection.execute(sa.delete(ENTRIES))
        rows = [{"name": f"{n:04}", "amount": amount} for n, amount in enumerate(amounts)]
        if rows:
            connection.execute(sa.insert(ENTRIES), rows)
        found = connection.execute(sa.select(ENTRIES.c.amount).order_by(ENTRIES.c.name))
        return list(found.scalars())

    found = await database.transaction(there_and_back)
    assert [format(amount, "f") for amount in found] == [canonical(amount) for amount in amounts]


@pytest.mark.parametrize(
    "amount",
    [
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("100000000000000000000"),
        Decimal("0.0000000000000000001"),
        0.1,
    ],
)
async def test_what_is_no_exact_amount_is_refused(database: Database, amount: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await database.transaction(lambda c: store(c, amount=amount))
    assert refused.value.reason is ErrorReason.AMOUNT_INVALID


async def test_the_database_itself_refuses_nan(database: Database) -> None:
    with pytest.raises(exc.IntegrityError):
        await database.transaction(
            lambda c: c.exec_driver_sql("INSERT INTO entries (name, amount) VALUES ('x', 'NaN')")
        )


async def test_amounts_compare_for_equality_in_sql(database: Database) -> None:
    def find(connection: sa.Connection) -> str | None:
        store(connection, amount=Decimal("1.50"))
        where = ENTRIES.c.amount == Decimal("1.5")
        return connection.execute(sa.select(ENTRIES.c.name).where(where)).scalar()

    assert await database.transaction(find) == "x"


async def test_times_keep_their_microseconds(database: Database) -> None:
    time = datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC)

    def there_and_back(connection: sa.Connection) -> datetime | None:
        store(connection, time=time)
        return connection.execute(sa.select(ENTRIES.c.time)).scalar()

    found = await database.transaction(there_and_back)
    assert found == time
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=8))])
async def test_times_in_other_zones_are_refused(database: Database, zone: timezone | None) -> None:
    with pytest.raises(ValueError, match="UTC"):
        await database.transaction(lambda c: store(c, time=datetime(2026, 1, 1, tzinfo=zone)))


async def test_the_databases_clock_compares_with_stored_times(database: Database) -> None:
    def stored_before_now(connection: sa.Connection) -> int:
        store(connection, time=database_time(connection) - timedelta(milliseconds=2))
        where = ENTRIES.c.time < DatabaseClock()
        return connection.execute(sa.select(sa.func.count()).where(where)).scalar_one()

    assert await database.transaction(stored_before_now) == 1
    assert (await database.read(database_time)).tzinfo is UTC
