"""Where turns are measured: one process that embeds all services, or a cluster of five or more."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.durable_postgres import commit_milliseconds, durable_postgres, made, transactions
from bench.processes import FreshProcesses, resident_megabytes
from bench.wire import Address
from minara_core.clock import SystemClock
from minara_core.ids import UserId
from minara_core.taxonomy import Scope
from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from minara_gateway.serving import SOCKET_FILE
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.database import Database
from support.cluster import Cluster, a_cluster
from support.eventually import eventually

PERSON = UserId("bench")
_START_SECONDS = 60.0
_FIRST_PORT = 18_600
"""It is not used, but `minara serve` listens at it, or at one of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A running Minara. `processes` are pids by name; `commits` tells the transactions of its
    PostgreSQL so far, None without one, and `commit_ms` is what one of them takes; `user_id` is
    whose token it is."""

    addresses: tuple[Address, ...]
    token: str
    user_id: UserId
    processes: Mapping[str, int]
    data_dir: Path
    orchestrator_database: str
    commits: Callable[[], Awaitable[int]] | None = None
    commit_ms: float = 0.0

    def memory(self) -> dict[str, float]:
        """Resident megabytes by process."""
        return {name: resident_megabytes(pid) for name, pid in self.processes.items()}


@asynccontextmanager
async def serving_process(
    folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Place]:
    """`minara serve`: every service in one process, on SQLite, behind a Unix socket."""
    data_dir = folder / "data"
    data_dir.mkdir(parents=True)
    nursery = FreshProcesses(folder)
    settings = {
        "HOME": str(folder),
        "MINARA_DATA_DIR": str(data_dir),
        "MINARA_PORT": str(_FIRST_PORT),
        **(environment or {}),
    }
    socket, token_file = data_dir / SOCKET_FILE, data_dir / TOKEN_FILE
    log = folder / "serve.log"
    child = nursery.start("bench.serve", settings, folder=Path.cwd(), log=log)

    async def serves() -> bool:
        assert child.is_alive, log.read_text("utf-8", errors="replace")[-2_000:]
        if not socket.exists():
            return False
        client = GatewayClient.over_socket(socket, token_file.read_text("ascii").strip())
        try:
            return await client.healthy()
        finally:
            await client.aclose()

    try:
        await eventually(serves, timeout=_START_SECONDS)
        token = _token_in(token_file)
        yield Place(
            addresses=(socket,),
            token=token,
            user_id=await _person_of(token, data_dir),
            processes={"embedded": child.pid},
            data_dir=data_dir,
            orchestrator_database=f"sqlite:///{data_dir / 'orchestrator.db'}",
        )
    finally:
        nursery.close()


def _token_in(file: Path) -> str:
    return file.read_text("ascii").strip()


async def _person_of(token: str, data_dir: Path) -> UserId:
    store = GatewayStore(Database.open(f"sqlite:///{data_dir / 'gateway.db'}"), SystemClock())
    caller = await store.find_caller(token)
    await store.aclose()
    assert caller is not None
    return caller.user_id


@asynccontextmanager
async def five_processes(
    folder: Path,
    *,
    replicas: int = 1,
    on_postgres: bool = False,
    environment: Mapping[str, str] | None = None,
) -> AsyncGenerator[Place]:
    """Five services over TCP, or more of each, on SQLite or on a durable PostgreSQL."""
    nursery = FreshProcesses(made(folder))
    try:
        if not on_postgres:
            async with a_cluster(nursery, folder / "five", environment=environment) as cluster:
                yield await _place(cluster, None, 0.0)
            return
        async with (
            durable_postgres(folder / "postgres") as postgres,
            a_cluster(
                nursery,
                folder / "five",
                replicas=replicas,
                postgres=postgres,
                environment=environment,
            ) as cluster,
        ):
            commit_ms = await commit_milliseconds(postgres)
            yield await _place(cluster, lambda: transactions(postgres), commit_ms)
    finally:
        nursery.close()


async def _place(
    cluster: Cluster, commits: Callable[[], Awaitable[int]] | None, commit_ms: float
) -> Place:
    store = GatewayStore(Database.open(cluster.database_url("gateway")), SystemClock())
    token = secrets.token_urlsafe(24)
    caller = Caller(user_id=PERSON, scopes=frozenset(Scope), is_interactive=True)
    await store.add_token(token, caller, name="bench")
    await store.aclose()
    hosts = [address.rpartition(":") for address in cluster.gateways()]
    return Place(
        addresses=tuple((host, int(port)) for host, _, port in hosts),
        token=token,
        user_id=PERSON,
        processes={
            replica.service if replica.index == 0 else replica.name: replica.pid
            for replica in cluster.replicas
        },
        data_dir=cluster.data_dir,
        orchestrator_database=cluster.database_url("orchestrator"),
        commits=commits,
        commit_ms=commit_ms,
    )
