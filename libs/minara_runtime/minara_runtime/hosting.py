"""One service in a process of its own: settings, logs, traces, keys, a server, until a signal."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import grpc.aio
import uvloop
from google.protobuf.descriptor import FileDescriptor

from minara_core.clock import Clock, SystemClock
from minara_core.errors import InvalidRequest, MinaraError
from minara_core.ids import IdSource, RandomIds
from minara_runtime import logging, telemetry
from minara_runtime.addresses import own_address
from minara_runtime.channels import connect
from minara_runtime.data_folder import DataFolder
from minara_runtime.grants import GrantSigner, GrantVerifier
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import SERVICES, KeyPair, has_shown, own_keys, read_public_keys
from minara_runtime.server import run_until_signal
from minara_runtime.service import Service
from minara_runtime.settings import Settings, SettingsError, read
from minara_runtime.telemetry import Telemetry
from minara_runtime.tls import tls_of

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a process lends the service it runs. `signer` signs with the service's own key;
    `connect` makes a channel to a peer, by its name and the contracts that are called over it."""

    signer: GrantSigner
    telemetry: Telemetry
    clock: Clock
    ids: IdSource
    connect: Callable[[str, Iterable[FileDescriptor]], grpc.aio.Channel]


def run_service(
    name: str,
    settings_type: type[S],
    make: Callable[[S, Host], Service],
    *,
    databases: Callable[[S], Iterable[str | None]],
) -> None:
    """Run one service until SIGTERM or SIGINT; the whole `main` of a service.

    `databases` are the URLs of its databases, None for one in the data folder. Raises SettingsError
    for a setting that does not fit, Conflict when another process holds the service's SQLite
    database in this data folder.
    """
    with ending_clearly():
        settings = start_of(settings_type)
        uvloop.run(_run(name, settings, make, databases(settings)))


def start_of(settings_type: type[S]) -> S:
    """How every process of ours begins: its settings read, its folder made, its log open."""
    os.umask(0o077)  # what Minara keeps is its owner's alone
    settings = read(settings_type)
    DataFolder(settings.data_dir)
    logging.configure(settings, console=True)
    return settings


@contextmanager
def ending_clearly() -> Generator[None]:
    """End the process with a sentence instead of a traceback for what it refuses: 2 for a wrong
    setting, 1 for what it found."""
    try:
        yield
    except MinaraError as error:
        code = 2 if isinstance(error, InvalidRequest) else 1
        sys.stderr.write(f"{error.reason}: {error.message}\n")
        raise SystemExit(code) from None


async def _run(
    name: str,
    settings: S,
    make: Callable[[S, Host], Service],
    databases: Iterable[str | None],
) -> None:
    async with hosting(name, settings, databases=databases) as host:
        public = read_public_keys(settings.data_dir / "keys", settings.trusted_issuers)
        interceptors = server_interceptors(
            GrantVerifier(public, host.clock), host.telemetry, ids=host.ids
        )
        service = make(settings, host)
        host.telemetry.metrics.watch(service.gauges)
        await run_until_signal(
            service,
            own_place(name, settings),
            interceptors=interceptors,
            tls=tls_of(settings, name),
            grace_seconds=settings.grace_seconds,
        )


@asynccontextmanager
async def hosting(
    name: str, settings: Settings, *, databases: Iterable[str | None]
) -> AsyncGenerator[Host]:
    """What any process of ours has around its service, let go when the body ends.

    A service on SQLite is alone in its data folder; replicas on PostgreSQL may share one.
    """
    folder = DataFolder(settings.data_dir)
    tls = tls_of(settings, name)
    async with AsyncExitStack() as stack:
        if any(url is None or url.startswith("sqlite") for url in databases):
            stack.callback(folder.lock(name).release)
        traces = telemetry.configure(settings, name)
        stack.callback(traces.close)
        clock, ids = SystemClock(), RandomIds()

        def connected(peer: str, contracts: Iterable[FileDescriptor]) -> grpc.aio.Channel:
            channel = connect(_target(peer, settings), peer=peer, contracts=contracts, tls=tls)
            stack.push_async_callback(channel.close)
            return channel

        yield Host(
            signer=GrantSigner(installation_keys(folder, name), clock, ids),
            telemetry=traces,
            clock=clock,
            ids=ids,
            connect=connected,
        )


def installation_keys(folder: DataFolder, name: str) -> KeyPair:
    """A service's own key, made where it is missing, as are those that services have not shown yet.

    So the processes of one installation may start in whatever order; and where each has a key
    folder of its own beside the others' public keys, it neither needs nor sees more.
    """
    for service in SERVICES:
        if service == name or not has_shown(folder.path / "keys" / service, service):
            own_keys(folder.keys(service), service)
    return own_keys(folder.keys(name), name)[0]


def _target(peer: str, settings: Settings) -> str:
    return {
        "orchestrator": settings.orchestrator_address,
        "workspace": settings.workspace_address,
        "skills": settings.skills_address,
        "tools": settings.tools_address,
    }[peer]


def own_place(name: str, settings: Settings) -> str:
    """Where the service of this process listens. Raises SettingsError when that is not said."""
    address = own_address(settings.listen, _target(name, settings))
    if address is None:
        raise SettingsError(
            f"MINARA_LISTEN: say where this process listens; MINARA_{name.upper()}_ADDRESS stands "
            "for several places",
            metadata={"field": "MINARA_LISTEN"},
        )
    return address
