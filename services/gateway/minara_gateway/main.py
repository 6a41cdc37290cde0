"""Composition root of the gateway: settings and channels to an ASGI app."""

import asyncio
import hashlib
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop
from fastapi import FastAPI

from minara.audit.v1 import audit_service_pb2 as audit_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import goal_service_pb2 as goal_pb
from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara.tools.v1 import tool_service_pb2 as tool_pb
from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.clock import Clock, pause
from minara_core.errors import Conflict
from minara_core.ids import SINGLE_USER, IdSource
from minara_core.taxonomy import Scope
from minara_gateway.confirmation import Confirmations
from minara_gateway.http import make_app
from minara_gateway.known_sessions import KnownSessions
from minara_gateway.peers import Channels, GrantDesk, Peers
from minara_gateway.readiness import Readiness
from minara_gateway.request_tracing import trace_requests
from minara_gateway.serving import SOCKET_FILE, bind_tcp, bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_gateway.steering import Steering
from minara_gateway.store import Caller, GatewayStore
from minara_gateway.turns import Turns
from minara_runtime import logging
from minara_runtime.collector import leave_to_live
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.grants import GrantSigner
from minara_runtime.hosting import ending_clearly, hosting, start_of
from minara_runtime.keys import CONFIRMATION, GATEWAY, load_or_create
from minara_runtime.server import LEAVING_SECONDS
from minara_runtime.settings import SettingsError

STREAMS_SHARE = 0.8
"""Of the grace, open streams have this much to come to their own end."""

_TOOLS_CONTRACTS = (
    approval_pb.DESCRIPTOR,
    audit_pb.DESCRIPTOR,
    limit_pb.DESCRIPTOR,
    tool_pb.DESCRIPTOR,
    control_pb.DESCRIPTOR,
)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
TOKEN_FILE = "token"  # noqa: S105 - a file's name

OWNER = Caller(user_id=SINGLE_USER, scopes=frozenset(Scope), is_interactive=True)
"""The person whose installation this is; the token of the data folder is their log-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The app, and what starts and stops around it. `token` is the owner's.

    `leave` makes it not ready; `end_streams` ends open streams with a hint where to resume them.
    """

    app: FastAPI
    token: str
    start: Callable[[], Awaitable[None]]
    aclose: Callable[[], Awaitable[None]]
    leave: Callable[[], None]
    end_streams: Callable[[], None]


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
    store = _store(settings, folder, clock)
    peers = Peers(channels)
    code_key = hashlib.sha256(confirmation_key.private_key.private_bytes_raw()).digest()
    confirmations = Confirmations(peers, grants, store, code_key)
    sessions = KnownSessions(peers, grants)
    turns = Turns(
        peers=peers, grants=grants, confirmations=confirmations, store=store, sessions=sessions
    )
    steering = Steering(peers=peers, grants=grants, store=store, sessions=sessions, turns=turns)
    readiness = Readiness(store, channels, clock)
    leaving = asyncio.Event()
    app = make_app(
        peers=peers,
        grants=grants,
        confirmations=confirmations,
        store=store,
        known_sessions=sessions,
        turns=turns,
        steering=steering,
        is_ready=readiness,
        leaving=leaving,
        clock=clock,
        ids=ids,
        hosts=LOOPBACK | {host.lower() for host in settings.hosts} | {settings.host},
    )
    token = settings.http_token or owner_token(settings.data_dir)

    async def start() -> None:
        await store.migrate()
        await store.add_token(token, OWNER, name="owner")

    async def aclose() -> None:
        await steering.aclose()
        await turns.aclose()
        await store.aclose()

    return Gateway(
        app=app,
        token=token,
        start=start,
        aclose=aclose,
        leave=readiness.leave,
        end_streams=leaving.set,
    )


def _store(settings: GatewaySettings, folder: DataFolder, clock: Clock) -> GatewayStore:
    url = settings.gateway_database_url or folder.database_url("gateway")
    return GatewayStore(Database.open(url, pool_size=settings.database_pool_size), clock)


def owner_token(data_dir: Path) -> str:
    """The token in `<data_dir>/token`, made at first start with mode 0600."""
    path = data_dir / TOKEN_FILE
    if path.exists() and not path.read_text(encoding="ascii").strip():
        path.unlink()
    if not path.exists():
        draft = path.with_name(f".{TOKEN_FILE}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        with suppress(FileExistsError):  # another replica's is the token
            os.link(draft, path)  # whole or not at all, whenever the process ends
        draft.unlink()
    return path.read_text(encoding="ascii").strip()


def main() -> None:
    """Run the gateway alone, over TCP to its peers, until SIGTERM or SIGINT."""
    with ending_clearly():
        uvloop.run(_run(start_of(GatewaySettings)))


async def _run(settings: GatewaySettings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(
            hosting(GATEWAY, settings, databases=[settings.gateway_database_url])
        )
        channels = Channels(
            orchestrator=host.connect("orchestrator", [agent_pb.DESCRIPTOR, goal_pb.DESCRIPTOR]),
            workspace=host.connect("workspace", [session_pb.DESCRIPTOR, audit_pb.DESCRIPTOR]),
            tools=host.connect("tools", _TOOLS_CONTRACTS),
        )
        gateway = build(settings, channels, clock=host.clock, ids=host.ids)
        trace_requests(gateway.app, host.telemetry)
        stack.push_async_callback(gateway.aclose)
        await gateway.start()
        listeners = [bind_tcp(settings.host, settings.port, ports_to_try=1)]
        with suppress(Conflict):  # another replica on this data folder has the socket
            lock = DataFolder(settings.data_dir).lock("gateway-socket")
            stack.callback(lock.release)
            listeners.append(bind_unix(settings.data_dir / SOCKET_FILE))
        leaving = min(LEAVING_SECONDS, settings.grace_seconds / 2)
        grace = settings.grace_seconds - leaving
        async with serving(gateway.app, *listeners, grace_seconds=grace):
            logging.get_logger("server").info("serving", service=GATEWAY, port=settings.port)
            leave_to_live()
            await stop.wait()
            gateway.leave()
            await pause(leaving)
            asyncio.get_running_loop().call_later(grace * STREAMS_SHARE, gateway.end_streams)
    logging.get_logger("server").info("stopped", service=GATEWAY)
