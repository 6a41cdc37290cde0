"""A person's pages in memory."""

from importlib import resources

from minara_core.ids import UserId
from minara_workspace.domain.daily_log import DAILY_LOGS, newest
from minara_workspace.domain.document import (
    BOOTSTRAP_DOCUMENT,
    HEARTBEAT_DOCUMENT,
    MAX_BYTES,
    SEEDED_DOCUMENTS,
    Document,
)
from minara_workspace.domain.heartbeat import Heartbeat, render, schedule_raw


class FakeDocuments:
    """Implements Documents. `pages` is what a disk would hold, `writes` counts its changes."""

    def __init__(self) -> None:
        self.pages: dict[tuple[UserId, str], bytes] = {}
        self.writes = 0

    async def read(self, user_id: UserId, name: str) -> Document:
        page = self.pages.get((user_id, name), b"")
        if len(page) > MAX_BYTES:
            return Document(name=name, text="", notice=f"[{name} is over {MAX_BYTES} bytes]")
        return Document(name=name, text=page.decode("utf-8", "replace"))

    async def daily_logs(self, user_id: UserId) -> tuple[Document, ...]:
        folder = f"{DAILY_LOGS}/"
        names = [name for owner, name in self.pages if owner == user_id and folder in name]
        logs = newest(name.removeprefix(folder) for name in names)
        return tuple([await self.read(user_id, folder + name) for name in logs])

    async def seed(self, user_id: UserId) -> None:
        is_new = not any(owner == user_id for owner, _ in self.pages)
        for name in (*SEEDED_DOCUMENTS, *([BOOTSTRAP_DOCUMENT] if is_new else [])):
            if (user_id, name) not in self.pages:
                self._write(user_id, name, template(name))

    async def write_heartbeat(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        old = self.pages.get((user_id, HEARTBEAT_DOCUMENT), b"")
        self._write(user_id, HEARTBEAT_DOCUMENT, render(heartbeat, schedule_raw(old)))

    async def put_aside(self, user_id: UserId, name: str, new_name: str) -> None:
        page = self.pages.pop((user_id, name), None)
        if page is not None:
            self._write(user_id, new_name, page)

    def _write(self, user_id: UserId, name: str, page: bytes) -> None:
        self.writes += 1
        self.pages[(user_id, name)] = page


def template(name: str) -> bytes:
    """The text that ships for a page."""
    return resources.files("minara_workspace").joinpath(f"templates/{name}").read_bytes()
