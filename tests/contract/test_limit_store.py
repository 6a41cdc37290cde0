"""LimitStore, and what the ledger reads of limits and locks, on both databases."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.ids import UserId
from minara_core.taxonomy import PermissionTier
from minara_runtime.database import Database
from minara_tools.adapters.sql_fund_tables import OPERATIONS
from minara_tools.adapters.sql_limits import SqlLimits, limits_of, lock_pair, pair_locks_of
from minara_tools.domain.limits import SMALL, STANDARD, LimitsRecord, values_of
from minara_tools.domain.operations import OperationState
from minara_tools.main import VERSIONS
from minara_tools.toolsets.read.get_limits import GetLimitsArguments, get_limits
from support.actions import NOW
from support.databases import Databases
from support.tools_world import a_context

ME = UserId("local")


class Times:
    """The database's clock, as a test wants it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self, _: sa.Connection) -> datetime:
        return self.now


@pytest.fixture
async def database(databases: Databases) -> Database:
    return await databases.open(VERSIONS)


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def store(database: Database, times: Times) -> SqlLimits:
    return SqlLimits(database, now=times)


def audit(before: LimitsRecord, after: LimitsRecord, now: datetime) -> AuditRecord:
    return AuditRecord(
        user_id=ME, kind=AuditKind.STATE_CHANGE, time=now, subject="limits", outcome="changed"
    )


async def update(store: SqlLimits, **wanted: int | str) -> LimitsRecord:
    return await store.update(ME, {n: Decimal(v) for n, v in wanted.items()}, audit)


async def count(database: Database, statement: str) -> int:
    return await database.read(lambda c: c.execute(sa.text(statement)).scalar_one())


async def move(database: Database, state: OperationState) -> None:
    """An operation of this person, in that state."""
    amounts = ("notional_usd", "hold_amount", "hold_left", "filled_quantity")
    times = ("create_time", "update_time")
    row: dict[str, object] = dict.fromkeys((one.name for one in OPERATIONS.columns), "x")
    row |= dict.fromkeys(amounts, Decimal(1)) | dict.fromkeys(times, NOW)
    row |= dict.fromkeys(("sign_time", "not_after", "sent_time", "last_poll_time"))
    row |= {"position": 1, "epoch": 1, "absent_polls": 0, "is_exit": False}
    row |= {"user_id": ME, "state": state.value}
    await database.transaction(lambda c: c.execute(sa.insert(OPERATIONS), row).close())


async def test_who_never_chose_has_the_standard_limits(store: SqlLimits) -> None:
    assert await store.find(ME) == LimitsRecord()
    assert LimitsRecord().limits == STANDARD


async def test_the_first_choice_holds_at_once_and_comes_back_digit_for_digit(
    store: SqlLimits, database: Database
) -> None:
    wanted = {**values_of(SMALL), "max_move_usd": Decimal("9999.123456789012345678")}
    chosen = await store.update(ME, wanted, audit)
    assert chosen.limits.max_move_usd == Decimal("9999.123456789012345678")
    assert await store.find(ME) == chosen
    assert await database.read(lambda c: limits_of(c, ME, NOW)) == chosen.limits


async def test_a_raise_waits_an_hour_and_then_holds_for_everybody_who_reads(
    store: SqlLimits, database: Database, times: Times
) -> None:
    await update(store, max_move_usd=5_000)
    waiting = await update(store, max_move_usd=8_000)
    (one,) = waiting.raises
    assert one.effective_time == NOW + timedelta(hours=1)
    for minutes, expected in ((59, 5_000), (60, 8_000)):
        now = NOW + timedelta(minutes=minutes)
        found = await database.read(lambda c, now=now: limits_of(c, ME, now))
        assert found.max_move_usd == expected
    times.now = NOW + timedelta(hours=1)
    assert (await store.find(ME)).raises == ()


async def test_what_was_raised_stays_raised_through_later_changes(
    store: SqlLimits, times: Times
) -> None:
    await update(store, max_move_usd=5_000)
    await update(store, max_move_usd=8_000)
    times.now = NOW + timedelta(hours=2)
    after = await update(store, max_day_moves=7)
    assert (after.limits.max_move_usd, after.limits.max_day_moves) == (8_000, 7)
    assert await store.find(ME) == after


async def test_lowering_ends_the_raise_for_good(store: SqlLimits, times: Times) -> None:
    await update(store, max_move_usd=5_000)
    await update(store, max_move_usd=8_000)
    assert (await update(store, max_move_usd=4_000)).raises == ()
    times.now = NOW + timedelta(hours=2)
    assert (await store.find(ME)).limits.max_move_usd == 4_000


@pytest.mark.parametrize(
    ("state", "at_once"),
    [
        (OperationState.HELD, False),
        (OperationState.UNCERTAIN, False),
        (OperationState.CLOSED, False),
        (OperationState.VOIDED, True),
    ],
)
async def test_after_a_move_even_the_first_choice_raises_an_hour_later(
    store: SqlLimits, database: Database, state: OperationState, at_once: bool
) -> None:
    await move(database, state)
    after = await update(store, max_move_usd=8_000)
    assert (after.limits.max_move_usd == 8_000) is at_once


async def test_every_change_has_its_audit_row_and_its_history(
    store: SqlLimits, database: Database
) -> None:
    await update(store, max_move_usd=400)
    await update(store, max_move_usd=8_000, max_day_moves=5)
    assert await count(database, "SELECT count(*) FROM audit_records") == 2
    rows = await database.read(
        lambda c: c.execute(
            sa.text("SELECT limit_name, state FROM limit_changes ORDER BY position")
        ).all()
    )
    assert [tuple(row) for row in rows] == [
        ("max_move_usd", "effective"),
        ("max_day_moves", "effective"),
        ("max_move_usd", "pending"),
    ]


async def test_asking_twice_for_the_same_is_one_change(
    store: SqlLimits, database: Database, times: Times
) -> None:
    await update(store, max_move_usd=400)
    first = await update(store, max_move_usd=8_000)
    times.now = NOW + timedelta(minutes=30)
    again = await update(store, max_move_usd=8_000)
    assert again == first
    assert await count(database, "SELECT count(*) FROM audit_records") == 2


async def test_an_audit_row_that_cannot_be_written_undoes_the_change(
    store: SqlLimits, database: Database
) -> None:
    def broken(before: LimitsRecord, after: LimitsRecord, now: datetime) -> AuditRecord:
        raise RuntimeError("no audit")

    with pytest.raises(RuntimeError, match="no audit"):
        await store.update(ME, {"max_move_usd": Decimal(1)}, broken)
    assert await store.find(ME) == LimitsRecord()
    assert await count(database, "SELECT count(*) FROM limit_changes") == 0


async def test_limits_are_a_persons_own(store: SqlLimits) -> None:
    await update(store, max_move_usd=1)
    assert (await store.find(UserId("other"))).limits == STANDARD


async def test_locks_are_read_by_person_and_venue(database: Database) -> None:
    later, latest = NOW + timedelta(hours=1), NOW + timedelta(hours=2)

    def write(connection: sa.Connection) -> None:
        for until in (later, latest):
            lock_pair(connection, ME, "paper", "ETH/USDC", until=until, reason="3 stop-outs")
        lock_pair(connection, "other", "paper", "BTC/USDC", until=later, reason="3 stop-outs")

    await database.transaction(write)
    found = await database.read(lambda c: pair_locks_of(c, ME, "paper"))
    assert found == {"ETH/USDC": latest}
    assert await database.read(lambda c: pair_locks_of(c, ME, "elsewhere")) == {}


async def test_the_tool_tells_limits_raises_and_who_may_change_them(store: SqlLimits) -> None:
    await update(store, max_move_usd=5_000)
    await update(store, max_move_usd=8_000)
    entry = get_limits(store)
    assert entry.handler is not None
    told = await entry.handler(GetLimitsArguments(), a_context())
    assert told == {
        "limits": {
            "max_move_usd": "5000",
            "max_day_usd": "10000",
            "max_day_moves": "20",
            "max_new_recipient_usd": "100",
            "max_leverage": "10",
            "max_submits_a_minute": "10",
        },
        "pending_raises": [
            {"limit": "max_move_usd", "value": "8000", "effective_time": "2026-11-30T13:00:00Z"}
        ],
        "is_chosen": True,
        "change": "minara limits set NAME=VALUE, or PATCH /v1/limits",
    }
    assert (entry.tool_set, entry.permission_tier) == ("read", PermissionTier.READ_ONLY)
    assert not entry.untrusted_output
