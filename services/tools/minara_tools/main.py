"""Composition root of the tools service: settings to objects to a Service."""

import asyncio
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.tools.v1 import limit_service_pb2_grpc as limit_grpc
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.tools.v1 import trading_control_service_pb2_grpc as control_grpc
from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource
from minara_runtime.audit_report import snapshot
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.hosting import run_service
from minara_runtime.logging import get_logger
from minara_runtime.process_lease import ProcessLease
from minara_runtime.service import Job, Service, Servicer
from minara_runtime.service_audit import with_audit
from minara_runtime.telemetry import Telemetry
from minara_tools.adapters.call_tracing import BugLog, CallTracing
from minara_tools.adapters.counter_file import CounterFile, counter_path
from minara_tools.adapters.grpc_server import ToolServicer
from minara_tools.adapters.grpc_server_approvals import ApprovalServicer
from minara_tools.adapters.grpc_server_limits import LimitServicer
from minara_tools.adapters.grpc_server_trading import TradingControlServicer
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.operation_counts import OperationCounts
from minara_tools.adapters.sandbox_files import SandboxFiles
from minara_tools.adapters.sql_addresses import SqlAddresses
from minara_tools.adapters.sql_calls import SqlCalls
from minara_tools.adapters.sql_fund_reads import SqlFundReads
from minara_tools.adapters.sql_kept_results import SqlKeptResults
from minara_tools.adapters.sql_ledger_check import read_books
from minara_tools.adapters.sql_limits import SqlLimits
from minara_tools.adapters.sql_money_counter import MoneyCounter
from minara_tools.adapters.sql_trading import SqlTradingStates
from minara_tools.adapters.sql_turns import SqlTurns
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.adapters.venue_paper_http import HttpPaperVenue
from minara_tools.app.execute_tools import ToolDispatcher
from minara_tools.app.open_turn import TurnOpening
from minara_tools.app.ports import MarketData, Venue
from minara_tools.app.record_calls import CallRecorder
from minara_tools.domain.gates import GATES
from minara_tools.domain.ledger_check import LedgerFault, check
from minara_tools.domain.local_tools import local_tools
from minara_tools.domain.registry import ToolEntry, ToolRegistry
from minara_tools.money import STEADY, Pace, Surroundings, TimeOf, clock_of_money, wire_money
from minara_tools.settings import ToolsSettings
from minara_tools.toolsets.catalog import builtin_tools, ledger_tools

VERSIONS = Path(__file__).parent / "adapters" / "migrations" / "versions"
SANDBOX = Path("sandbox") / "files"
"""Under `data_dir`: one folder per user."""


Starter = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    """A part with nothing to start or close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service is made of besides its own books: tools, the venue that executes, and the
    market that prices."""

    entries: tuple[ToolEntry, ...]
    venue: Venue
    market: MarketData
    start: Callable[[], Awaitable[None]] = _nothing
    aclose: Callable[[], Awaitable[None]] = _nothing
    jobs: tuple[Job, ...] = ()


def describe(settings: ToolsSettings) -> tuple[str, ...]:
    """For people: where prices come from, and where orders go."""
    return (
        f"market: {settings.market} (demo: made-up prices)",
        f"venue: {settings.venue} (demo: no real money)",
    )


def build(
    settings: ToolsSettings,
    *,
    telemetry: Telemetry,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
    pace: Pace = STEADY,
) -> Service:
    """The tools service as its settings want it, wired and not started."""
    folder = DataFolder(settings.data_dir)
    # Money is on disk before it is on its way.
    database = Database.open(
        settings.tools_database_url or folder.database_url("tools"),
        durable=True,
        pool_size=settings.database_pool_size,
    )
    service = assemble(
        database,
        _parts(settings, folder, clock, failpoint),
        halt_file=HaltFile(settings.data_dir),
        counter_file=CounterFile(counter_path(settings.data_dir), host=platform.node()),
        telemetry=telemetry,
        clock=clock,
        ids=ids,
        failpoint=failpoint,
        pace=pace,
    )
    return with_audit(service, settings, database, clock=clock, ids=ids, failpoint=failpoint)


def _parts(
    settings: ToolsSettings, folder: DataFolder, clock: Clock, failpoint: Failpoint
) -> Parts:
    market = SimulatedMarket(clock)
    venue, start, aclose, jobs = _venue(settings, folder, market, clock, failpoint)
    files = SandboxFiles(settings.data_dir / SANDBOX)
    return Parts(
        entries=builtin_tools(market=market, venue=venue, files=files, clock=clock),
        venue=venue,
        market=market,
        start=start,
        aclose=aclose,
        jobs=jobs,
    )


def _venue(
    settings: ToolsSettings,
    folder: DataFolder,
    market: MarketData,
    clock: Clock,
    failpoint: Failpoint,
) -> tuple[Venue, Starter, Starter, tuple[Job, ...]]:
    if settings.paper_venue_url is not None:
        remote = HttpPaperVenue(
            settings.paper_venue_url, settings.paper_secret(), clock, failpoint=failpoint
        )
        return remote, _nothing, remote.aclose, ()
    database = Database.open(
        settings.paper_database_url or folder.database_url("paper"),
        durable=True,
        pool_size=settings.database_pool_size,
    )
    venue = PaperVenue(database, market, clock, starting_balances=settings.starting_balances)
    return (
        venue,
        venue.migrate,
        database.aclose,
        (Job(name="match-paper-orders", run=venue.advance_forever),),
    )


def assemble(
    database: Database,
    parts: Parts,
    *,
    halt_file: HaltFile,
    counter_file: CounterFile,
    telemetry: Telemetry,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
    time_of: TimeOf | None = None,
    pace: Pace = STEADY,
) -> Service:
    """The tools service over these parts and this database (open with `durable`), not started."""
    owner = ids.new()
    around = Surroundings(
        database=database,
        venue=parts.venue,
        market=parts.market,
        halt_file=halt_file,
        counter=MoneyCounter(counter_file, counter_file.host, ids),
        clock=clock,
        time_of=time_of or clock_of_money(database, clock),
        ids=ids,
        owner=owner,
        tracing=CallTracing(telemetry),
        report_bug=BugLog(ids).report,
        failpoint=failpoint,
        pace=pace,
    )
    registry = ToolRegistry((*parts.entries, *_ledger_tools(around), *local_tools()))
    return _service(around, registry, parts)


def _ledger_tools(around: Surroundings) -> tuple[ToolEntry, ...]:
    database = around.database
    return ledger_tools(
        market=around.market,
        venue=around.venue,
        clock=around.clock,
        reads=SqlFundReads(database),
        limits=SqlLimits(database, around.time_of),
        addresses=SqlAddresses(database, around.time_of),
        states=SqlTradingStates(database, around.halt_file.exists),
        kept=SqlKeptResults(database),
    )


def _service(around: Surroundings, registry: ToolRegistry, parts: Parts) -> Service:
    database, clock = around.database, around.clock
    money = wire_money(around, registry)
    turns, calls = SqlTurns(database, around.halt_file.exists), SqlCalls(database)
    dispatcher = ToolDispatcher(
        registry,
        GATES,
        turns,
        CallRecorder(calls, clock, around.tracing),
        money.preview,
        clock=clock,
        tracing=around.tracing,
        report_bug=around.report_bug,
    )
    counts = OperationCounts(database)
    lease = ProcessLease(database, owner=around.owner, lifetime=around.pace.lease_lifetime)

    async def start() -> None:
        await database.migrate(VERSIONS, owner="tools")
        await parts.start()
        await lease.begin()
        if doubt := await money.restored.begin():
            get_logger("tools/ledger").error("books_doubted_trading_halted", why=doubt)
        await money.recovery.settle()

    async def aclose() -> None:
        await money.decisions.aclose()
        await calls.aclose()
        await lease.end()
        await parts.aclose()
        await database.aclose()

    return Service(
        name="tools",
        servicers=_servicers(
            ToolServicer(registry, TurnOpening(turns, clock), dispatcher),
            ApprovalServicer(money.actions, money.decisions),
            TradingControlServicer(money.control, money.manual, money.books),
            LimitServicer(money.limits),
        ),
        start=start,
        aclose=aclose,
        is_ready=database.answers,
        gauges=(database.gauge("tools"), counts.gauge()),
        jobs=(
            Job(name="stay-alive", run=lease.stay_alive),
            Job(name="count-operations", run=counts.count_forever),
            *money.jobs,
            *parts.jobs,
        ),
    )


def _servicers(
    tools: ToolServicer,
    approvals: ApprovalServicer,
    control: TradingControlServicer,
    limits: LimitServicer,
) -> tuple[Servicer, ...]:
    return (
        Servicer(
            full_name="minara.tools.v1.ToolService",
            register=lambda server: tools_grpc.add_ToolServiceServicer_to_server(tools, server),
        ),
        Servicer(
            full_name="minara.tools.v1.ApprovalService",
            register=lambda server: approval_grpc.add_ApprovalServiceServicer_to_server(
                approvals, server
            ),
        ),
        Servicer(
            full_name="minara.tools.v1.TradingControlService",
            register=lambda server: control_grpc.add_TradingControlServiceServicer_to_server(
                control, server
            ),
        ),
        Servicer(
            full_name="minara.tools.v1.LimitService",
            register=lambda server: limit_grpc.add_LimitServiceServicer_to_server(limits, server),
        ),
    )


async def check_ledger(settings: ToolsSettings) -> tuple[LedgerFault, ...]:
    """Every broken invariant of the books, offline or beside a running service; writes nothing.

    Raises sqlite3.Error or DBAPIError for a file that is no database of ours.
    """
    folder = DataFolder(settings.data_dir)
    url = settings.tools_database_url or folder.database_url("tools")
    file = sa.make_url(url).database
    if url.startswith("sqlite") and not await asyncio.to_thread(Path(file or "").is_file):
        return ()  # nothing has ever run here
    return check(await snapshot(url, read_books))


def main() -> None:
    """Run the tools service alone, until SIGTERM or SIGINT."""
    run_service(
        "tools",
        ToolsSettings,
        lambda settings, host: build(
            settings, telemetry=host.telemetry, clock=host.clock, ids=host.ids
        ),
        databases=lambda settings: [
            settings.tools_database_url,
            settings.paper_venue_url or settings.paper_database_url,
        ],
    )
