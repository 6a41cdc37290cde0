"""What the orchestrator needs from others, in its own words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from minara_core.actions import PendingAction
from minara_core.events import Payload, TurnEvent
from minara_core.ids import PendingActionId, SessionId, TurnId, UserId
from minara_core.taxonomy import LifecycleStage, PermissionTier, TradingState
from minara_core.tooling import ToolCall, ToolDefinition, ToolResult
from minara_core.turn_context import TurnContext
from minara_orchestrator.domain.history import History
from minara_orchestrator.domain.model_policy import Candidate
from minara_orchestrator.domain.turn import Committed, Turn, TurnRecord

Emit = Callable[[Payload], None]
"""Hands an event to the turn's outbox; it is stored, then delivered, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMaterial:
    """Everything stored that a prompt needs (PrepareTurn). `history` is cut as the session's newest
    compaction says; `spent_today_usd` is what its turns have cost since midnight UTC."""

    identity_block: str
    memory_block: str
    bootstrap_block: str
    notices: tuple[str, ...]
    heartbeat: str
    personalization_block: str
    history: History
    sent_blocks: frozenset[str]
    turn_count: int
    commit_token: str
    spent_today_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPrompt:
    skill_id: str
    prompt: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the router chose for the message (SelectSkills)."""

    catalog_block: str
    skills: tuple[SkillPrompt, ...]
    playbook_block: str
    scenario_ids: tuple[str, ...]
    stage: LifecycleStage
    callable_tools: tuple[str, ...]
    risk_ceiling: PermissionTier


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What a mid-turn activation brings (ActivateSkills)."""

    note: str
    callable_tools: tuple[str, ...]
    activated_skill_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the tools service says about the turn (OpenTurn)."""

    trading_state: TradingState
    pending_actions: tuple[PendingAction, ...]
    untold_outcomes: tuple[PendingAction, ...]
    catalog_etag: str
    unavailable_tools: tuple[str, ...]
    ceiling: PermissionTier


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The tool list, sorted by name, and its etag."""

    definitions: tuple[ToolDefinition, ...]
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBatch:
    """All calls of one step, and what the selection allows them."""

    step: int
    calls: tuple[ToolCall, ...]
    stage: LifecycleStage
    callable_tools: tuple[str, ...]
    risk_ceiling: PermissionTier
    catalog_etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    tool_call_id: str
    message: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    result: ToolResult
    duration_ms: int


class Workspace(Protocol):
    async def prepare(self, context: TurnContext, message: str) -> TurnMaterial:
        """Raises NotFound for an unknown or foreign session, Unavailable when it is down."""
        ...

    async def commit(self, record: TurnRecord) -> Committed:
        """Record the turn; the first commit of a turn stands and is answered again."""
        ...


class Skills(Protocol):
    async def select(
        self,
        context: TurnContext,
        message: str,
        *,
        catalog: Catalog,
        is_human_message: bool,
        validate_only: bool = False,
    ) -> Selection:
        """Route the message. Raises Unavailable when the service is down."""
        ...

    async def activate(
        self,
        context: TurnContext,
        skill_ids: Sequence[str],
        *,
        catalog: Catalog,
        stage: LifecycleStage,
    ) -> Activation: ...


class Tools(Protocol):
    async def catalog(self) -> Catalog:
        """The last known tool list; read from the service when there is none or it changed."""
        ...

    def expire_catalog(self, etag: str) -> None:
        """Read the list again before the next turn unless `etag` is the known one."""
        ...

    async def open_turn(
        self,
        context: TurnContext,
        *,
        message: str,
        decided_action_id: PendingActionId | None,
        validate_only: bool = False,
    ) -> Standing: ...

    def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        """Run a batch; one ToolFinished per call. Raises Unavailable when tools cannot work."""
        ...


class Models(Protocol):
    async def candidates(self, user_id: UserId) -> tuple[Candidate, ...]:
        """Who may speak in this person's next turn, first choice first; never empty, never raises.
        A turn keeps what it got."""
        ...


class ModelPreferences(Protocol):
    """Which model each person chose, shared by all replicas."""

    async def get(self, user_id: UserId) -> str:
        """The choice as `provider:name`, empty for none."""
        ...

    async def set(self, user_id: UserId, choice: str) -> None:
        """Keep a choice; an empty one forgets it."""
        ...


class TurnLoop(Protocol):
    async def run(self, turn: Turn, emit: Emit) -> None:
        """Run the turn to its terminal event; raises nothing but cancellation."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it is stored and delivered: its wire bytes."""

    sequence: int
    is_terminal: bool
    body: bytes


EncodeEvent = Callable[[TurnEvent], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What admitting a turn found: a new row, or the one that stands. `is_over` when its terminal
    event is stored; `ahead` turns of its session were admitted before it and are not over."""

    is_new: bool
    is_over: bool
    ahead: int = 0


MOST_WAITING = 20
"""Turns of a session that wait for the one that runs."""

Stirred = Callable[[], Awaitable[None]]
"""Returns when there may be more to see, and after a while in any case."""


class TurnStore(Protocol):
    """Durable turns and their events, shared by all replicas."""

    async def admit(self, turn: Turn, *, alone: bool = False) -> Admission:
        """Insert the turn unless it exists. Raises NotFound when it is another user's, Conflict
        (TURN_RUNNING) when it wants to be `alone` in its session and is not, and LimitExceeded when
        MOST_WAITING turns of the session wait already."""
        ...

    async def ahead(self, turn_id: TurnId) -> int:
        """How many turns of its session were admitted before this one and are not over."""
        ...

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        """The turn, or None when unknown or foreign."""
        ...

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        """The session's running turn: the oldest one without a terminal event."""
        ...

    async def append(self, turn_id: TurnId, events: Sequence[StoredEvent]) -> None:
        """Store events; returns when they are durable. A terminal one ends the turn.

        Raises Conflict (LEASE_LOST) when another process has claimed the turn, Unavailable when
        the database has not answered for some time.
        """
        ...

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        """Stored events after `sequence`, in order."""
        ...

    def watch(self, turn_id: TurnId) -> AbstractContextManager[Stirred]:
        """While open: something to await before looking again whether the turn has new events."""
        ...

    async def last_sequence(self, turn_id: TurnId) -> int: ...

    async def claim(self, running: Collection[TurnId]) -> list[Turn]:
        """Turns without a terminal event that nobody runs, oldest first: those of dead processes,
        which are ours from now on, and our own that are not among the `running` ones."""
        ...


class SessionWriters(Protocol):
    """One fenced writer per session, over all replicas."""

    def hold(self, session_id: SessionId) -> AbstractAsyncContextManager[int]:
        """Wait for the session's lease and hold it; yields its epoch. First come, first served
        within a process. Raises Conflict (LEASE_LOST) into the body when the lease is lost."""
        ...
