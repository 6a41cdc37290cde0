"""What standing goals need from storage."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from minara_core.ids import SessionId, UserId
from minara_orchestrator.domain.goal import Goal

GoalChange = Callable[[Goal | None, datetime], Goal | None]
"""From the goal that stands, if any, and the time, to the one that is to stand; the same one for no
change, None for none. It is pure: it may be called again, and what it raises changes nothing."""


class Goals(Protocol):
    """Standing goals, shared by all replicas; each is its session's and its person's. What another
    person set for the same session is never seen. Raises Unavailable."""

    async def get(self, session_id: SessionId, user_id: UserId) -> Goal | None: ...

    async def change(
        self, session_id: SessionId, user_id: UserId, change: GoalChange
    ) -> Goal | None:
        """Change the goal while nobody else does; what stands then, its `update_time` the moment of
        the last real change."""
        ...
