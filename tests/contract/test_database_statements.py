"""Statements behave alike whether SQLAlchemy runs them or only compiled them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from minara_runtime.columns import DecimalText, UtcTime
from minara_runtime.database import Database
from minara_runtime.statements import one_of

TABLES = sa.MetaData()
ENTRIES = sa.Table(
    "entries",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("amount", DecimalText),
    sa.Column("time", UtcTime),
)
COUNTERS = sa.Table(
    "counters",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger),
)
INSERT = sa.insert(COUNTERS)
VALUE = sa.select(COUNTERS.c.value).where(COUNTERS.c.name == sa.bindparam("wanted"))
RAISE = (
    sa.update(COUNTERS)
    .where(COUNTERS.c.name == sa.bindparam("wanted"))
    .values(value=COUNTERS.c.value + sa.bindparam("more", 1))
)
ROWS = ({"name": "a", "value": 1}, {"name": "b", "value": 2}, {"name": "c", "value": 3})


async def test_many_rows_one_row_and_their_counts(database: Database) -> None:
    def use(connection: sa.Connection) -> None:
        connection.execute(INSERT, list(ROWS))
        assert connection.execute(VALUE, {"wanted": "b"}).scalar_one() == 2
        assert connection.execute(VALUE, {"wanted": "z"}).first() is None
        assert connection.execute(RAISE, {"wanted": "a"}).rowcount == 1
        assert connection.execute(RAISE, {"wanted": "a", "more": 5}).rowcount == 1
        assert connection.execute(RAISE, {"wanted": "z"}).rowcount == 0
        assert connection.execute(VALUE, {"wanted": "a"}).scalar() == 7

    await database.transaction(use)


async def test_rows_are_read_by_place_by_name_and_as_mappings(database: Database) -> None:
    everything = sa.select(COUNTERS, sa.literal("x").label("mark")).order_by(COUNTERS.c.name)

    def use(connection: sa.Connection) -> None:
        connection.execute(INSERT, list(ROWS))
        first = connection.execute(everything).first()
        assert first is not None
        assert (first.name, first[1], first.mark) == ("a", 1, "x")
        assert [name for name, _, _ in connection.execute(everything)] == ["a", "b", "c"]
        mappings = connection.execute(everything).mappings().all()
        assert dict(mappings[2]) == {"name": "c", "value": 3, "mark": "x"}

    await database.transaction(use)


async def test_lists_of_any_length_and_fixed_ones_are_matched(database: Database) -> None:
    listed = sa.select(COUNTERS.c.name).where(
        COUNTERS.c.name.in_(sa.bindparam("names", expanding=True))
    )
    fixed = sa.select(COUNTERS.c.name).where(one_of(COUNTERS.c.name, ["a", "c"]))

    def use(connection: sa.Connection) -> None:
        connection.execute(INSERT, list(ROWS))
        for names in (["a"], ["a", "b", "nobody"], []):
            found = set(connection.execute(listed, {"names": names}).scalars())
            assert found == set(names) - {"nobody"}
        assert set(connection.execute(fixed).scalars()) == {"a", "c"}

    await database.transaction(use)


async def test_typed_columns_keep_their_types_both_ways(database: Database) -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    row = {"name": "x", "amount": Decimal("1.50"), "time": time}
    at = sa.select(ENTRIES.c.time, ENTRIES.c.amount).where(ENTRIES.c.time <= sa.bindparam("now"))

    def use(connection: sa.Connection) -> None:
        connection.execute(sa.insert(ENTRIES), row)
        found = connection.execute(at, {"now": time}).one()
        assert (found.time, found.amount) == (time, Decimal("1.5"))

    await database.transaction(use)


async def test_a_value_that_is_not_given_is_refused(database: Database) -> None:
    with pytest.raises(exc.InvalidRequestError, match="wanted"):
        await database.read(lambda c: c.execute(VALUE).first())
    with pytest.raises((exc.SQLAlchemyError, KeyError), match="value"):
        await database.transaction(lambda c: c.execute(INSERT, [ROWS[0], {"name": "b"}]))
    assert await database.read(lambda c: c.execute(VALUE, {"wanted": "a"}).first()) is None


async def test_the_same_statement_after_an_error_works(database: Database) -> None:
    await database.transaction(lambda c: c.execute(INSERT, ROWS[0]))
    for brief in (False, True):
        with pytest.raises(exc.IntegrityError):
            await database.transaction(lambda c: c.execute(INSERT, ROWS[0]), brief=brief)
    await database.transaction(lambda c: c.execute(INSERT, ROWS[1]))
    assert await database.read(lambda c: c.execute(VALUE, {"wanted": "b"}).scalar()) == 2
