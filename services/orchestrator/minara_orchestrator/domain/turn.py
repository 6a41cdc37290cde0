"""A turn: what starts it, what it may spend, what it leaves."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from minara_orchestrator.domain.checkpoint import Checkpoint, Past
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


class DoubleTexting(StrEnum):
    """What becomes of a turn when another one of its session runs (turn.md §1)."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    INTERJECT = "interject"


class Stop(StrEnum):
    """How a turn is asked to stop: by a person who wants it to come to its end now, or since nobody
    wants it any more."""

    INTERRUPT = "interrupt"
    CANCEL = "cancel"


ELSEWHERE = frozenset({ErrorReason.LEASE_LOST, ErrorReason.EPOCH_STALE})
"""Another process has the session: what is left of the turn is done where its lease is."""


class TakeOver(StrEnum):
    """What becomes of a turn whose process died."""

    RESUME = "resume"
    FAIL = "fail"


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

_STEPS_WORTH_OPENING = 4
_PRICED_TOKENS = 100_000
_LEAST_OUTPUT_TOKENS = 64
"""A call that may say less than this is not worth its input."""


class Budget:
    """What this turn has used. One per turn, never shared.

    `limit` names the limit that was met last, for people: a key of their sentences. `skipped` step
    numbers were left out by take-overs; they cost nothing.
    """

    def __init__(self, limits: Limits, started: float) -> None:
        self._limits = limits
        self._deadline = started + limits.wall_time_seconds
        self.session_spent_usd = Decimal(0)
        self.limit = ""
        self.steps = 0
        self.skipped = 0
        self.tool_calls = 0
        self.usage = TokenUsage()
        self._was_last_call = False

    def allows_step(self, now: float) -> bool:
        """Whether one more model call fits; `now` is monotonic seconds."""
        return self.exhausted_by(now) is None

    def exhausted_by(self, now: float) -> FinishReason | None:
        """Why no further step may start, or None."""
        if self.steps >= self._limits.max_steps:
            return self._met("steps", FinishReason.MAX_STEPS)
        if self.usage.input_tokens >= self._limits.max_input_tokens:
            return self._met("turn_input_tokens")
        if self.usage.output_tokens >= self._limits.max_output_tokens:
            return self._met("turn_output_tokens")
        if self._dollars_left <= 0:
            return self._met(self._dollar_limit)
        if self._was_last_call and self.has_no_calls_left:
            return self._met("tool_calls")
        return self._met("wall_time") if now >= self._deadline else None

    def _met(self, limit: str, reason: FinishReason = FinishReason.BUDGET) -> FinishReason:
        self.limit = limit
        return reason

    def cut_answer(self) -> FinishReason:
        """A model stopped since its answer was as long as it may be."""
        return self._met("answer_tokens")

    def cut_time(self) -> FinishReason:
        """A model was stopped since the turn's time was over."""
        return self._met("wall_time")

    @property
    def next_step_is_last(self) -> bool:
        """Whether the step that comes is the last one allowed: the model must conclude in it."""
        return self.steps + 1 >= self._limits.max_steps or self.has_no_calls_left

    @property
    def has_no_calls_left(self) -> bool:
        """Whether no tool may be called any more."""
        return not self._tool_calls_left

    @property
    def _tool_calls_left(self) -> int:
        return max(0, self._limits.max_tool_calls - self.tool_calls)

    @property
    def is_last_step(self) -> bool:
        """Whether the step that runs is the last one allowed."""
        return self.steps >= self._limits.max_steps or self._was_last_call

    def output_allowance(self, input_tokens: int, cost: CallCost) -> int:
        """How many tokens the next call may say, so that with its estimated input no limit is
        passed even if it says them all; 0 when it may not be made."""
        if self.usage.input_tokens + input_tokens > self._limits.max_input_tokens:
            self._met("turn_input_tokens")
            return 0
        left = self._limits.max_output_tokens - self.usage.output_tokens
        if left <= 0:
            self._met("turn_output_tokens")
            return 0
        most = min(left, self._limits.max_output_tokens_per_step)
        affordable = self._affordable_output(input_tokens, cost)
        if affordable is None or most <= affordable:
            return most
        if affordable < min(left, _LEAST_OUTPUT_TOKENS):
            self._met(self._dollar_limit)
            return 0
        return affordable

    def _affordable_output(self, input_tokens: int, cost: CallCost) -> int | None:
        """Output tokens that the dollars left pay for; below zero when they do not pay the input,
        None when no price is known."""
        base, one = cost(input_tokens, 0), cost(input_tokens, 1)
        if base is None or one is None or one <= base:
            return None
        free = self._dollars_left - base
        return -1 if free < 0 else int(free / (one - base))

    def opening_tokens(self, cost: CallCost) -> int:
        """How much input a turn's first call should have at most, so that some more can follow."""
        most = self._limits.max_input_tokens
        price = cost(_PRICED_TOKENS, 0)
        if price:
            most = min(most, int(self._limits.max_cost_usd * _PRICED_TOKENS / price))
        return most // _STEPS_WORTH_OPENING

    def seconds_left(self, now: float) -> float:
        """Until the turn's wall time is over; never below zero."""
        return max(0.0, self._deadline - now)

    @property
    def _dollars_left(self) -> Decimal:
        return min(self._limits.max_cost_usd, self._dollars_of_day) - self._spent

    @property
    def _dollar_limit(self) -> str:
        """Which of the two dollar limits is the nearer one."""
        is_day = self._dollars_of_day < self._limits.max_cost_usd
        return "session_day_usd" if is_day else "turn_usd"

    @property
    def _dollars_of_day(self) -> Decimal:
        return self._limits.max_session_day_usd - self.session_spent_usd

    @property
    def _spent(self) -> Decimal:
        return self.usage.cost_usd or Decimal(0)

    def start_step(self) -> int:
        """The number of the step that starts now, from 1."""
        self._was_last_call = self.has_no_calls_left
        self.steps += 1
        return self.step

    @property
    def step(self) -> int:
        """The number of the step that runs, or ran last."""
        return self.steps + self.skipped

    def charge(self, usage: TokenUsage) -> None:
        self.usage = self.usage.plus(usage)

    def take_tool_calls(self, wanted: int) -> int:
        """How many of `wanted` calls may still run; they count as used."""
        granted = min(wanted, self._tool_calls_left)
        self.tool_calls += granted
        return granted

    def go_on_from(self, last: Checkpoint) -> None:
        """Take over what the turn had used before its process ended; its time begins anew."""
        self.steps, self.skipped = last.step - last.skipped_steps, last.skipped_steps
        self.tool_calls, self.usage, self.limit = last.tool_calls, last.usage, last.limit

    def pass_over(self, highest_step: int) -> None:
        """Count the steps up to this number as used, and leave out the one after it: calls may have
        gone out under it too."""
        self.steps += max(0, highest_step - self.step)
        self.skipped += 1

    def share(self, among: int, max_steps: int, now: float) -> "Budget":
        """What each of `among` sub-agents that begin now may use: together half of what is left,
        which may be no call and no step."""
        parts = 2 * among
        limits = replace(
            self._limits,
            max_steps=max_steps,
            max_tool_calls=self._tool_calls_left // parts,
            max_input_tokens=(self._limits.max_input_tokens - self.usage.input_tokens) // parts,
            max_output_tokens=(self._limits.max_output_tokens - self.usage.output_tokens) // parts,
            max_cost_usd=self._dollars_left / parts,
            max_session_day_usd=self._dollars_left / parts,
            wall_time_seconds=self.seconds_left(now) / 2,
        )
        return Budget(limits, now)

    def charge_share(self, share: "Budget") -> None:
        """Count what a sub-agent has used of its share."""
        self.charge(share.usage)
        self.tool_calls += share.tool_calls


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
    def of_cut_off(
        cls, turn: Turn, past: Past, reason: ErrorReason = ErrorReason.SHUTTING_DOWN
    ) -> Self:
        """The record of a turn that nobody goes on with, as one that failed: what it kept."""
        text, last = input_text(turn.input), past.last
        provider, _, model = last.speaker.partition(":")
        return cls(
            turn=turn,
            state=TurnState.FAILED,
            messages=past.transcript or ((user_message(text),) if text else ()),
            usage=last.usage,
            provider=provider,
            model=model,
            step_count=max(last.step, past.told.highest_step),
            sent_blocks=past.checkpoints[0].opening.sent_blocks
            if past.checkpoints and past.checkpoints[0].opening
            else (),
            failure_reason=reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What stands in the workspace for a turn: its first commit."""

    turn_number: int
    state: TurnState
    finish_reason: FinishReason | None
    usage: TokenUsage
