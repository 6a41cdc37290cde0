"""The fund-safety stack of one process, over a given database and venue, without the service."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from minara_core.actions import PendingAction
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.grant import Grant, GrantType
from minara_core.ids import RandomIds
from minara_runtime import telemetry
from minara_runtime.database import Database
from minara_tools.adapters.call_tracing import CallTracing
from minara_tools.adapters.counter_file import CounterFile, counter_path
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.sql_fund_ledger import SqlFundLedger
from minara_tools.adapters.sql_ledger_check import read_books
from minara_tools.adapters.sql_money_counter import MoneyCounter
from minara_tools.app.confirm_action import DecisionRequest
from minara_tools.app.ports import Venue
from minara_tools.domain.ledger_check import LedgerFault, check
from minara_tools.domain.registry import ToolRegistry
from minara_tools.money import Money, Pace, Surroundings, wire_money
from support.clock import FixedClock
from support.tools.entries import a_move_tool
from support.tools.venue import FakeVenue
from support.tools_world import FakeMarket


def _fail(error: Exception, place: str) -> str:
    raise AssertionError(f"{place} broke") from error


async def a_money(
    database: Database,
    data_dir: Path,
    venue: Venue,
    clock: FixedClock,
    *,
    owner: str = "own",
    failpoint: Failpoint = no_failpoint,
    send_seconds: float = 5.0,
) -> Money:
    """A process's stack; its books are begun."""
    assert isinstance(venue, FakeVenue)
    money = wire_money(
        Surroundings(
            database=database,
            venue=venue,
            market=FakeMarket(clock),
            halt_file=HaltFile(data_dir),
            counter=MoneyCounter(
                CounterFile(counter_path(data_dir), host="here"), "here", RandomIds()
            ),
            clock=clock,
            time_of=lambda connection: clock.now(),
            ids=RandomIds(),
            owner=owner,
            tracing=CallTracing(telemetry.disabled()),
            report_bug=_fail,
            failpoint=failpoint,
            pace=Pace(send_seconds=send_seconds),
        ),
        ToolRegistry((a_move_tool(venue),)),
    )
    await money.restored.begin()
    return money


def a_confirmation(action: PendingAction, clock: FixedClock, decision: str = "confirm") -> Grant:
    """A person's decision on exactly this preview."""
    return Grant(
        grant_type=GrantType.CONFIRMATION,
        issuer="gateway-confirmation",
        audience="minara",
        subject=action.user_id,
        grant_id="grant-1",
        issue_time=clock.now(),
        expire_time=clock.now() + timedelta(seconds=60),
        pending_action_id=action.pending_action_id,
        action_hash=action.action_hash,
        decision=decision,
    )


def deciding(action: PendingAction) -> DecisionRequest:
    return DecisionRequest(
        pending_action_id=action.pending_action_id, action_hash=action.action_hash
    )


@dataclass(frozen=True)
class Process:
    """One process that decides and recovers."""

    money: Money
    clock: FixedClock
    database: Database

    async def confirm(self, action: PendingAction) -> PendingAction:
        grant = a_confirmation(action, self.clock)
        return await self.money.decisions.confirm(grant, deciding(action))

    async def settle(self) -> None:
        await self.money.recovery.settle()

    async def prove_absence(self) -> None:
        """Let the request lapse for good, and look often enough."""
        await self.settle()
        self.clock.advance(timedelta(seconds=36))
        for _ in range(4):
            await self.settle()
            self.clock.advance(timedelta(seconds=3))

    async def faults(self) -> tuple[LedgerFault, ...]:
        """What is wrong with the books of everybody."""
        return check(await self.database.read(read_books))

    async def stored(self, action: PendingAction) -> PendingAction:
        return await self.money.actions.find(action.pending_action_id, action.user_id)


def ledger_of(money: Money) -> SqlFundLedger:
    """The ledger that the stack writes."""
    ledger = money.reconciliation.ledger
    assert isinstance(ledger, SqlFundLedger)
    return ledger
