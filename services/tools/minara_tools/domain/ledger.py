"""The turn ledger: what a turn may do, was told, has used and has read. Never the caller's copy."""

from dataclasses import dataclass

from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, TradingState

MAX_TOOL_CALLS = 200
"""A backstop above the turn's own budget in the orchestrator, sub-agents included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLedger:
    """Facts of one turn as the tools service knows them.

    `message` is the text that began this turn, proven by the grant, or empty; `interjections` are
    what a person put into it since, newest first. `human_messages` are the session's last three of
    people, newest first, those of this turn included. `tool_sets` is what grant,
    context and origin allow. `was_rejected_again` when the person rejected the session's last two
    decided previews. `is_request` stands for a single read outside any turn.
    """

    turn_id: TurnId
    session_id: SessionId
    user_id: UserId
    origin: Origin
    is_open: bool
    tool_sets: frozenset[str]
    grant_ceiling: PermissionTier
    trading_state: TradingState
    opted_in: bool = False
    is_request: bool = False
    message: str = ""
    interjections: tuple[str, ...] = ()
    human_messages: tuple[str, ...] = ()
    calls_made: int = 0
    was_rejected_again: bool = False
    read_sources: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All that was said in this turn, newest first."""
        return (*self.interjections, self.message)

    @property
    def has_human_message(self) -> bool:
        return self.origin.is_human and bool(self.message.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the router chose for this step, as the orchestrator tells it; it can only lower."""

    stage: LifecycleStage | None = None
    callable_tools: frozenset[str] = frozenset()
    risk_ceiling: PermissionTier | None = None
