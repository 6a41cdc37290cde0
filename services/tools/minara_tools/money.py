"""Wires the fund-safety stack: ledger, stages, execution, recovery, the emergency stop."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from minara_core.clock import Clock
from minara_core.failpoints import Failpoint
from minara_core.ids import IdSource
from minara_runtime.database import Database
from minara_runtime.process_lease import LIFETIME
from minara_runtime.service import Job
from minara_runtime.statements import database_time
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.sql_actions import SqlActions
from minara_tools.adapters.sql_addresses import SqlAddresses
from minara_tools.adapters.sql_fund_ledger import SqlFundLedger
from minara_tools.adapters.sql_limits import SqlLimits
from minara_tools.adapters.sql_money_counter import MoneyCounter
from minara_tools.adapters.sql_trading import SqlTradingStates
from minara_tools.app.close_positions import PositionClosing
from minara_tools.app.confirm_action import ActionDecisions
from minara_tools.app.execute_move import SEND_SECONDS, Execution, MoveExecution
from minara_tools.app.gather_funds import FundGathering
from minara_tools.app.ledger_control import LedgerControl
from minara_tools.app.limit_control import LimitControl
from minara_tools.app.manual_actions import ManualActions
from minara_tools.app.move_steps import MoveSteps, alarm_record
from minara_tools.app.observing import ReportBug, Tracing
from minara_tools.app.open_books import BookOpening
from minara_tools.app.park_actions import ActionParking
from minara_tools.app.ports import MarketData, Venue
from minara_tools.app.preview_move import MovePreview
from minara_tools.app.quote_again import QuoteAgain
from minara_tools.app.reconcile_accounts import Reconciliation
from minara_tools.app.recover_operations import OperationRecovery
from minara_tools.app.restored_books import RestoredBooks
from minara_tools.app.sweep_orders import OrderSweep
from minara_tools.app.trading_control import TradingControl
from minara_tools.domain.registry import ToolRegistry

TimeOf = Callable[[sa.Connection], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often the background looks, how long a venue's answer is awaited, and how long a process
    that says nothing counts as alive."""

    recover_seconds: float = 2.5
    reconcile_seconds: float = 60.0
    sweep_seconds: float = 1.0
    send_seconds: float = SEND_SECONDS
    lease_lifetime: timedelta = LIFETIME


STEADY = Pace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the stack is built on. `owner` names this process; `time_of` is the clock of money."""

    database: Database
    venue: Venue
    market: MarketData
    halt_file: HaltFile
    counter: MoneyCounter
    clock: Clock
    time_of: TimeOf
    ids: IdSource
    owner: str
    tracing: Tracing
    report_bug: ReportBug
    failpoint: Failpoint
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The stack, wired."""

    actions: SqlActions
    preview: MovePreview
    decisions: ActionDecisions
    recovery: OperationRecovery
    reconciliation: Reconciliation
    sweep: OrderSweep
    control: TradingControl
    manual: ManualActions
    books: LedgerControl
    limits: LimitControl
    restored: RestoredBooks

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (
            Job(name="recover-operations", run=self.recovery.run_forever),
            Job(name="reconcile-accounts", run=self.reconciliation.run_forever),
            Job(name="sweep-orders", run=self.sweep.run_forever),
        )


def clock_of_money(database: Database, clock: Clock) -> TimeOf:
    """The database's clock, which all replicas share; who has an SQLite file has it alone."""
    return database_time if database.dialect == "postgresql" else lambda connection: clock.now()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stores:
    actions: SqlActions
    states: SqlTradingStates
    ledger: SqlFundLedger


def wire_money(around: Surroundings, registry: ToolRegistry) -> Money:
    """The whole stack over one database and one venue."""
    clock, tracing, venue = around.clock, around.tracing, around.venue
    stores = _stores(around)
    ledger, actions, states = stores.ledger, stores.actions, stores.states
    steps = MoveSteps(registry, tracing, around.owner)
    funds = FundGathering(ledger, venue, around.market, BookOpening(ledger, venue, clock))
    preview = MovePreview(clock, around.ids, funds)
    parking = ActionParking(actions, registry, clock, tracing)
    decisions = ActionDecisions(
        actions,
        registry,
        _execution(around, stores, registry, funds, steps),
        QuoteAgain(registry, preview, parking),
        clock=clock,
        tracing=tracing,
        failpoint=around.failpoint,
    )
    sweep = OrderSweep(ledger, states, steps, venue, around.pace.sweep_seconds)
    closing = PositionClosing(registry, preview, parking, venue, around.ids)
    restored = RestoredBooks(ledger, states, actions, steps, venue, clock)
    return Money(
        actions=actions,
        preview=preview,
        decisions=decisions,
        recovery=OperationRecovery(
            ledger=ledger,
            actions=actions,
            decisions=decisions,
            steps=steps,
            registry=registry,
            venue=venue,
            clock=clock,
            tracing=tracing,
            report_bug=around.report_bug,
            every_seconds=around.pace.recover_seconds,
        ),
        reconciliation=Reconciliation(ledger, venue, clock, around.pace.reconcile_seconds),
        sweep=sweep,
        control=TradingControl(states, sweep, closing, registry, clock=clock, tracing=tracing),
        manual=ManualActions(registry, actions, preview, parking),
        limits=_limits(around),
        books=LedgerControl(ledger, steps, restored),
        restored=restored,
    )


def _stores(around: Surroundings) -> _Stores:
    database, has_halt_file = around.database, around.halt_file.exists
    return _Stores(
        actions=SqlActions(database, has_halt_file, around.clock),
        states=SqlTradingStates(database, has_halt_file),
        ledger=SqlFundLedger(
            database,
            has_halt_file,
            around.counter,
            time_of=around.time_of,
            alarm_record=lambda alarm, user_id: alarm_record(alarm, user_id, around.clock.now()),
        ),
    )


def _execution(
    around: Surroundings,
    stores: _Stores,
    registry: ToolRegistry,
    funds: FundGathering,
    steps: MoveSteps,
) -> MoveExecution:
    return MoveExecution(
        Execution(
            ledger=stores.ledger,
            venue=around.venue,
            funds=funds,
            steps=steps,
            registry=registry,
            clock=around.clock,
            failpoint=around.failpoint,
            send_seconds=around.pace.send_seconds,
        )
    )


def _limits(around: Surroundings) -> LimitControl:
    return LimitControl(
        limits=SqlLimits(around.database, around.time_of),
        addresses=SqlAddresses(around.database, around.time_of),
        venue=around.venue,
        tracing=around.tracing,
        ids=around.ids,
    )
