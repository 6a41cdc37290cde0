"""Composition root of the tools service: settings to objects to a Service."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.tools.v1 import trading_control_service_pb2_grpc as control_grpc
from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.hosting import run_service
from minara_runtime.process_lease import ProcessLease
from minara_runtime.service import Job, Service, Servicer
from minara_runtime.telemetry import Telemetry
from minara_tools.adapters.call_tracing import BugLog, CallTracing
from minara_tools.adapters.grpc_server import ToolServicer
from minara_tools.adapters.grpc_server_approvals import ApprovalServicer, TradingControlServicer
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.sandbox_files import SandboxFiles
from minara_tools.adapters.sql_actions import SqlActions
from minara_tools.adapters.sql_calls import SqlCalls
from minara_tools.adapters.sql_trading import SqlTradingStates
from minara_tools.adapters.sql_turns import SqlTurns
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.app.confirm_action import ActionDecisions
from minara_tools.app.execute_tools import ToolDispatcher
from minara_tools.app.open_turn import TurnOpening
from minara_tools.app.ports import Venue
from minara_tools.app.preview_move import MovePreview
from minara_tools.app.record_calls import CallRecorder
from minara_tools.app.settle_actions import ActionSettling
from minara_tools.app.trading_control import TradingControl
from minara_tools.domain.gates import GATES
from minara_tools.domain.local_tools import local_tools
from minara_tools.domain.registry import ToolEntry, ToolRegistry
from minara_tools.settings import ToolsSettings
from minara_tools.toolsets.catalog import builtin_tools

VERSIONS = Path(__file__).parent / "adapters" / "migrations" / "versions"
SANDBOX = Path("sandbox") / "files"
"""Under `data_dir`: one folder per user."""


async def _nothing() -> None:
    """A part with nothing to start or close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service is made of besides its own books: tools, and the venue that executes."""

    entries: tuple[ToolEntry, ...]
    venue: Venue
    start: Callable[[], Awaitable[None]] = _nothing
    aclose: Callable[[], Awaitable[None]] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stores:
    turns: SqlTurns
    calls: SqlCalls
    actions: SqlActions
    trading: SqlTradingStates


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
) -> Service:
    """The tools service as its settings want it, wired and not started."""
    folder = DataFolder(settings.data_dir)
    # Money is on disk before it is on its way.
    database = Database.open(
        settings.tools_database_url or folder.database_url("tools"), durable=True
    )
    return assemble(
        database,
        _parts(settings, folder, clock),
        halt_file=HaltFile(settings.data_dir),
        telemetry=telemetry,
        clock=clock,
        ids=ids,
        failpoint=failpoint,
    )


def _parts(settings: ToolsSettings, folder: DataFolder, clock: Clock) -> Parts:
    market = SimulatedMarket(clock)
    database = Database.open(
        settings.paper_database_url or folder.database_url("paper"), durable=True
    )
    venue = PaperVenue(database, market, clock, starting_balances=settings.starting_balances)
    files = SandboxFiles(settings.data_dir / SANDBOX)
    return Parts(
        entries=builtin_tools(market=market, venue=venue, files=files, clock=clock),
        venue=venue,
        start=venue.migrate,
        aclose=database.aclose,
    )


def assemble(
    database: Database,
    parts: Parts,
    *,
    halt_file: HaltFile,
    telemetry: Telemetry,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
) -> Service:
    """The tools service over these parts and this database (open with `durable`), not started."""
    owner = ids.new()
    stores = _stores(database, halt_file, clock, owner=owner)
    registry = ToolRegistry((*parts.entries, *local_tools()))
    tracing = CallTracing(telemetry)
    decisions = ActionDecisions(
        stores.actions, registry, parts.venue, clock=clock, tracing=tracing, failpoint=failpoint
    )
    settling = ActionSettling(
        stores.actions, decisions, registry, parts.venue, clock=clock, tracing=tracing
    )
    dispatcher = _dispatcher(registry, stores, tracing, clock, ids)
    lease = ProcessLease(database, owner=owner)

    async def start() -> None:
        await database.migrate(VERSIONS)
        await parts.start()
        await lease.begin()
        await settling.settle()

    async def aclose() -> None:
        await decisions.aclose()
        await stores.calls.aclose()
        await parts.aclose()
        await database.aclose()

    return Service(
        name="tools",
        servicers=_servicers(
            ToolServicer(registry, TurnOpening(stores.turns, clock), dispatcher),
            ApprovalServicer(stores.actions, decisions),
            TradingControlServicer(
                TradingControl(stores.trading, registry, clock=clock, tracing=tracing)
            ),
        ),
        start=start,
        aclose=aclose,
        jobs=(
            Job(name="stay-alive", run=lease.stay_alive),
            Job(name="settle-actions", run=settling.run_forever),
        ),
    )


def _dispatcher(
    registry: ToolRegistry, stores: _Stores, tracing: CallTracing, clock: Clock, ids: IdSource
) -> ToolDispatcher:
    return ToolDispatcher(
        registry,
        GATES,
        stores.turns,
        CallRecorder(stores.calls, clock, tracing),
        MovePreview(clock, ids),
        clock=clock,
        tracing=tracing,
        report_bug=BugLog(ids).report,
    )


def _stores(database: Database, halt_file: HaltFile, clock: Clock, *, owner: str) -> _Stores:
    return _Stores(
        turns=SqlTurns(database, halt_file.exists),
        calls=SqlCalls(database),
        actions=SqlActions(database, halt_file.exists, clock, owner=owner),
        trading=SqlTradingStates(database, halt_file.exists),
    )


def _servicers(
    tools: ToolServicer, approvals: ApprovalServicer, control: TradingControlServicer
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
    )


def main() -> None:
    """Run the tools service alone, on `MINARA_TOOLS_ADDRESS`."""
    run_service(
        "tools",
        ToolsSettings,
        lambda settings: settings.tools_address,
        lambda settings, host: build(
            settings, telemetry=host.telemetry, clock=host.clock, ids=host.ids
        ),
    )
