"""One service in a process of its own: settings, logs, traces, keys, a server, until a signal."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import uvloop

from minara_core.clock import Clock, SystemClock
from minara_core.ids import IdSource, RandomIds
from minara_runtime import logging, telemetry
from minara_runtime.data_folder import DataFolder
from minara_runtime.grants import GrantSigner, GrantVerifier
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import (
    CONFIRMATION,
    GATEWAY,
    SERVICES,
    KeyPair,
    PublicKeys,
    load_or_create,
    read_public_keys,
)
from minara_runtime.server import run_until_signal
from minara_runtime.service import Service
from minara_runtime.settings import Settings, TrustedIssuer, read
from minara_runtime.telemetry import Telemetry

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a process lends the service it runs. `signer` signs with the service's own key."""

    signer: GrantSigner
    telemetry: Telemetry
    clock: Clock
    ids: IdSource


def run_service(
    name: str,
    settings_type: type[S],
    address: Callable[[S], str],
    make: Callable[[S, Host], Service],
) -> None:
    """Run one service until SIGTERM or SIGINT; the whole `main` of a service.

    Raises SettingsError for a setting that does not fit, Conflict when another process holds the
    service's database in this data folder.
    """
    os.umask(0o077)  # what Minara keeps is its owner's alone
    settings = read(settings_type)
    DataFolder(settings.data_dir)
    logging.configure(settings, console=True)
    uvloop.run(_run(name, settings, address(settings), make))


async def _run(name: str, settings: S, address: str, make: Callable[[S, Host], Service]) -> None:
    folder = DataFolder(settings.data_dir)
    lock = folder.lock(name)
    traces = telemetry.configure(settings, name)
    clock, ids = SystemClock(), RandomIds()
    try:
        own, public = installation_keys(folder, settings.trusted_issuers)
        host = Host(
            signer=GrantSigner(own[name], clock, ids), telemetry=traces, clock=clock, ids=ids
        )
        interceptors = server_interceptors(GrantVerifier(public, clock), traces, ids=ids)
        await run_until_signal(make(settings, host), address, interceptors=interceptors)
    finally:
        traces.close()
        lock.release()


def installation_keys(
    folder: DataFolder, trusted: tuple[TrustedIssuer, ...]
) -> tuple[dict[str, KeyPair], PublicKeys]:
    """All services' own keys, made where they are missing, and the public keys all of them believe.

    For an installation of one user on one machine, in whatever order its processes start. Where
    services run as different users, each has its own folder and reads the others' public keys.
    """
    own = {name: load_or_create(folder.keys(name), name) for name in SERVICES}
    load_or_create(folder.keys(GATEWAY), CONFIRMATION)
    return own, read_public_keys(folder.path / "keys", trusted)
