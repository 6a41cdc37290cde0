"""Activate skills within a turn, at the model's wish and within the risk gate."""

from collections.abc import Collection, Sequence

from minara_core.taxonomy import LifecycleStage
from minara_core.turn_context import TurnContext
from minara_skills.app.ports import SkillSessions
from minara_skills.domain.activation import Activated, activate
from minara_skills.domain.registry import Registry


class SkillActivation:
    def __init__(self, registry: Registry, sessions: SkillSessions) -> None:
        self._registry = registry
        self._sessions = sessions

    async def activate(
        self,
        context: TurnContext,
        skill_ids: Sequence[str],
        *,
        tool_names: Collection[str],
        stage: LifecycleStage,
    ) -> Activated:
        activated = activate(self._registry, skill_ids, tool_names=tool_names, stage=stage)
        if activated.skill_ids:
            await self._sessions.add_skills(context, activated.skill_ids)
        return activated
