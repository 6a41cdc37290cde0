"""A throwaway PostgreSQL cluster for the whole run, shared by parallel test processes.

Every process that uses the cluster holds a shared lock on a file. A keeper process waits for the
exclusive lock, which it gets when the last user is gone, however that ended, and then stops the
server and removes the folder. So nothing is left behind, also not by a killed run.
"""

import fcntl
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_SERVER_USER = "postgres"
_INSTALLATIONS = "/usr/lib/postgresql"
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "autovacuum": "off",
    "deadlock_timeout": "50ms",
    "log_min_messages": "fatal",
}


class PostgresMissing(RuntimeError):
    """No PostgreSQL server is installed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running server; `server` is the URL by which its superuser reaches it."""

    server: sa.URL

    @classmethod
    def at(cls, url: str) -> "Cluster":
        return cls(server=sa.make_url(url))

    @classmethod
    def on_socket(cls, folder: Path, port: int) -> "Cluster":
        place = {"host": str(folder), "port": str(port)}
        return cls(server=sa.URL.create("postgresql", username=_SERVER_USER, query=place))

    def url(self, database: str) -> str:
        return self.server.set(database=database).render_as_string(hide_password=False)

    async def create(self, database: str, *, template: str = "template0") -> str:
        """Make a database, a copy of `template`; its URL."""
        await self.command(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.url(database)

    async def drop(self, database: str) -> None:
        """Remove a database, with whatever is still connected to it."""
        await self.command(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    async def disconnect(self, database: str) -> None:
        """Cut off every client of a database, as a restart of the server does."""
        await self.command(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
        )

    async def command(self, sql: str) -> None:
        engine = create_async_engine(
            self.url("postgres").replace("postgresql:", "postgresql+asyncpg:"),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
        )
        async with engine.connect() as connection:
            await connection.exec_driver_sql(sql)


class SharedCluster:
    """This process's share in the cluster that the processes using the folder `shared` have."""

    def __init__(self, shared: Path) -> None:
        self._pin: int | None = None
        self._shared = shared

    def join(self) -> Cluster:
        """The running cluster, started if nobody has yet. Raises PostgresMissing."""
        turn = os.open(self._shared / "postgres.turn", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            return self._running() or self._started()
        finally:
            os.close(turn)

    def leave(self) -> None:
        """Give up the share; the last one to do so ends the cluster."""
        if self._pin is not None:
            os.close(self._pin)
            self._pin = None

    def _running(self) -> Cluster | None:
        note = self._shared / "postgres.json"
        if not note.exists():
            return None
        read = json.loads(note.read_text())
        try:
            pin = os.open(read["lock"], os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(pin, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the keeper has it: that cluster is on its way down
            os.close(pin)
            return None
        self._pin = pin
        return Cluster.on_socket(Path(read["folder"]), read["port"])

    def _started(self) -> Cluster:
        binaries = find_binaries()
        folder = Path(tempfile.mkdtemp(prefix="minara-postgres-"))
        user = _server_user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        port = _free_port()
        lock = folder / "users.lock"
        self._pin = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._pin, fcntl.LOCK_SH)
        _start(binaries, folder, port)
        subprocess.run(
            [sys.executable, __file__, binaries, folder],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        note = {"folder": str(folder), "port": port, "lock": str(lock)}
        (self._shared / "postgres.json").write_text(json.dumps(note))
        return Cluster.on_socket(folder, port)


def find_binaries() -> Path:
    """The folder of the newest installed server's programs. Raises PostgresMissing."""
    found = [path.parent for path in Path(_INSTALLATIONS).glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        raise PostgresMissing(
            "these tests need a PostgreSQL server: run scripts/install-test-packages.sh"
        )
    return max(found, key=lambda folder: (folder.parent.name.isdigit(), _version(folder)))


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _start(binaries: Path, folder: Path, port: int) -> None:
    data = folder / "data"
    run_as_server(
        [binaries / "initdb", "-D", data, "--auth=trust", "--no-sync", "-U", _SERVER_USER,
         "--encoding=UTF8", "--locale=C"]
    )  # fmt: skip
    settings = {
        **_SETTINGS,
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(folder),
    }
    with (data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    run_as_server([binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "start"])


def run_as_server(command: list[str | Path]) -> None:
    """Run a server program as its own user, since it refuses to run as root."""
    user = _server_user()
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
    )


def _server_user() -> pwd.struct_passwd | None:
    return pwd.getpwnam(_SERVER_USER) if os.geteuid() == 0 else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _keep(binaries: Path, folder: Path) -> None:
    """Wait until nobody uses the cluster, then end it."""
    lock = os.open(folder / "users.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        run_as_server([binaries / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__" and os.fork() == 0:
    _keep(Path(sys.argv[1]), Path(sys.argv[2]))
