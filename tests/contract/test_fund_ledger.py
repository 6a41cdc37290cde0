"""FundLedger on SQLite and PostgreSQL: booked once, locked, counted, reconciled."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from minara_core.actions import ActionState, PendingAction
from minara_core.errors import NotFound, NotPermitted
from minara_core.ids import PendingActionId, UserId
from minara_core.taxonomy import TradingState
from minara_tools.adapters.sql_fund_ledger import SqlFundLedger
from minara_tools.app.fund_ledger import Difference, LockedMove, MoneyChange
from minara_tools.domain import operations, postings
from minara_tools.domain.ledger_alarms import AlarmKind
from minara_tools.domain.postings import LedgerAccount
from minara_tools.domain.venue_terms import FactKind
from minara_tools.main import VERSIONS
from support.clock import FixedClock
from support.databases import Databases
from support.grants import an_installation
from support.tools.house import a_house
from support.tools.money import Process, a_money, ledger_of
from support.tools.operations import a_fee, a_fill
from support.tools.venue import FakeVenue

ME = UserId("local")
ACCOUNT = "paper-local"
AVAILABLE, HELD = LedgerAccount.AVAILABLE, LedgerAccount.HELD


@dataclass
class Desk:
    process: Process
    ledger: SqlFundLedger
    venue: FakeVenue
    clock: FixedClock
    action: PendingAction

    async def balance(self, book: LedgerAccount, asset: str) -> Decimal:
        standing = await self.ledger.standing(ME, "paper", ACCOUNT)
        return standing.balances.get((book, asset), Decimal(0))

    async def hold(self) -> str:
        """Hold for the action; the client id of its operation."""

        def step(move: LockedMove) -> MoneyChange:
            begun = operations.begun(
                move.action,
                client_order_id="c" * 32,
                is_exit=False,
                sender="own",
                now=move.standing.time,
            )
            held = operations.held(begun, move.standing.time)
            return MoneyChange(operation=held, postings=(postings.hold(held, move.standing.time),))

        await self.ledger.change(ME, self.action.pending_action_id, step)
        return "c" * 32

    async def state(self) -> TradingState:
        return (await self.ledger.standing(ME, "paper", ACCOUNT)).trading.state


@pytest.fixture
async def desk(databases: Databases, tmp_path: Path) -> Desk:
    installation = an_installation()
    clock = installation.clock
    venue = FakeVenue(clock=clock, name="paper")
    url = await databases.url(VERSIONS)
    async with a_house(
        databases.reopen(url), tmp_path, venue=venue, installation=installation
    ) as house:
        action = await house.pending()
    database = databases.reopen(url)
    money = await a_money(database, tmp_path, venue, clock)
    return Desk(
        process=Process(money, clock, database),
        ledger=ledger_of(money),
        venue=venue,
        clock=clock,
        action=action,
    )


async def test_books_open_with_what_the_venue_says_and_only_once(desk: Desk) -> None:
    assert await desk.balance(AVAILABLE, "USDC") == 100_000
    now = desk.clock.now()
    await desk.ledger.open_account(
        ME, "paper", ACCOUNT, balances={"USDC": Decimal(7)}, included=(), since=now, now=now
    )
    assert await desk.balance(AVAILABLE, "USDC") == 100_000


async def test_an_account_belongs_to_one_person(desk: Desk) -> None:
    now = desk.clock.now()
    with pytest.raises(NotPermitted):
        await desk.ledger.open_account(
            UserId("other"), "paper", ACCOUNT, balances={}, included=(), since=now, now=now
        )


async def test_a_fact_is_booked_once_however_often_it_is_told(desk: Desk) -> None:
    client = await desk.hold()
    fill = a_fill(account=ACCOUNT, client=client, time=desk.clock.now())
    for _ in range(3):
        await desk.ledger.book(ME, "paper", (fill, a_fee(fill)))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(desk.ledger.book(ME, "paper", (fill, a_fee(fill))))
    assert await desk.balance(AVAILABLE, "ETH") == Decimal("0.02")
    assert await desk.balance(HELD, "USDC") == desk.action.order.max_spend - Decimal("50.05")
    faults = await desk.process.faults()
    # The test's own hold has no decision and no audit row, and nothing else is wrong.
    assert {fault.invariant for fault in faults} == {
        "an operation and its action agree",
        "a move has its audit row",
    }


async def test_a_step_that_raises_writes_nothing(desk: Desk) -> None:
    def step(move: LockedMove) -> MoneyChange:
        raise NotFound("no")

    fill = a_fill(account=ACCOUNT, client="", time=desk.clock.now())
    with pytest.raises(NotFound):
        await desk.ledger.change(ME, desk.action.pending_action_id, step, facts=(fill,))
    assert await desk.balance(AVAILABLE, "ETH") == 0


async def test_another_persons_action_is_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound):
        await desk.ledger.change(
            UserId("other"), desk.action.pending_action_id, lambda move: MoneyChange()
        )
    with pytest.raises(NotFound):
        await desk.ledger.change(ME, PendingActionId("none"), lambda move: MoneyChange())


async def test_money_transactions_of_one_person_run_one_after_another(desk: Desk) -> None:
    seen: list[Decimal] = []

    def step(move: LockedMove) -> MoneyChange:
        held = move.standing.balances.get((HELD, "USDC"), Decimal(0))
        seen.append(held)
        operation = move.operation
        if operation is None:
            begun = operations.begun(
                move.action,
                client_order_id="c" * 32,
                is_exit=False,
                sender="own",
                now=move.standing.time,
            )
            operation = operations.held(begun, move.standing.time)
            hold = postings.hold(operation, move.standing.time)
            return MoneyChange(operation=operation, postings=(hold,))
        return MoneyChange()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(desk.ledger.change(ME, desk.action.pending_action_id, step))
    assert seen.count(Decimal(0)) == 1
    assert await desk.balance(HELD, "USDC") == desk.action.order.max_spend


async def test_facts_older_than_the_books_are_not_booked(desk: Desk) -> None:
    old = a_fill(account=ACCOUNT, client="", time=desk.clock.now() - timedelta(hours=2))
    await desk.ledger.book(ME, "paper", (old,))
    assert await desk.balance(AVAILABLE, "ETH") == 0


async def test_a_foreign_withdrawal_is_booked_and_reduces(desk: Desk) -> None:
    gone = replace(
        a_fill(account=ACCOUNT, client="", time=desk.clock.now()),
        kind=FactKind.WITHDRAWAL,
        instrument="USDC",
        changes={"USDC": Decimal(-500)},
    )
    (alarm,) = await desk.ledger.book(ME, "paper", (gone,))
    assert alarm.kind is AlarmKind.FOREIGN_WITHDRAWAL
    assert await desk.state() is TradingState.REDUCING
    assert await desk.balance(AVAILABLE, "USDC") == 99_500


async def test_less_than_nothing_is_booked_and_reduces(desk: Desk) -> None:
    fill = a_fill("50", "2500", account=ACCOUNT, client="", time=desk.clock.now())
    alarms = await desk.ledger.book(ME, "paper", (fill,))
    assert [alarm.kind for alarm in alarms] == [AlarmKind.OVERDRAWN]
    assert await desk.balance(AVAILABLE, "USDC") == -25_000
    assert await desk.state() is TradingState.REDUCING


async def test_an_alarm_never_loosens_a_halt(desk: Desk) -> None:
    await desk.process.money.control.halt(ME, "stop")
    fill = a_fill("50", "2500", account=ACCOUNT, client="", time=desk.clock.now())
    await desk.ledger.book(ME, "paper", (fill,))
    assert await desk.state() is TradingState.HALTED


def seen(desk: Desk, **totals: str) -> Difference:
    amounts = {asset: Decimal(amount) for asset, amount in totals.items()}
    return Difference(venue="paper", account=ACCOUNT, totals=amounts, time=desk.clock.now())


async def test_a_difference_counts_only_when_it_is_found_twice(desk: Desk) -> None:
    off = seen(desk, USDC="99990")
    assert await desk.ledger.reconcile(ME, off) == ()
    assert await desk.state() is TradingState.ACTIVE
    assert await desk.ledger.reconcile(ME, seen(desk, USDC="99991")) == ()
    assert await desk.ledger.reconcile(ME, seen(desk, USDC="100000")) == ()
    assert await desk.ledger.reconcile(ME, off) == ()
    (alarm,) = await desk.ledger.reconcile(ME, off)
    assert alarm.kind is AlarmKind.UNEXPLAINED
    assert await desk.balance(LedgerAccount.SUSPENSE, "USDC") == 10
    assert await desk.balance(AVAILABLE, "USDC") == 99_990
    assert await desk.state() is TradingState.REDUCING
    assert await desk.ledger.reconcile(ME, off) == ()


async def test_nothing_is_reconciled_while_an_operation_is_in_flight(desk: Desk) -> None:
    await desk.hold()
    for _ in range(3):
        assert await desk.ledger.reconcile(ME, seen(desk, USDC="1")) == ()
    assert await desk.state() is TradingState.ACTIVE


async def test_a_deposit_is_external_and_raises_no_alarm(desk: Desk) -> None:
    await desk.venue.deposit(ACCOUNT, "USDC", Decimal(250))
    await desk.process.money.reconciliation.run_once()
    await desk.process.money.reconciliation.run_once()
    assert await desk.balance(AVAILABLE, "USDC") == 100_250
    assert await desk.balance(LedgerAccount.EXTERNAL, "USDC") == -100_250
    assert await desk.state() is TradingState.ACTIVE
    assert await desk.process.faults() == ()


async def test_a_decision_when_the_clock_has_run_back_is_void(desk: Desk) -> None:
    await desk.ledger.book(ME, "paper", ())
    desk.clock.advance(timedelta(seconds=-3))
    void = await desk.process.confirm(desk.action)
    assert void.state is ActionState.VOIDED
    assert void.outcome is not None
    assert void.outcome.reason == "CLOCK_SKEW"


async def test_a_clock_that_was_ahead_counts_no_more_once_a_person_says_it_is_right(
    desk: Desk,
) -> None:
    desk.clock.jump(timedelta(days=1500))
    await desk.process.money.reconciliation.run_once()
    await desk.ledger.book(ME, "paper", ())
    desk.clock.jump(timedelta(days=-1500))
    await desk.process.money.books.adopt()
    done = await desk.process.confirm(desk.action)
    assert done.state is ActionState.DONE
    await desk.venue.deposit(ACCOUNT, "USDC", Decimal(250))
    for _ in range(2):
        await desk.process.money.reconciliation.run_once()
    assert await desk.balance(LedgerAccount.EXTERNAL, "USDC") == -100_250
    assert await desk.state() is TradingState.ACTIVE


async def test_what_one_account_has_told_says_nothing_of_another(desk: Desk) -> None:
    before = {one.account: one.facts_time for one in await desk.ledger.accounts("paper", ME)}
    desk.clock.advance(timedelta(minutes=11))
    await desk.ledger.book(ME, "paper", (), read=(ACCOUNT, desk.clock.now()))
    after = {one.account: one.facts_time for one in await desk.ledger.accounts("paper", ME)}
    assert after[ACCOUNT] == desk.clock.now()
    others = before.keys() - {ACCOUNT}
    assert others
    assert all(after[name] == before[name] for name in others)
