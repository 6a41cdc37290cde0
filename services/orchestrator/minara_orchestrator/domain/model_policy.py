"""Which model speaks in a turn: those of the main role in their order, then the offline one.

A turn takes its route when it opens and keeps it: whoever chooses another model meanwhile gets it
with the next turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolDefinition
from minara_llm.model import ChatModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model that may speak. `is_degraded`: it is no language model, and stands in when none of
    them answers; it reads and moves nothing."""

    model: ChatModel
    is_degraded: bool = False

    @property
    def label(self) -> str:
        """For people: `provider:name`."""
        return f"{self.model.provider}:{self.model.name}"


class Route:
    """A turn's candidates, and which of them speaks now. It only ever moves on."""

    def __init__(self, candidates: tuple[Candidate, ...]) -> None:
        self._candidates = candidates
        self._place = 0

    @property
    def current(self) -> Candidate:
        return self._candidates[self._place]

    @property
    def is_first(self) -> bool:
        """Whether the first choice still speaks."""
        return self._place == 0

    @property
    def has_next(self) -> bool:
        return self._place + 1 < len(self._candidates)

    def move_to(self, label: str) -> None:
        """Go on with the candidate of this label, who spoke before; with who speaks now when there
        is none."""
        for place, candidate in enumerate(self._candidates):
            if candidate.label == label:
                self._place = max(self._place, place)
                return

    def move_on(self) -> Candidate:
        """The next candidate, which speaks from now on."""
        self._place += 1
        return self.current


def reading_tools(
    definitions: Iterable[ToolDefinition], callable_tools: tuple[str, ...]
) -> tuple[str, ...]:
    """Those of `callable_tools` that change nothing."""
    reads = {
        definition.name
        for definition in definitions
        if definition.permission_tier is PermissionTier.READ_ONLY and not definition.is_fund_moving
    }
    return tuple(name for name in callable_tools if name in reads)
