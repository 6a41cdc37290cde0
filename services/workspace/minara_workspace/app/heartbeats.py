"""Writes HEARTBEAT.md behind the turn: newest wins, and a start makes good a crash."""

import asyncio
from collections.abc import Callable

from minara_core.ids import UserId
from minara_workspace.app.ports import Documents, Sessions
from minara_workspace.domain.heartbeat import Heartbeat


class Heartbeats:
    """`is_shared`: other replicas write the same pages."""

    def __init__(
        self,
        documents: Documents,
        sessions: Sessions,
        *,
        is_enabled: bool,
        is_shared: bool = False,
        report: Callable[[UserId, OSError], None],
    ) -> None:
        self._documents = documents
        self._sessions = sessions
        self._is_enabled = is_enabled
        self._is_shared = is_shared
        self._report = report
        self._waiting: dict[UserId, Heartbeat] = {}
        self._stirred = asyncio.Event()

    def note(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        """Have this written soon, in the place of an older one that still waits."""
        if self._is_enabled:
            self._waiting[user_id] = heartbeat
            self._stirred.set()

    async def write_forever(self) -> None:
        """Make good what a crash left out, then write what is noted; runs until cancelled."""
        for user_id, heartbeat in (await self._sessions.latest_heartbeats()).items():
            self._waiting.setdefault(user_id, heartbeat)
        while True:
            await self.write_waiting()
            await self._stirred.wait()
            self._stirred.clear()

    async def write_waiting(self) -> None:
        """Write all that waits; a page that cannot be written is told and left."""
        waiting, self._waiting = self._waiting, {}
        for user_id, heartbeat in waiting.items():
            try:
                await self._write(user_id, heartbeat)
            except OSError as error:
                self._report(user_id, error)

    async def _write(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        """Write, and look behind: who writes last has then seen the newest turn of all replicas."""
        newest: Heartbeat | None = heartbeat
        written: Heartbeat | None = None
        while newest is not None and newest != written:
            await self._documents.write_heartbeat(user_id, newest)
            written = newest
            if self._is_shared:
                newest = await self._sessions.latest_heartbeat(user_id)
