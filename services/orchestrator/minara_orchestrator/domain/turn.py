"""A turn: what starts it, what it may spend, what it leaves."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Self

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import PendingActionId
from minara_core.messages import Message, user_message
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.turn_context import TurnContext
from minara_orchestrator.domain.history import Compaction
from minara_orchestrator.domain.prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInput:
    """What a person wrote, scanned."""

    text: str
    file_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedInput:
    """A person decided this pending action; the outcome comes from the tools service."""

    pending_action_id: PendingActionId


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerInput:
    """An automatic origin's fixed text; never a person's message."""

    text: str


TurnInput = UserInput | DecidedInput | TriggerInput


def input_text(turn_input: TurnInput) -> str:
    """The text that the grant's hash covers; empty for a decision."""
    return "" if isinstance(turn_input, DecidedInput) else turn_input.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    context: TurnContext
    input: TurnInput
    start_time: datetime


class TurnState(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one turn may spend at most (turn.md §1). Each is checked before the call it bounds.

    `max_session_day_usd` bounds all turns of a session in one UTC day.
    """

    max_steps: int = 25
    max_tool_calls: int = 60
    max_input_tokens: int = 600_000
    max_output_tokens: int = 32_000
    max_output_tokens_per_step: int = 8_192
    max_cost_usd: Decimal = Decimal(2)
    max_session_day_usd: Decimal = Decimal(20)
    wall_time_seconds: float = 900.0


CallCost = Callable[[int, int], Decimal | None]
"""Dollars of a call with so many input and output tokens; None when the price is not known."""

_LEAST_OUTPUT_TOKENS = 64
"""A call that may say less than this is not worth its input."""


class Budget:
    """What this turn has used. One per turn, never shared."""

    def __init__(self, limits: Limits, started: float) -> None:
        self._limits = limits
        self._deadline = started + limits.wall_time_seconds
        self.session_spent_usd = Decimal(0)
        self.steps = 0
        self.tool_calls = 0
        self.usage = TokenUsage()

    def allows_step(self, now: float) -> bool:
        """Whether one more model call fits; `now` is monotonic seconds."""
        return self.exhausted_by(now) is None

    def exhausted_by(self, now: float) -> FinishReason | None:
        """Why no further step may start, or None."""
        if self.steps >= self._limits.max_steps:
            return FinishReason.MAX_STEPS
        spent = (
            self.usage.input_tokens >= self._limits.max_input_tokens
            or self.usage.output_tokens >= self._limits.max_output_tokens
            or self._dollars_left <= 0
            or now >= self._deadline
        )
        return FinishReason.BUDGET if spent else None

    @property
    def next_step_is_last(self) -> bool:
        """Whether the step that comes is the last one allowed: the model must conclude in it."""
        return self.steps + 1 >= self._limits.max_steps

    def output_allowance(self, input_tokens: int, cost: CallCost) -> int:
        """How many tokens the next call may say, so that with its estimated input no limit is
        passed even if it says them all; 0 when it may not be made."""
        if self.usage.input_tokens + input_tokens > self._limits.max_input_tokens:
            return 0
        left = self._limits.max_output_tokens - self.usage.output_tokens
        most = min(left, self._limits.max_output_tokens_per_step)
        base = cost(input_tokens, 0)
        one = cost(input_tokens, 1)
        if base is not None and one is not None:
            free = self._dollars_left - base
            if free < 0:
                return 0
            if one > base:
                most = min(most, int(free / (one - base)))
        return most if most >= min(left, _LEAST_OUTPUT_TOKENS) else 0

    @property
    def _dollars_left(self) -> Decimal:
        spent = self.usage.cost_usd or Decimal(0)
        of_day = self._limits.max_session_day_usd - self.session_spent_usd
        return min(self._limits.max_cost_usd, of_day) - spent

    def start_step(self) -> int:
        """The number of the step that starts now, from 1."""
        self.steps += 1
        return self.steps

    def charge(self, usage: TokenUsage) -> None:
        self.usage = self.usage.plus(usage)

    def take_tool_calls(self, wanted: int) -> int:
        """How many of `wanted` calls may still run; they count as used."""
        granted = min(wanted, self._limits.max_tool_calls - self.tool_calls)
        self.tool_calls += granted
        return granted


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model message and its tools: the prompt with what they add, and whether the turn ends.

    `failure` is set when no model answered; the prompt then holds what came before it broke.
    """

    prompt: Prompt
    finish_reason: FinishReason | None = None
    pending_actions: tuple[PendingAction, ...] = ()
    callable_tools: tuple[str, ...] = ()
    failure: MinaraError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What a finished turn leaves, to be committed once (CommitTurn)."""

    turn: Turn
    state: TurnState
    messages: tuple[Message, ...]
    usage: TokenUsage
    provider: str
    model: str
    step_count: int
    finish_reason: FinishReason | None = None
    failure_reason: str = ""
    sent_blocks: tuple[str, ...] = ()
    commit_token: str = ""
    skill_ids: tuple[str, ...] = ()
    scenario_ids: tuple[str, ...] = ()
    stage: LifecycleStage = LifecycleStage.EVALUATE
    risk_ceiling: PermissionTier = PermissionTier.READ_ONLY
    open_loops: tuple[str, ...] = ()
    compaction: Compaction | None = None

    @classmethod
    def of_interrupted(cls, turn: Turn) -> Self:
        """The record of a turn whose process died: its message alone."""
        text = input_text(turn.input)
        return cls(
            turn=turn,
            state=TurnState.FAILED,
            messages=(user_message(text),) if text else (),
            usage=TokenUsage(),
            provider="",
            model="",
            step_count=0,
            failure_reason=ErrorReason.SHUTTING_DOWN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What stands in the workspace for a turn: its first commit."""

    turn_number: int
    state: TurnState
    finish_reason: FinishReason | None
    usage: TokenUsage
