"""What a person may read of their own books."""

from dataclasses import dataclass
from typing import Protocol

from minara_core.ids import UserId
from minara_tools.domain.operations import Operation
from minara_tools.domain.postings import Posting


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedFacts:
    """Postings of facts, oldest first. `is_complete` is false when older ones were left out."""

    postings: tuple[Posting, ...]
    is_complete: bool


class FundReads(Protocol):
    async def operations(self, user_id: UserId, limit: int) -> tuple[Operation, ...]:
        """The person's latest operations, newest first."""
        ...

    async def fills(self, user_id: UserId, limit: int) -> BookedFacts:
        """The latest fills and their fees; `limit` counts fills."""
        ...

    async def facts(self, user_id: UserId) -> BookedFacts:
        """Everything that changed what the person owns: openings, deposits, trades, fees,
        withdrawals, transfers."""
        ...
