"""Route a message, and keep what the session's next turn must know."""

from collections.abc import Collection

from minara_core.turn_context import TurnContext
from minara_skills.app.ports import SkillSessions
from minara_skills.domain.registry import Registry
from minara_skills.domain.router import Selection, route


class SkillSelection:
    def __init__(self, registry: Registry, sessions: SkillSessions) -> None:
        self._registry = registry
        self._sessions = sessions

    async def select(
        self,
        context: TurnContext,
        message: str,
        *,
        tool_names: Collection[str],
        is_human: bool,
        validate_only: bool = False,
    ) -> Selection:
        """Route once per turn: a retry reads the same predecessor. `validate_only` keeps nothing.

        What a person did not write is no turn to carry on: it leaves its predecessor as it is.
        """
        previous = await self._sessions.previous(context)
        selection = route(
            self._registry, message, tool_names=tool_names, previous=previous, is_human=is_human
        )
        if not validate_only:
            left = selection.session if is_human or previous is None else previous
            await self._sessions.record(context, left)
        return selection
