"""Results of earlier calls, as they were before anything was cut off for a model."""

from dataclasses import dataclass
from typing import Protocol

from minara_core.ids import ToolCallId, TurnId, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """`text` is the whole answer as JSON text, or what was told instead of one."""

    tool_name: str
    text: str


class KeptResults(Protocol):
    async def find(
        self, user_id: UserId, turn_id: TurnId, call_id: ToolCallId
    ) -> KeptResult | None:
        """What came of a call in a turn of this person; None for an unknown or foreign one, or one
        that has no result yet."""
        ...
