"""What tools keeps, as ports: turns, calls, pending actions, trading states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from minara_core.actions import PendingAction
from minara_core.audit import AuditRecord
from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId
from minara_core.taxonomy import Origin, PermissionTier, TradingState
from minara_core.tooling import ToolResult
from minara_tools.domain.approvals import Parking
from minara_tools.domain.mandates import Mandate
from minara_tools.domain.trading import TradingStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A turn, or a message put into the turn `into_turn_id`, as its grant proves it; `epoch` and
    `into_turn_id` are what only the orchestrator says."""

    turn_id: TurnId
    session_id: SessionId
    user_id: UserId
    origin: Origin
    opted_in: bool
    granted_sets: frozenset[str]
    asked_sets: frozenset[str]
    grant_ceiling: PermissionTier
    epoch: int
    message: str
    decided_action_id: str
    open_time: datetime
    into_turn_id: TurnId


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStanding:
    """What an opening turn must know."""

    trading: TradingStanding
    pending_actions: tuple[PendingAction, ...]
    untold_outcomes: tuple[PendingAction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call that was seen before; `result` is None while it has none."""

    tool_call_id: ToolCallId
    arguments_hash: str
    duration_ms: int
    result: ToolResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTurn:
    """A turn from the ledger. `session_epoch` is the highest one seen, `recorded` those of the
    asked-for calls that were seen before; `interjections` are what people put into the turn, newest
    first, and `human_messages` the session's newest, those included; `was_rejected_again` when the
    person rejected the last two previews of the session that they decided."""

    turn: TurnRecord
    is_open: bool
    session_epoch: int
    trading: TradingStanding
    human_messages: tuple[str, ...]
    interjections: tuple[str, ...]
    calls_made: int
    was_rejected_again: bool
    read_sources: tuple[str, ...]
    recorded: Mapping[ToolCallId, RecordedCall]


class TurnStore(Protocol):
    async def open(self, turn: TurnRecord) -> TurnStanding:
        """Register the turn, close the session's one before, count its outcomes as being told.

        The same turn again changes nothing but a higher epoch. Raises Conflict (EPOCH_STALE) for a
        lower epoch than the session's, NotFound for a foreign session or turn.
        """
        ...

    async def interject(self, message: TurnRecord) -> TurnStanding:
        """Count a message as said in the open turn `into_turn_id`, which stays as it is.

        No turn is opened for it, and no outcome counts as told by it. The same message again
        changes nothing, also when the turn is over. Raises NotFound (TURN_NOT_FOUND) for a turn
        that is not of this user and session, Conflict: TURN_OVER, EPOCH_STALE, and
        IDEMPOTENCY_KEY_REUSED for what was a turn, or went into another.
        """
        ...

    async def standing(self, turn: TurnRecord) -> TurnStanding:
        """What `open` would return, changing nothing. Raises as `open`."""
        ...

    async def close(self, turn_id: TurnId, user_id: UserId, *, is_completed: bool) -> None:
        """The turn is over; an unknown or foreign one is ignored, and completed stays so."""
        ...

    async def find(
        self, turn_id: TurnId, user_id: UserId, call_ids: Sequence[ToolCallId]
    ) -> KnownTurn | None: ...

    async def trading(self, user_id: UserId) -> TradingStanding: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvent:
    """One row per step of a fund move: its call, its decision, its outcome."""

    user_id: UserId
    session_id: SessionId
    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    permission_tier: int
    event: str
    reason: str
    pending_action_id: str
    origin: str
    trace_id: str
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCall:
    """A call that is about to run and must not run twice."""

    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    arguments_hash: str
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCall:
    """A call with its result and its audit row: one commit. `whole_json` is what the result was
    before its end was cut off; `marks_turn` when it brought text from outside into the turn."""

    started: StartedCall
    result: ToolResult
    duration_ms: int
    marks_turn: bool
    whole_json: str | None
    audit: AuditRecord
    tier_event: TierEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedCall:
    """A money call whose preview is stored with it."""

    parking: Parking
    finished: FinishedCall
    audits: tuple[AuditRecord, ...]


class CallStore(Protocol):
    async def start(self, call: StartedCall) -> bool:
        """Note on disk that the call begins; false when it began before."""
        ...

    async def finish(self, call: FinishedCall) -> None:
        """Return when result and audit row are durable. The first result of a call stays."""
        ...

    async def park(
        self,
        user_id: UserId,
        since: datetime,
        plan: Callable[[Sequence[PendingAction]], ParkedCall],
    ) -> ParkedCall:
        """Store what `plan` makes of the user's open, unsettled and since then confirmed actions,
        in one commit, under their locks. What `plan` raises leaves, and nothing is stored."""
        ...

    async def note(self, record: AuditRecord) -> None:
        """Audit a call that belongs to no turn; returns when it is durable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionChange:
    """What a step makes of an action; without `action` nothing is written."""

    action: PendingAction | None = None
    audits: tuple[AuditRecord, ...] = ()
    tier_event: TierEvent | None = None


ActionStep = Callable[[PendingAction, TradingStanding], ActionChange]
"""Pure; given the action under its lock and the trading state that cannot change meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPage:
    """Newest first; `next_position` is 0 on the last page."""

    actions: tuple[PendingAction, ...]
    next_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedAction:
    """A new pending action that no tool call made, the ones it ends, and what is audited."""

    parking: Parking
    audits: tuple[AuditRecord, ...]
    tier_event: TierEvent


class ActionStore(Protocol):
    async def park(
        self,
        user_id: UserId,
        since: datetime,
        plan: Callable[[Sequence[PendingAction]], ParkedAction],
    ) -> ParkedAction:
        """As CallStore.park, for an action that no tool call made."""
        ...

    async def find(self, action_id: PendingActionId, user_id: UserId) -> PendingAction:
        """Raises NotFound (ACTION_NOT_FOUND) for an unknown or foreign one."""
        ...

    async def of_call(
        self, user_id: UserId, turn_id: TurnId, call_id: ToolCallId
    ) -> PendingAction | None:
        """The action that this call made, if it made one."""
        ...

    async def page(
        self,
        user_id: UserId,
        *,
        session_id: str,
        include_decided: bool,
        before: int,
        size: int,
    ) -> ActionPage:
        """Positions fall from newest to oldest; `before` 0 starts at the newest."""
        ...

    async def change(
        self, action_id: PendingActionId, user_id: UserId, step: ActionStep
    ) -> PendingAction:
        """Lock, ask `step`, write, commit to disk; the action as it is then. Raises NotFound, and
        what `step` raises."""
        ...

    async def overdue(self, now: datetime) -> tuple[PendingAction, ...]:
        """Pending actions whose time is over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """`rejected` were waiting."""

    standing: TradingStanding
    rejected: tuple[PendingActionId, ...]


class TradingStates(Protocol):
    async def current(self, user_id: UserId) -> TradingStanding: ...

    async def halt(
        self,
        user_id: UserId,
        *,
        reason: str,
        now: datetime,
        reject: Callable[[PendingAction], ActionChange],
        audit: AuditRecord,
        revoke: Callable[[Mandate, datetime], AuditRecord],
    ) -> Halted:
        """Halt the user, reject what waits and revoke their mandates, in one commit."""
        ...

    async def set_installation(
        self, state: TradingState, reason: str, *, now: datetime, audit: AuditRecord
    ) -> None:
        """What holds for everybody, whatever held before."""
        ...

    async def resume(
        self, user_id: UserId, *, etag: str, now: datetime, audit: AuditRecord
    ) -> TradingStanding:
        """Let the user trade again; the same etag again succeeds. Raises Conflict
        (CONFIRMATION_MISMATCH) for another etag, NotReady (TRADING_HALTED) while the installation
        is halted."""
        ...
