"""Databases for tests: empty or migrated, on either dialect, gone when the test is over."""

import hashlib
import os
import shutil
from pathlib import Path

import sqlalchemy as sa

from minara_runtime.database import Database
from support.postgres import Cluster

RUNTIME_TABLES = Path(__file__).parent / "migrations" / "versions"
"""Revisions that make the lease and audit tables and the tables of the runtime's own tests."""


class SqliteShelf:
    """Makes SQLite files; one that was migrated once is copied from then on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def new(self, versions: Path | None) -> str:
        self._count += 1
        path = self._folder / f"{self._count}.db"
        if versions is not None:
            shutil.copyfile(await self._template(versions), path)
        return f"sqlite:///{path}"

    async def remove(self, url: str) -> None:
        for path in self._folder.glob(f"{Path(url.removeprefix('sqlite:///')).name}*"):
            path.unlink()

    async def _template(self, versions: Path) -> Path:
        path = self._folder / f"template-{_digest(versions)}.db"
        if not path.exists():
            await _migrated(f"sqlite:///{path}", versions)
        return path


class PostgresShelf:
    """Makes databases on the suite's cluster; migrated ones are copies of a template."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._count = 0
        self._templates: dict[Path, str] = {}

    async def new(self, versions: Path | None) -> str:
        self._count += 1
        template = "template0" if versions is None else await self._template(versions)
        return await self._cluster.create(f"test_{os.getpid()}_{self._count}", template=template)

    async def remove(self, url: str) -> None:
        await self._cluster.drop(sa.make_url(url).database or "")

    async def _template(self, versions: Path) -> str:
        if versions not in self._templates:
            name = f"template_{os.getpid()}_{_digest(versions)}"
            await _migrated(await self._cluster.create(name), versions)
            self._templates[versions] = name
        return self._templates[versions]


class Databases:
    """The databases of one test."""

    def __init__(self, shelf: SqliteShelf | PostgresShelf) -> None:
        self._shelf = shelf
        self._opened: list[Database] = []
        self._urls: list[str] = []

    async def url(self, versions: Path | None = None) -> str:
        """The URL of a new database, empty or with the tables that `versions` make."""
        url = await self._shelf.new(versions)
        self._urls.append(url)
        return url

    async def open(self, versions: Path | None = None, *, durable: bool = False) -> Database:
        """A new database, opened; closed and removed when the test is over."""
        return self.reopen(await self.url(versions), durable=durable)

    def reopen(self, url: str, *, durable: bool = False) -> Database:
        """One more `Database` on an existing one: what a second process would have."""
        database = Database.open(url, durable=durable)
        self._opened.append(database)
        return database

    async def aclose(self) -> None:
        for database in self._opened:
            await database.aclose()
        for url in self._urls:
            await self._shelf.remove(url)


async def _migrated(url: str, versions: Path) -> None:
    database = Database.open(url)
    await database.migrate(versions)
    await database.aclose()


def _digest(versions: Path) -> str:
    return hashlib.sha256(str(versions).encode()).hexdigest()[:12]
