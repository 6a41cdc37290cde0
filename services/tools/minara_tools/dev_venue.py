"""`minara dev venue`: the paper venue as a process of its own, over HTTP on loopback."""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from minara_core.clock import Clock, SystemClock
from minara_core.errors import Conflict
from minara_core.reasons import ErrorReason
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.settings import read
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.adapters.venue_paper_http_faults import FaultSwitchboard, OffsetClock
from minara_tools.adapters.venue_paper_http_prices import ForcedPrices
from minara_tools.adapters.venue_paper_http_server import venue_app
from minara_tools.settings import ToolsSettings

_LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 5


async def run_dev_venue(
    *,
    port: int,
    data_dir: Path | None,
    database_url: str | None,
    with_faults: bool,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until interrupted; `on_ready` gets the URL once it answers. Port 0 is any free one.

    Without `data_dir` the database lies in a folder of its own in the data folder. Raises
    SettingsError without a secret, Conflict when the port is taken.
    """
    settings = read(ToolsSettings)
    own = {"data_dir": (data_dir or settings.data_dir / "dev-venue").expanduser().absolute()}
    chosen = settings.model_copy(update=own | {"paper_database_url": database_url})
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with dev_venue(chosen, SystemClock(), port=port, with_faults=with_faults) as url:
        on_ready(url)
        await stop.wait()


@asynccontextmanager
async def dev_venue(
    settings: ToolsSettings, clock: Clock, *, port: int, with_faults: bool
) -> AsyncGenerator[str]:
    """A served venue while the body runs; its URL."""
    secret = settings.paper_secret()
    folder = DataFolder(settings.data_dir)
    database = Database.open(
        settings.paper_database_url or folder.database_url("paper"), durable=True
    )
    own_clock = OffsetClock(clock)
    prices = ForcedPrices(SimulatedMarket(own_clock))
    venue = PaperVenue(
        database,
        prices,
        own_clock,
        starting_balances=settings.starting_balances,
        secret=secret,
    )
    faults = FaultSwitchboard(venue, own_clock, prices) if with_faults else None
    try:
        await venue.migrate()
        async with serving(venue_app(venue, own_clock, secret, faults), port=port) as url:
            matching = asyncio.create_task(venue.advance_forever())
            try:
                yield url
            finally:
                matching.cancel()
                await asyncio.wait([matching])
    finally:
        await database.aclose()


@asynccontextmanager
async def serving(app: ASGIApp, *, port: int = 0) -> AsyncGenerator[str]:
    """`app` on loopback while the body runs; its URL."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, port))
        except OSError as error:
            raise Conflict(
                f"port {port} is taken",
                reason=ErrorReason.ALREADY_EXISTS,
                metadata={"port": str(port)},
            ) from error
        listener.listen(256)
        server = _Server(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started and not task.done():
                await asyncio.wait([task], timeout=0.01)
            if task.done():
                task.result()
            yield f"http://{_LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await task


class _Server(uvicorn.Server):
    """Leaves signals to the program that runs it."""

    @contextmanager
    @override
    def capture_signals(self) -> Generator[None, None, None]:
        yield
