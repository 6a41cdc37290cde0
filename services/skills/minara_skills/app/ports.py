"""What routing needs from the world."""

from typing import Protocol

from minara_core.turn_context import TurnContext
from minara_skills.domain.session import SkillSession


class SkillSessions(Protocol):
    """One row per turn; the newest one before a turn is its predecessor."""

    async def previous(self, context: TurnContext) -> SkillSession | None:
        """What the session's turn before this one left; the same for a retry of this turn."""
        ...

    async def record(self, context: TurnContext, session: SkillSession) -> None:
        """Keep what this turn leaves; a second call for the same turn changes nothing."""
        ...

    async def add_skills(self, context: TurnContext, skill_ids: tuple[str, ...]) -> None:
        """Skills that became active within this turn; those it has already are left alone."""
        ...
