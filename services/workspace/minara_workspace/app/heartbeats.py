"""Writes HEARTBEAT.md behind the turn: newest wins, and a start makes good a crash."""

import asyncio
from collections.abc import Callable

from minara_core.ids import UserId
from minara_workspace.app.ports import Documents, Sessions
from minara_workspace.domain.heartbeat import Heartbeat


class Heartbeats:
    def __init__(
        self,
        documents: Documents,
        sessions: Sessions,
        *,
        is_enabled: bool,
        report: Callable[[UserId, OSError], None],
    ) -> None:
        self._documents = documents
        self._sessions = sessions
        self._is_enabled = is_enabled
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
                await self._documents.write_heartbeat(user_id, heartbeat)
            except OSError as error:
                self._report(user_id, error)
