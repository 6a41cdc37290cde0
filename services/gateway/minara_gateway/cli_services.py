"""Services as processes of their own: one of them here, or all five on this machine."""

import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc as health_grpc

from minara_core.errors import MinaraError
from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.client import GatewayClient
from minara_gateway.settings import GatewaySettings
from minara_runtime.channels import connect
from minara_runtime.data_folder import DataFolder
from minara_runtime.hosting import own_place
from minara_runtime.keys import GATEWAY, SERVICES
from minara_runtime.tls import tls_of

local_app = typer.Typer(
    no_args_is_help=True, help="All five services as processes on this machine."
)

START_SECONDS = 40.0
ASK_SECONDS = 2.0
FOLDER = "local"
"""Under the data folder: a pid file and a log per service."""

_START_ORDER = ("workspace", "tools", "skills", "orchestrator", "gateway")


def health(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_START_ORDER)}.")],
) -> None:
    """Whether a service on this machine is ready: exits with 0 or 1, for health checks."""
    if name not in SERVICES:
        raise ended(f"no service {name}; there are {', '.join(_START_ORDER)}", code=2)
    if name in run(_not_ready(settings_or_end().gateway, [name])):
        raise ended(f"{name} is not ready")
    typer.echo(f"{name} is ready")


def service(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_START_ORDER)}.")],
) -> None:
    """Run one service in this process, over TCP to the others, until it is interrupted."""
    if name not in SERVICES:
        raise ended(f"no service {name}; there are {', '.join(_START_ORDER)}", code=2)
    runpy.run_module(f"minara_{name}", run_name="__main__")


@local_app.command()
def up(as_json: JsonFlag = False) -> None:
    """Start five processes, wait until all of them are ready, and say where they are."""
    settings = settings_or_end().gateway
    folder = _folder(settings)
    if running := dict(_running(folder)):
        raise ended(f"already running: {_listed(running)}; `minara local down` stops them")
    if settings.metrics_address is not None:
        raise ended("MINARA_METRICS_ADDRESS is one process's: unset it for five of them", code=2)
    logged = {name: _size(folder / f"{name}.log") for name in _START_ORDER}
    started = {name: _start(name, folder) for name in _START_ORDER}
    failed = _until_ready(settings, started)
    if failed:
        _stop(dict(_running(folder)), settings.grace_seconds)
        said = _last_words(folder / f"{failed}.log", logged[failed])
        raise ended(f"{failed} did not become ready: {said}\nmore in {folder / failed}.log")
    url = f"http://{settings.host}:{settings.port}"
    pids = {name: process.pid for name, process in started.items()}
    if as_json:
        typer.echo(json.dumps({"url": url, "pids": pids, "logs": str(folder)}))
    else:
        typer.echo(f"serving {url}\n{_listed(pids)}\nlogs: {folder}/<service>.log")


@local_app.command()
def down() -> None:
    """Stop them in good order, the gateway first, and wait until they have ended."""
    settings = settings_or_end().gateway
    running = dict(_running(_folder(settings)))
    if not running:
        typer.echo("nothing runs here")
        return
    killed = _stop(running, settings.grace_seconds)
    if killed:
        raise ended(f"had to be killed: {', '.join(killed)}")
    typer.echo(f"stopped: {', '.join(running)}")


@local_app.command()
def status(as_json: JsonFlag = False) -> None:
    """Which of them run; exits with 1 unless all do."""
    running = dict(_running(_folder(settings_or_end().gateway)))
    missing = [name for name in _START_ORDER if name not in running]
    if as_json:
        typer.echo(json.dumps({"running": running, "missing": missing}))
    else:
        typer.echo(f"running: {_listed(running) or 'none'}")
    if missing:
        raise ended(f"not running: {', '.join(missing)}")


def _folder(settings: GatewaySettings) -> Path:
    folder = DataFolder(settings.data_dir).path / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_words(log: Path, start: int) -> str:
    """What a process said last that is no line of its log, for people to read."""
    lines = log.read_bytes()[start:].decode("utf-8", "replace").splitlines()
    plain = [line for line in lines if line and not line.startswith("{")]
    return plain[-1] if plain else "it said nothing"


def _listed(pids: dict[str, int]) -> str:
    return ", ".join(f"{name} ({pid})" for name, pid in pids.items())


def _start(name: str, folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own modules
            [sys.executable, "-m", f"minara_{name}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / f"{name}.pid").write_text(str(process.pid), "ascii")
    return process


def _running(folder: Path) -> Iterator[tuple[str, int]]:
    """Which services run by their pid files; a number that is another program's by now is not."""
    for name in reversed(_START_ORDER):
        file = folder / f"{name}.pid"
        text = file.read_text("ascii").strip() if file.exists() else ""
        if text.isdigit() and f"minara_{name}".encode() in _command_of(int(text)):
            yield name, int(text)
        else:
            file.unlink(missing_ok=True)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        done = subprocess.run(  # noqa: S603 - where there is no /proc
            ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
        )
        return done.stdout


def _until_ready(
    settings: GatewaySettings, started: "dict[str, subprocess.Popen[bytes]]"
) -> str | None:
    """Wait until the gateway and all its peers are ready; who is not, if it takes too long."""
    asked: list[str] = []

    def look() -> bool:
        asked[:] = [name for name, process in started.items() if process.poll() is not None]
        if asked:
            return True
        asked[:] = run(_not_ready(settings, _START_ORDER, with_peers=True))
        # Whoever answered may be another's: ours must live to be the one.
        asked[:] += [name for name, process in started.items() if process.poll() is not None]
        return not asked

    _waited(look, START_SECONDS)
    return asked[0] if asked else None


async def _not_ready(
    settings: GatewaySettings, names: Iterable[str], *, with_peers: bool = False
) -> list[str]:
    """Who of them is not; the gateway only `with_peers` when it has found them, too."""
    is_ready = {
        name: await (
            _gateway_is_ready(settings, with_peers=with_peers)
            if name == GATEWAY
            else _is_ready(settings, name)
        )
        for name in names
    }
    return [name for name, ready in is_ready.items() if not ready]


async def _gateway_is_ready(settings: GatewaySettings, *, with_peers: bool) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - asked, not bound
    client = GatewayClient.over_url(f"http://{host}:{settings.port}", "")
    try:
        async with asyncio.timeout(ASK_SECONDS):
            told = await client.call("GET", "/readyz")
            return bool(told["ready"]) and (not with_peers or all(told["peers"].values()))
    except (MinaraError, TimeoutError):
        return False
    finally:
        await client.aclose()


async def _is_ready(settings: GatewaySettings, name: str) -> bool:
    """Asks where the service of this process listens, else where its peers find it."""
    address = own_place(name, settings)
    host, _, port = address.rpartition(":")
    place = f"127.0.0.1:{port}" if host == "0.0.0.0" else address  # noqa: S104 - asked, not bound
    async with connect(place, peer=name, tls=tls_of(settings, name)) as channel:
        stub: Any = health_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb.HealthCheckRequest(), timeout=ASK_SECONDS)
        except MinaraError:
            return False
    return bool(answer.status == health_pb.HealthCheckResponse.SERVING)


def _stop(running: dict[str, int], grace_seconds: float) -> list[str]:
    """End them one after another, callers before those they call; who had to be killed."""
    killed: list[str] = []
    for name, pid in running.items():
        os.kill(pid, signal.SIGTERM)

        def is_over(name: str = name, pid: int = pid) -> bool:
            _reap(pid)
            return f"minara_{name}".encode() not in _command_of(pid)

        if not _waited(is_over, grace_seconds + 10):
            os.kill(pid, signal.SIGKILL)
            killed.append(name)
    return killed


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _waited(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True
