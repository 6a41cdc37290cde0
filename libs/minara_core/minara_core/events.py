"""What a turn tells the world, in order (turn.md §2).

Sequences start at 1 and have no gaps; every `…Started` has its `…Finished`; exactly one terminal
event (TurnCompleted, TurnFailed, TurnCancelled) ends the stream.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from minara_core.actions import Decision, PendingAction
from minara_core.ids import SessionId, ToolCallId, TurnId
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolResult


class FinishReason(StrEnum):
    STOP = "stop"
    QUESTION = "question"
    APPROVAL_REQUESTED = "approval_requested"
    MAX_STEPS = "max_steps"
    BUDGET = "budget"
    REFUSAL = "refusal"
    DEGRADED = "degraded"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens and dollars of one or more model calls; `cost_usd` is None when no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal | None = None

    def plus(self, other: "TokenUsage") -> "TokenUsage":
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_usd=sum(costs, Decimal(0)) if costs else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    turn_id: TurnId
    session_id: SessionId
    skill_ids: tuple[str, ...]
    scenario_ids: tuple[str, ...]
    stage: LifecycleStage
    risk_ceiling: PermissionTier
    provider: str
    model: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    tool_call_id: ToolCallId
    name: str
    arguments_json: str
    parent_tool_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallProgressed:
    tool_call_id: ToolCallId
    message: str
    fraction: float = 0.0
    parent_tool_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFinished:
    result: ToolResult
    duration_ms: int = 0
    parent_tool_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    action: PendingAction


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInterjected:
    """A person's message, put in at a step border; `message_id` is its own turn id."""

    text: str
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQueued:
    position: int
    turn_id: TurnId
    session_id: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResumed:
    owner: str
    after_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReset:
    """The text since `since_sequence` is void. The outbox sets the sequence: where the attempt that
    broke began to speak."""

    reason: str
    since_sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDecided:
    """The receipt of a decided action; not model text."""

    action: PendingAction
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalJudged:
    verdict: str
    reason: str
    turns_used: int = 0
    max_turns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillActivated:
    skill_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    rung: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactUpdated:
    uri: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSwitched:
    from_model: str
    to_model: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    step: int
    usage: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted:
    """`limit` names the limit that ended the turn, when one did. `pending_interjections`, of every
    end, came too late to be read; the outbox sets them."""

    finish_reason: FinishReason
    usage: TokenUsage
    pending_interjections: tuple[str, ...] = ()
    limit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed:
    reason: str
    message: str
    pending_interjections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCancelled:
    reason: str
    pending_interjections: tuple[str, ...] = ()


TerminalEvent = TurnCompleted | TurnFailed | TurnCancelled
Payload = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallProgressed
    | ToolCallFinished
    | ApprovalRequested
    | UserInterjected
    | TurnQueued
    | TurnResumed
    | TextReset
    | ActionDecided
    | GoalJudged
    | SkillActivated
    | ContextCompacted
    | ArtifactUpdated
    | ModelSwitched
    | UsageReported
    | TerminalEvent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    sequence: int
    time: datetime
    payload: Payload

    @property
    def is_terminal(self) -> bool:
        return isinstance(self.payload, TerminalEvent)
