"""L3: a skill that may move funds becomes active only where a person acts on or minds funds."""

from minara_core.taxonomy import LifecycleStage, RiskTier
from minara_skills.domain.skill import Skill

_ACTING = frozenset({LifecycleStage.DECIDE, LifecycleStage.MANAGE})


def is_gated(skill: Skill, stage: LifecycleStage) -> bool:
    """Whether the skill stays inactive, and its tools not callable, in a turn of this stage."""
    return skill.risk_tier >= RiskTier.MOVE and stage not in _ACTING


def gate_reason(stage: LifecycleStage) -> str:
    """Why, for a table of scores or for a model."""
    return f"needs confirmation: it may move funds, and the message only asks to {stage}"
