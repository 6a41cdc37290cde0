"""Where runs happen: one zygote, one installation's keys, and fresh databases for each run."""

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database, Dialect
from minara_runtime.hosting import installation_keys
from minara_tools.adapters.venue_paper import PAPER_VERSIONS
from minara_tools.main import VERSIONS
from support.faults.children import Nursery, a_nursery
from support.postgres import Cluster

_MEMORY = Path("/dev/shm")
_TEMPLATE = "faults_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One run's own folder and databases."""

    folder: Path
    tools_url: str
    venue_url: str

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"


class Lab:
    def __init__(self, folder: Path, nursery: Nursery, cluster: Cluster | None) -> None:
        self.nursery = nursery
        self._folder = folder
        self._cluster = cluster
        self._count = 0

    def room(self, dialect: Dialect) -> AbstractAsyncContextManager[Room]:
        """A fresh installation with migrated databases while the body runs."""
        self._count += 1
        return self._room(dialect, self._count)

    @asynccontextmanager
    async def _room(self, dialect: Dialect, number: int) -> AsyncGenerator[Room]:
        folder = self._folder / f"run-{number}"
        shutil.copytree(self._folder / "template", folder)
        name, url = f"faults_{number}", f"sqlite:///{folder / 'data' / 'tools.db'}"
        if dialect == "postgresql":
            assert self._cluster is not None, "PostgreSQL is needed for this plan"
            (folder / "data" / "tools.db").unlink()
            url = await self._cluster.create(name, template=_TEMPLATE)
        try:
            paper = f"sqlite:///{folder / 'paper.db'}"
            yield Room(folder=folder, tools_url=url, venue_url=paper)
        finally:
            if dialect == "postgresql" and self._cluster is not None:
                await self._cluster.drop(name)
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def a_lab(cluster: Cluster | None) -> AsyncGenerator[Lab]:
    """A lab while the body runs; without a cluster it has SQLite alone."""
    with tempfile.TemporaryDirectory(prefix="minara-faults-", dir=_place()) as name:
        folder = Path(name)
        await _make_template(folder / "template")
        if cluster is not None:
            await _migrated(await _fresh(cluster), VERSIONS)
        async with a_nursery(folder) as nursery:
            yield Lab(folder, nursery, cluster)


def _place() -> Path | None:
    """In memory where there is a file system of that kind: a kill loses nothing of either."""
    return _MEMORY if _MEMORY.is_dir() else None


async def _fresh(cluster: Cluster) -> str:
    await cluster.drop(_TEMPLATE)
    return await cluster.create(_TEMPLATE)


async def _make_template(folder: Path) -> None:
    data = DataFolder(folder / "data")
    installation_keys(data, "tools")
    await _migrated(data.database_url("tools"), VERSIONS)
    await _migrated(f"sqlite:///{folder / 'paper.db'}", PAPER_VERSIONS)


async def _migrated(url: str, versions: Path) -> None:
    database = Database.open(url)
    await database.migrate(versions)
    await database.aclose()
