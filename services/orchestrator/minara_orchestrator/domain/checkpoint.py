"""What a running turn leaves for whoever takes it over: its checkpoints, and what was told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from minara_core.actions import PendingAction
from minara_core.events import (
    ActionDecided,
    ApprovalRequested,
    FinishReason,
    GoalJudged,
    Payload,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    UserInterjected,
)
from minara_core.ids import ToolCallId, TurnId
from minara_core.messages import Message
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolResult
from minara_core.turn_context import TurnContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How the turn began: the marks of the blocks that its first messages hold, and what the
    router allowed it."""

    sent_blocks: tuple[str, ...]
    stage: LifecycleStage
    risk_ceiling: PermissionTier


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What came since the checkpoint before it, up to the step of this number; `usage`,
    `tool_calls` and `skipped_steps` are of the whole turn so far.

    `awaits_results`: the last message asks for calls that were to be sent next. `opening` is set in
    the first checkpoint of a turn. `finish_reason` or `failure_reason` is set in the last one.
    `interjections` are the ids of the persons' messages that are among `messages`.
    """

    step: int = 0
    messages: tuple[Message, ...] = ()
    awaits_results: bool = False
    callable_tools: tuple[str, ...] = ()
    pending_actions: tuple[PendingAction, ...] = ()
    interjections: tuple[TurnId, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    tool_calls: int = 0
    skipped_steps: int = 0
    speaker: str = ""
    opening: Opening | None = None
    finish_reason: FinishReason | None = None
    limit: str = ""
    failure_reason: str = ""
    failure_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the stored events of a turn have said; the events of one that is taken over go on after
    them.

    `attempt_sequence` is where the last step, or the last attempt of it, began to speak, and
    `has_spoken` whether it did. `nested_steps` is the highest step of each sub-agent, by the call
    that started it, and `sub_agent_results` what those have brought that came to their end.
    """

    last_sequence: int = 0
    highest_step: int = 0
    attempt_sequence: int = 0
    has_spoken: bool = False
    has_started: bool = False
    has_decided: bool = False
    has_judged: bool = False
    started_calls: Mapping[ToolCallId, str] = field(default_factory=dict[ToolCallId, str])
    finished_calls: frozenset[ToolCallId] = frozenset()
    sub_agent_results: Mapping[ToolCallId, ToolResult] = field(
        default_factory=dict[ToolCallId, ToolResult]
    )
    requested_actions: frozenset[str] = frozenset()
    interjections: frozenset[str] = frozenset()
    nested_steps: Mapping[str, int] = field(default_factory=dict[str, int])

    def knows(self, payload: Payload) -> bool:
        """Whether an event says only what was told before."""
        match payload:
            case TurnStarted():
                return self.has_started
            case ToolCallStarted():
                return payload.tool_call_id in self.started_calls
            case ToolCallFinished():
                return payload.result.tool_call_id in self.finished_calls
            case ApprovalRequested():
                return payload.action.pending_action_id in self.requested_actions
            case UserInterjected():
                return payload.message_id in self.interjections
            case ActionDecided():
                return self.has_decided
            case GoalJudged():
                return self.has_judged
            case _:
                return False

    @property
    def open_calls(self) -> dict[ToolCallId, str]:
        """Calls, with their tools, that were told to have begun and not to have ended."""
        return {
            call: name
            for call, name in self.started_calls.items()
            if call not in self.finished_calls
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of a turn from before it was taken over, which may be nothing; of a new one,
    nothing."""

    is_taken_over: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()
    told: Told = field(default_factory=Told)

    @property
    def is_new(self) -> bool:
        """Whether nothing of the turn was told or kept yet."""
        return not self.checkpoints and not self.told.last_sequence

    @property
    def last(self) -> Checkpoint:
        """The newest checkpoint; an empty one where there is none."""
        return self.checkpoints[-1] if self.checkpoints else Checkpoint()

    @property
    def transcript(self) -> tuple[Message, ...]:
        """What the turn has added to the history so far."""
        return tuple(message for each in self.checkpoints for message in each.messages)

    @property
    def interjections(self) -> frozenset[str]:
        """The ids of those messages of persons that stand in the transcript."""
        return frozenset(each for kept in self.checkpoints for each in kept.interjections)

    @property
    def has_void_step(self) -> bool:
        """Whether a step was begun that left no checkpoint: its model is asked again, under a
        number of its own, since calls of it may have run."""
        return self.told.highest_step > self.last.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Interjection:
    """What a person says into a running turn; the context, with its grant, is the message's own."""

    context: TurnContext
    text: str

    @property
    def message_id(self) -> TurnId:
        return self.context.turn_id
