"""The tools service as a process of its own that may die at a point, and may have a planted bug."""

import asyncio
import os
import platform
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import sqlalchemy as sa
import uvloop
from pydantic_core import PydanticSerializationError
from typing_extensions import override

from minara_core.ids import IdSource, RandomIds
from minara_runtime import telemetry
from minara_runtime.database import Database
from minara_runtime.grants import GrantVerifier
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import read_public_keys
from minara_runtime.server import serve
from minara_runtime.service import Job, Service, running
from minara_runtime.service_audit import with_audit
from minara_runtime.statements import database_time
from minara_tools.adapters.counter_file import CounterFile, counter_path
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.sandbox_files import SandboxFiles
from minara_tools.adapters.venue_paper_wire import to_json
from minara_tools.domain.venue_terms import InstrumentRules, VenueAnswer, VenueFact, VenueQuote
from minara_tools.main import SANDBOX, Parts, assemble
from minara_tools.money import Pace
from minara_tools.toolsets.catalog import builtin_tools
from support.faults.control import Control, ControlledClock
from support.faults.orders import Bug, Start
from support.faults.sending import EarlyVenue, HastyVenue, RecordingVenue, resend_forever
from support.faults.venue_process import SECRET, announce, settings_of

SEND_SECONDS = 1.2
LEASE = timedelta(seconds=1)
PACE = Pace(
    recover_seconds=0.05,
    reconcile_seconds=0.3,
    sweep_seconds=0.2,
    send_seconds=SEND_SECONDS,
    lease_lifetime=LEASE,
)
_LEAP = timedelta(seconds=40)
_VENUES = {Bug.SENDS_EARLY: EarlyVenue, Bug.VOIDS_EARLY: HastyVenue}


class CrashPoint:
    """A Failpoint: at its point, once armed, the process is gone or stands still."""

    def __init__(self, start: Start, control: Control) -> None:
        self._start = start
        self._control = control

    def __call__(self, name: str) -> None:
        if name != self._start.point or not self._control.get("armed"):
            return
        self._control.set("armed", 0)
        self._start.place("met").write_text(name)
        os.kill(os.getpid(), signal.SIGKILL if self._start.is_kill else signal.SIGSTOP)
        # Another thread may get the signal: this one goes no further until it has come.
        while not self._control.get("resumed"):
            pass


class NamedIds(IdSource):
    """Random ids; the first one names the process (`assemble` takes it before any other)."""

    def __init__(self) -> None:
        self._ids = RandomIds()
        self.first = ""

    def new(self) -> str:
        made = self._ids.new()
        self.first = self.first or made
        return made


class RunawayClock(ControlledClock):
    """A part of a bug: each look at it takes a minute."""

    _looks = 0

    @override
    def monotonic(self) -> float:
        self._looks += 1
        return super().monotonic() + 60.0 * self._looks


def main(start: Start) -> None:
    uvloop.run(_serve(start))


def warm_up() -> None:
    """Build what the first requests of every forked process would build."""
    for kind in (VenueAnswer, VenueQuote):
        _schema_of(kind)
    for kind in (tuple[InstrumentRules, ...], tuple[VenueFact, ...]):
        to_json((), kind)


def _schema_of(kind: type) -> None:
    # Nothing is no value of the kind: only its schema is wanted.
    with suppress(PydanticSerializationError):
        to_json(None, kind)


async def _serve(start: Start) -> None:
    control = Control(start.control)
    is_hasty = start.bug is Bug.VOIDS_EARLY and not start.point
    kind = RunawayClock if is_hasty else ControlledClock
    clock = kind(control, start.who)
    service = _service(start, control, clock)
    keys = read_public_keys(start.data_dir / "keys")
    interceptors = server_interceptors(GrantVerifier(keys, clock), telemetry.disabled())
    async with running(service, first_delay_seconds=0.1):
        handle = await serve(service, "127.0.0.1:0", interceptors=interceptors, reflect=False)
        announce(start, f"127.0.0.1:{handle.port}")
        await asyncio.Event().wait()


def _service(start: Start, control: Control, clock: ControlledClock) -> Service:
    settings, ids = settings_of(start), NamedIds()
    crash = CrashPoint(start, control)
    market = SimulatedMarket(clock)
    kind = _VENUES.get(start.bug, RecordingVenue)
    venue = kind(
        start.venue_url,
        SECRET.encode(),
        clock,
        failpoint=crash,
        sends=start.sends,
        owner=lambda: ids.first,
    )
    database = Database.open(start.database_url, durable=True)
    files = SandboxFiles(settings.data_dir / SANDBOX)
    jobs: tuple[Job, ...] = ()
    if start.bug is Bug.RESENDS:
        jobs = (Job(name="resend", run=lambda: resend_forever(database, venue)),)
    service = assemble(
        database,
        Parts(
            entries=builtin_tools(market=market, venue=venue, files=files, clock=clock),
            venue=venue,
            market=market,
            aclose=venue.aclose,
            jobs=jobs,
        ),
        halt_file=HaltFile(settings.data_dir),
        counter_file=CounterFile(counter_path(settings.data_dir), host=platform.node()),
        telemetry=telemetry.disabled(),
        clock=clock,
        ids=ids,
        failpoint=crash,
        time_of=_clock_of_money(start, control, clock, database),
        pace=PACE,
    )
    return with_audit(service, settings, database, clock=clock, ids=ids, failpoint=crash)


def _clock_of_money(
    start: Start, control: Control, clock: ControlledClock, database: Database
) -> Callable[[sa.Connection], datetime]:
    """As in production, but that the time which the harness lets pass has passed there too."""
    leaps = 0

    def time_of(connection: sa.Connection) -> datetime:
        if database.dialect == "sqlite":
            return clock.now()
        return database_time(connection) + timedelta(seconds=control.get("elapsed"))

    def leaping(connection: sa.Connection) -> datetime:
        nonlocal leaps
        leaps += 1
        return time_of(connection) + leaps * _LEAP

    is_recovering = start.bug is Bug.VOIDS_EARLY and not start.point
    return leaping if is_recovering else time_of
