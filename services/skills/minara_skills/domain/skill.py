"""A skill: a prompt, a list of tools and routing metadata; no code."""

from dataclasses import dataclass
from enum import StrEnum

from minara_core.taxonomy import AssetClass, LifecycleStage, RiskTier

MAX_DESCRIPTION = 200
MAX_PROMPT_TOKENS = 800
_BYTES_PER_TOKEN = 3.6


class Activation(StrEnum):
    """AUTO is routed; ALWAYS is active in every turn; MANUAL only by `activate_skills`."""

    AUTO = "auto"
    ALWAYS = "always"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What makes a skill score.

    `keywords` are folded. `terms` are findings of the lexicon that count as keyword hits:
    "move:buy" (a move the speaker names) or "topic:price".
    """

    stages: frozenset[LifecycleStage] = frozenset()
    keywords: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    asset_classes: frozenset[AssetClass] = frozenset()
    co_activates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    skill_id: str
    description: str
    prompt: str
    tool_names: tuple[str, ...] = ()
    priority: int = 50
    activation: Activation = Activation.AUTO
    risk_tier: RiskTier = RiskTier.READ
    requires_env: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    routing: Routing = Routing()


def estimated_tokens(text: str) -> int:
    """Tokens of a prompt by its UTF-8 length, rounded up."""
    return int(-(-len(text.encode()) // _BYTES_PER_TOKEN))
