"""What the orchestrator needs from others, in its own words."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from minara_core.actions import PendingAction
from minara_core.events import Payload
from minara_core.ids import PendingActionId, TurnId, UserId
from minara_core.taxonomy import LifecycleStage, PermissionTier, TradingState
from minara_core.tooling import ToolCall, ToolDefinition, ToolResult
from minara_core.turn_context import TurnContext
from minara_orchestrator.domain.history import History
from minara_orchestrator.domain.model_policy import Candidate
from minara_orchestrator.domain.turn import Committed, TurnRecord

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

    async def interject(self, context: TurnContext, message: str, into: TurnId) -> None:
        """Let a person's words count in a turn that runs; the context is that of the words.

        Raises Unavailable or DeadlineExceeded when tools does not answer; the words then count for
        nothing there. Any other refusal is raised as it is.
        """
        ...

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
