"""Composition root of the gateway: settings and channels to an ASGI app."""

import asyncio
import hashlib
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop
from fastapi import FastAPI

from minara_core.clock import Clock, SystemClock
from minara_core.ids import SINGLE_USER, IdSource, RandomIds
from minara_core.taxonomy import Scope
from minara_gateway.confirmation import Confirmations
from minara_gateway.http import make_app
from minara_gateway.peers import Channels, GrantDesk, Peers
from minara_gateway.serving import SOCKET_FILE, bind_tcp, bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_gateway.store import Caller, GatewayStore
from minara_gateway.turns import Turns
from minara_runtime import logging
from minara_runtime.channels import connect
from minara_runtime.collector import leave_to_live
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.grants import GrantSigner
from minara_runtime.hosting import installation_keys
from minara_runtime.keys import CONFIRMATION, GATEWAY, load_or_create
from minara_runtime.settings import SettingsError, read

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
TOKEN_FILE = "token"  # noqa: S105 - a file's name

OWNER = Caller(user_id=SINGLE_USER, scopes=frozenset(Scope), is_interactive=True)
"""The person whose installation this is; the token of the data folder is their log-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The app, and what starts and stops around it. `token` is the owner's."""

    app: FastAPI
    token: str
    start: Callable[[], Awaitable[None]]
    aclose: Callable[[], Awaitable[None]]


def build(settings: GatewaySettings, channels: Channels, *, clock: Clock, ids: IdSource) -> Gateway:
    """The gateway, wired and not started. Raises SettingsError when it would serve strangers
    without configured authentication."""
    if settings.host not in LOOPBACK and not settings.http_token:
        raise SettingsError(
            "MINARA_HTTP_TOKEN: set it before listening elsewhere than on loopback",
            metadata={"field": "MINARA_HTTP_TOKEN"},
        )
    folder = DataFolder(settings.data_dir)
    keys = folder.keys("gateway")
    confirmation_key = load_or_create(keys, CONFIRMATION)
    grants = GrantDesk(
        GrantSigner(load_or_create(keys, GATEWAY), clock, ids),
        GrantSigner(confirmation_key, clock, ids),
        clock,
    )
    store = GatewayStore(
        Database.open(settings.gateway_database_url or folder.database_url("gateway")), clock
    )
    peers = Peers(channels)
    code_key = hashlib.sha256(confirmation_key.private_key.private_bytes_raw()).digest()
    confirmations = Confirmations(peers, grants, store, code_key)
    turns = Turns(peers=peers, grants=grants, confirmations=confirmations, store=store)
    app = make_app(
        peers=peers,
        grants=grants,
        confirmations=confirmations,
        store=store,
        turns=turns,
        ids=ids,
        hosts=LOOPBACK | {host.lower() for host in settings.hosts} | {settings.host},
    )
    token = settings.http_token or owner_token(settings.data_dir)

    async def start() -> None:
        await store.migrate()
        await store.add_token(token, OWNER, name="owner")

    async def aclose() -> None:
        await turns.aclose()
        await store.aclose()

    return Gateway(app=app, token=token, start=start, aclose=aclose)


def owner_token(data_dir: Path) -> str:
    """The token in `<data_dir>/token`, made at first start with mode 0600."""
    path = data_dir / TOKEN_FILE
    if not path.exists() or not path.read_text(encoding="ascii").strip():
        draft = path.with_name(f".{TOKEN_FILE}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        draft.replace(path)  # whole or not at all, whenever the process ends
    return path.read_text(encoding="ascii").strip()


def main() -> None:
    """Run the gateway alone, over TCP to its peers, until SIGTERM or SIGINT."""
    os.umask(0o077)  # what Minara keeps is its owner's alone
    settings = read(GatewaySettings)
    DataFolder(settings.data_dir)
    logging.configure(settings, console=True)
    uvloop.run(_run(settings))


async def _run(settings: GatewaySettings) -> None:
    folder = DataFolder(settings.data_dir)
    lock = folder.lock("gateway")
    installation_keys(folder, settings.trusted_issuers)
    channels = Channels(
        orchestrator=connect(settings.orchestrator_address, peer="orchestrator"),
        workspace=connect(settings.workspace_address, peer="workspace"),
        tools=connect(settings.tools_address, peer="tools"),
    )
    gateway = build(settings, channels, clock=SystemClock(), ids=RandomIds())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await gateway.start()
        listeners = [
            bind_unix(settings.data_dir / SOCKET_FILE),
            bind_tcp(settings.host, settings.port),
        ]
        async with serving(gateway.app, *listeners):
            leave_to_live()
            await stop.wait()
    finally:
        await gateway.aclose()
        lock.release()
