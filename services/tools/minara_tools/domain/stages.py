"""The stages of a fund move, and the two schedules in which they run (safety.md §3).

A stage is a pure function of what was read in one go. It returns warnings, and raises
ToolCallBlockedError for a move that may not be made; the first refusal wins. A warning is a code,
with a detail after a colon where it has one: the gateway has the words.
"""

from collections.abc import Callable, Iterable

from minara_tools.domain.funds import StageInput
from minara_tools.domain.stage_caps import caps, caps_when_sending
from minara_tools.domain.stage_exposure import exposure, exposure_when_sending
from minara_tools.domain.stage_slippage import slippage
from minara_tools.domain.stage_tier import tier_within_ceiling
from minara_tools.domain.stage_token import token_safety

Stage = Callable[[StageInput], tuple[str, ...]]

ASKING: tuple[Stage, ...] = (tier_within_ceiling, token_safety, caps, exposure)
"""Before a preview is stored: a limit is named before a balance."""

EXECUTING: tuple[Stage, ...] = (
    token_safety,
    exposure_when_sending,
    slippage,
    caps_when_sending,
)
"""After the person's yes, on data read anew; anything worse than the preview voids."""


def pass_stages(schedule: Iterable[Stage], given: StageInput) -> tuple[str, ...]:
    """The warnings of all stages, each once, in order. Raises what the first refusal raises."""
    warnings: dict[str, None] = {}
    for stage in schedule:
        warnings.update(dict.fromkeys(stage(given)))
    return tuple(warnings)
