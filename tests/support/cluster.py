"""N replicas of each service as real processes over TCP, and what may befall each of them.

    async with a_cluster(nursery, tmp_path, replicas=2, postgres=postgres_cluster) as cluster:
        cluster.replica("tools", 1).kill()

SQLite serves one replica of each; more of them share PostgreSQL, a database per service, and the
data folder. With `is_proxied` everybody reaches a replica through a proxy, so that `partition` cuts
it off. No object here belongs to an event loop. When a test fails, it shows the ends of all logs.
"""

import asyncio
import os
import signal
import socket
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc as health_grpc

from minara_runtime.addresses import peer_target
from minara_runtime.channels import connect
from support.eventually import eventually
from support.nursery import Child, Nursery
from support.postgres import Cluster as Postgres
from support.proxy import LoopThread, Proxy, Wire

PEERS = ("workspace", "tools", "skills", "orchestrator")
GATEWAY = "gateway"
SERVICES = (*PEERS, GATEWAY)
DATABASES = ("orchestrator", "workspace", "skills", "tools", "paper", "gateway")
HOST = "127.0.0.1"
START_SECONDS = 60.0
END_SECONDS = 60.0
_ANSWER_SECONDS = 2.0
_TAIL = 15
_NUMBERS = count(1)


class Readiness(StrEnum):
    """What a replica says of itself, or that it says nothing."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: its exit code, negative for a signal, and how long that took."""

    code: int
    seconds: float


class Port:
    """A free port that nobody else gets, whether or not somebody listens on it."""

    def __init__(self, host: str = HOST) -> None:
        self._host = host
        self._held = _bound(host, 0)
        self.number: int = self._held.getsockname()[1]

    def listener(self) -> socket.socket:
        """A socket that listens on it."""
        listening = _bound(self._host, self.number)
        listening.listen(256)
        return listening

    def close(self) -> None:
        self._held.close()


def _bound(host: str, port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, port))
    return held


class Replica:
    """One process of one service, again on the same port whenever it starts.

    `address` is where everybody reaches it, `environment` what it starts with the next time.
    """

    def __init__(
        self,
        service: str,
        index: int,
        *,
        nursery: Nursery,
        folder: Path,
        loop: LoopThread | None,
    ) -> None:
        self.service = service
        self.index = index
        self.environment: dict[str, str] = {}
        self.log_file = folder / f"{self.name}.log"
        self._nursery = nursery
        self._folder = folder
        self._own = Port()
        self._front = None if loop is None else Port()
        self._child: Child | None = None
        self._proxy = (
            None
            if loop is None or self._front is None
            else Proxy(loop, self._front.listener(), (HOST, self._own.number))
        )

    @property
    def name(self) -> str:
        return f"{self.service}-{self.index}"

    @property
    def address(self) -> str:
        return f"{HOST}:{(self._front or self._own).number}"

    @property
    def listens_on(self) -> tuple[str, int]:
        return HOST, self._own.number

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.is_alive

    def start(self) -> None:
        """Start the process, which is not ready yet."""
        assert not self.is_alive, f"{self.name} runs already"
        self._child = self._nursery.start(
            f"minara_{self.service}", self.environment, folder=self._folder, log=self.log_file
        )

    def kill(self) -> None:
        """SIGKILL."""
        self._send(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP: it stands still, its connections stay."""
        self._send(signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT after `stop`."""
        self._send(signal.SIGCONT)

    async def terminate(self) -> Ended:
        """SIGTERM, and wait for the end."""
        self._send(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> Ended:
        """Wait for the end; seconds count from now."""
        begin = asyncio.get_running_loop().time()
        assert self._child is not None
        child = self._child
        await eventually(lambda: not child.is_alive, timeout=END_SECONDS, every=0.02)
        kind, _, number = child.seen().partition(" ")
        return Ended(
            code=int(number) if kind == "exit" else -int(number),
            seconds=asyncio.get_running_loop().time() - begin,
        )

    async def restart(self, **environment: str) -> None:
        """Start it again, ended or not (then by SIGTERM), and wait until it serves. `environment`
        is added to what it started with before."""
        if self.is_alive:
            await self.terminate()
        self.environment |= environment
        self.start()
        await self.ready()

    def partition(self, wire: Wire = Wire.CUT) -> None:
        """Cut it off from everybody; it still reaches others. Needs `is_proxied`."""
        assert self._proxy is not None, "start the cluster with is_proxied=True"
        self._proxy.set(wire)

    def heal(self) -> None:
        """End the partition."""
        self.partition(Wire.WHOLE)

    async def readiness(self) -> Readiness:
        """What it says at its own door, whatever its proxy does."""
        if not self.is_alive:
            return Readiness.UNREACHABLE
        if self.service == GATEWAY:
            return await _gateway_readiness(self._own.number)
        return await _peer_readiness(self._own.number)

    async def ready(self) -> None:
        """Wait until it serves; AssertionError if it ends instead."""

        async def serves() -> bool:
            assert self.is_alive, f"{self.name} {self._seen()} before it served:\n{self.tail()}"
            return await self.readiness() is Readiness.SERVING

        await eventually(serves, timeout=START_SECONDS, every=0.05)

    def tail(self, lines: int = _TAIL) -> str:
        """The end of what it has printed."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        self.kill()
        if self._proxy is not None:
            self._proxy.close()
        for port in (self._own, self._front):
            if port is not None:
                port.close()

    def _send(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.send(number)

    def _seen(self) -> str:
        return "never started" if self._child is None else self._child.seen()


class Cluster:
    """Made with its addresses and settings; nothing runs before `start`."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        *,
        replicas: int = 1,
        databases: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        is_proxied: bool = False,
    ) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self._databases = dict(databases or {})
        self._loop = LoopThread("proxies") if is_proxied else None
        folder.mkdir(parents=True, exist_ok=True)
        self.replicas = tuple(
            Replica(service, index, nursery=nursery, folder=folder, loop=self._loop)
            for service in SERVICES
            for index in range(replicas)
        )
        for replica in self.replicas:
            replica.environment = self._environment(replica) | dict(environment or {})
        _LIVE.add(self)

    def replica(self, service: str, index: int = 0) -> Replica:
        return self.replicas_of(service)[index]

    def replicas_of(self, service: str) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if replica.service == service)

    def addresses(self, service: str) -> str:
        """All replicas of a service as its peers are told."""
        return ",".join(replica.address for replica in self.replicas_of(service))

    def channel(self, service: str) -> grpc.aio.Channel:
        """A channel of this loop to all replicas of a service; close it in the end."""
        return connect(peer_target(self.addresses(service)), peer=service)

    def gateways(self) -> tuple[str, ...]:
        """The addresses of all gateways, over HTTP."""
        return tuple(replica.address for replica in self.replicas_of(GATEWAY))

    def database_url(self, name: str) -> str:
        """`name` as in DATABASES."""
        return self._databases.get(name) or f"sqlite:///{self.data_dir / name}.db"

    async def start(self, services: Iterable[str] = SERVICES) -> None:
        """Start all replicas of these services at once, and wait until they serve."""
        started = [replica for name in services for replica in self.replicas_of(name)]
        for replica in started:
            replica.start()
        await self.ready(replica.service for replica in started)

    async def ready(self, services: Iterable[str] = SERVICES) -> None:
        """Wait until all replicas of these services serve."""
        async with asyncio.TaskGroup() as all_of_them:
            for name in set(services):
                for replica in self.replicas_of(name):
                    all_of_them.create_task(replica.ready())

    async def terminate(self, services: Iterable[str] = SERVICES) -> dict[str, Ended]:
        """SIGTERM to all replicas of these services at once; how each ended, by its name."""
        chosen = [replica for name in services for replica in self.replicas_of(name)]
        async with asyncio.TaskGroup() as all_of_them:
            tasks = {one.name: all_of_them.create_task(one.terminate()) for one in chosen}
        return {name: task.result() for name, task in tasks.items()}

    def close(self) -> None:
        """End everything at once; again is harmless."""
        _LIVE.discard(self)
        for replica in self.replicas:
            replica.close()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _environment(self, replica: Replica) -> dict[str, str]:
        host, port = replica.listens_on
        own = (
            {"MINARA_HOST": host, "MINARA_PORT": str(port)}
            if replica.service == GATEWAY
            else {"MINARA_LISTEN": f"{host}:{port}"}
        )
        addresses = {f"MINARA_{name.upper()}_ADDRESS": self.addresses(name) for name in PEERS}
        urls = {f"MINARA_{name.upper()}_DATABASE_URL": url for name, url in self._databases.items()}
        return {
            "HOME": str(self.folder),
            "MINARA_DATA_DIR": str(self.data_dir),
            **addresses,
            **urls,
            **own,
        }


_LIVE: weakref.WeakSet[Cluster] = weakref.WeakSet()


def live_tails() -> str:
    """The ends of the logs of all clusters that run in this process."""
    return "\n".join(
        f"--- {replica.log_file}\n{tail}"
        for cluster in _LIVE
        for replica in cluster.replicas
        if (tail := replica.tail())
    )


@asynccontextmanager
async def a_cluster(
    nursery: Nursery,
    folder: Path,
    *,
    replicas: int = 1,
    postgres: Postgres | None = None,
    environment: Mapping[str, str] | None = None,
    is_proxied: bool = False,
) -> AsyncGenerator[Cluster]:
    """A cluster whose replicas all serve; nothing of it is left when the body ends."""
    databases = None if postgres is None else await new_databases(postgres)
    cluster = Cluster(
        nursery,
        folder,
        replicas=replicas,
        databases=databases,
        environment=environment,
        is_proxied=is_proxied,
    )
    try:
        await cluster.start()
        yield cluster
    finally:
        cluster.close()


async def new_databases(postgres: Postgres) -> dict[str, str]:
    """An empty database for each service, by its name; gone with the server."""
    prefix = f"cluster_{os.getpid()}_{next(_NUMBERS)}"
    return {name: await postgres.create(f"{prefix}_{name}") for name in DATABASES}


async def _peer_readiness(port: int) -> Readiness:
    # Its own pool: a shared one would remember that nobody listened a moment ago, and wait.
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=options) as channel:
        stub: Any = health_grpc.HealthStub(channel)  # its types know the blocking stub alone
        try:
            answer = await stub.Check(health_pb.HealthCheckRequest(), timeout=_ANSWER_SECONDS)
        except grpc.aio.AioRpcError:
            return Readiness.UNREACHABLE
    is_serving = answer.status == health_pb.HealthCheckResponse.SERVING
    return Readiness.SERVING if is_serving else Readiness.NOT_SERVING


async def _gateway_readiness(port: int) -> Readiness:
    async with httpx.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as http:
        try:
            answer = await http.get(f"http://{HOST}:{port}/readyz")
        except httpx.TransportError:
            return Readiness.UNREACHABLE
    return Readiness.SERVING if answer.status_code == 200 else Readiness.NOT_SERVING
