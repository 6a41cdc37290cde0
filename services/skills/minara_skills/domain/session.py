"""What a routed turn leaves for the next one of its session."""

from dataclasses import dataclass

from minara_core.taxonomy import LifecycleStage


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSession:
    """Stage, assets and active skills of a session's latest turn."""

    stage: LifecycleStage
    assets: tuple[str, ...] = ()
    skill_ids: tuple[str, ...] = ()
