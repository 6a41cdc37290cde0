"""How far a turn has come, and what is kept of it for whoever takes it over."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError, Unavailable
from minara_core.events import FinishReason
from minara_core.ids import ToolCallId
from minara_core.messages import user_message
from minara_core.reasons import error_reason
from minara_core.tooling import ToolCall
from minara_orchestrator.app.open_turn import OpenedTurn
from minara_orchestrator.app.work_slot import WorkSlot
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Opening, Past
from minara_orchestrator.domain.model_policy import Route
from minara_orchestrator.domain.prompt import Prompt
from minara_orchestrator.domain.turn import Budget, Step, Stop, Turn, TurnRecord, TurnState


@dataclass(slots=True, kw_only=True)
class Progress:
    """The state of one turn, or of one sub-agent within it (`parent` is the call that started it).

    `awaited_calls`: how many of the calls of the last message, which is that of `awaited_step`,
    were to be sent when the turn was taken over; they come first. `open_calls`, the turn's and its
    sub-agents' in one, were begun and have no result yet.
    """

    budget: Budget
    opened: OpenedTurn
    prompt: Prompt
    route: Route
    callable_tools: tuple[str, ...]
    parent: str = ""
    slot: WorkSlot = field(default_factory=WorkSlot)
    open_calls: dict[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    awaited_calls: int = 0
    awaited_step: int = 0
    finish_reason: FinishReason | None = None
    failure: MinaraError | None = None
    pending_actions: list[PendingAction] = field(default_factory=list[PendingAction])
    _new_tools: tuple[str, ...] = ()
    _new_actions: tuple[PendingAction, ...] = ()
    _new_interjections: tuple[Interjection, ...] = ()
    _kept: int = 0

    @classmethod
    def begin(cls, opened: OpenedTurn, budget: Budget, past: Past) -> "Progress":
        """A turn that was opened, or opened again where its `past` ended."""
        budget.session_spent_usd = opened.material.spent_today_usd
        so_far = cls(
            budget=budget,
            opened=opened,
            prompt=opened.prompt,
            route=Route(opened.candidates),
            callable_tools=opened.selection.callable_tools,
        )
        if past.checkpoints:
            so_far._go_on_from(past)
        if past.is_taken_over:
            budget.pass_over(past.told.highest_step)
        return so_far

    def _go_on_from(self, past: Past) -> None:
        first, last = past.checkpoints[0], past.last
        if first.opening is not None:
            opening = first.opening
            self.opened = self.opened.as_first_opened(opening)
            self.prompt = replace(
                self.prompt, opening=first.messages, sent_blocks=opening.sent_blocks
            )
            self.callable_tools = ()
        added = [message for each in past.checkpoints[1:] for message in each.messages]
        self.prompt = self.prompt.extended(added)
        for each in past.checkpoints:
            self.callable_tools += each.callable_tools
            self.pending_actions += each.pending_actions
        self._kept = len(self.prompt.following)
        self.route.move_to(last.speaker)
        self.budget.go_on_from(last)
        if last.awaits_results:
            before = past.checkpoints[-2].tool_calls if len(past.checkpoints) > 1 else 0
            self.awaited_calls = last.tool_calls - before
            self.awaited_step = last.step
        self.finish_reason = last.finish_reason
        if last.failure_reason:
            reason = error_reason(last.failure_reason)
            self.failure = Unavailable(last.failure_message, reason=reason)

    def is_under_way(self, now: float, stop: Stop | None) -> bool:
        """Whether a step is to follow; if none is, `finish_reason` or `failure` says why."""
        if self.awaited_calls:
            return True
        if self.failure is None and self.finish_reason is None:
            interrupted = FinishReason.INTERRUPTED if stop is not None else None
            self.finish_reason = interrupted or self.budget.exhausted_by(now)
        return self.failure is None and self.finish_reason is None

    def may_go_on(self, now: float) -> bool:
        """Whether one more step fits the budget."""
        return self.budget.allows_step(now)

    def is_unwanted(self, stop: Stop | None) -> bool:
        """Whether the turn was broken off since nobody wants it any more."""
        return self.finish_reason is FinishReason.INTERRUPTED and stop is Stop.CANCEL

    @property
    def unanswered_calls(self) -> Sequence[ToolCall]:
        """Calls of the last message whose results are not there yet."""
        following = self.prompt.following
        return following[-1].tool_calls if following else ()

    def opening_checkpoint(self) -> Checkpoint:
        """What must be known of the opening so that the turn goes on as it began."""
        selection = self.opened.selection
        return Checkpoint(
            messages=self.prompt.opening,
            callable_tools=self.callable_tools,
            opening=Opening(
                sent_blocks=self.prompt.sent_blocks,
                stage=selection.stage,
                risk_ceiling=selection.risk_ceiling,
            ),
        )

    def inject(self, interjection: Interjection) -> None:
        """Put a person's message at the end of the transcript."""
        self.prompt = self.prompt.extended((user_message(interjection.text),))
        self._new_interjections += (interjection,)

    def extend(self, step: Step, *, goes_on: bool) -> None:
        """Take in what a step brought. `goes_on`: there is more to say to a model that stopped."""
        self.prompt = step.prompt
        self.awaited_calls = 0
        self.callable_tools += step.callable_tools
        self.pending_actions += step.pending_actions
        self._new_tools += step.callable_tools
        self._new_actions += step.pending_actions
        self.failure = step.failure
        stops = step.finish_reason is FinishReason.STOP
        self.finish_reason = None if stops and goes_on else step.finish_reason

    def checkpoint(self, *, awaits_results: bool = False) -> Checkpoint:
        """What came since the last checkpoint."""
        following = self.prompt.following
        kept = Checkpoint(
            step=self.budget.step,
            messages=following[self._kept :],
            awaits_results=awaits_results,
            callable_tools=self._new_tools,
            pending_actions=self._new_actions,
            interjections=tuple(each.message_id for each in self._new_interjections),
            usage=self.budget.usage,
            tool_calls=self.budget.tool_calls,
            skipped_steps=self.budget.skipped,
            speaker=self.route.current.label,
            finish_reason=self.finish_reason,
            limit=self.budget.limit,
            failure_reason=self.failure.reason if self.failure else "",
            failure_message=self.failure.message if self.failure else "",
        )
        self._kept = len(following)
        self._new_tools, self._new_actions, self._new_interjections = (), (), ()
        return kept

    def record(self, turn: Turn, state: TurnState) -> TurnRecord:
        """What the turn leaves when it ends here."""
        opened, prompt, speaker = self.opened, self.prompt, self.route.current.model
        waiting = {
            action.pending_action_id: action
            for action in (*self.pending_actions, *opened.standing.pending_actions)
        }
        return TurnRecord(
            turn=turn,
            state=state,
            messages=prompt.transcript,
            usage=self.budget.usage,
            provider=speaker.provider,
            model=speaker.name,
            step_count=self.budget.steps,
            finish_reason=self.finish_reason if state is TurnState.COMPLETED else None,
            failure_reason=self.failure.reason if self.failure else "",
            sent_blocks=prompt.sent_blocks,
            compaction=prompt.compaction,
            commit_token=opened.material.commit_token,
            skill_ids=tuple(skill.skill_id for skill in opened.selection.skills),
            scenario_ids=opened.selection.scenario_ids,
            stage=opened.selection.stage,
            risk_ceiling=opened.ceiling,
            open_loops=tuple(
                f"{action.tool_name} {action.order.side} {action.order.instrument.symbol} "
                "waits for you"
                for action in list(waiting.values())[:10]
            ),
        )
