"""The turn as prose: open, speak and act step by step, commit, say so."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.clock import Clock, pause
from minara_core.errors import DeadlineExceeded, InternalError, MinaraError, NotFound, Unavailable
from minara_core.events import (
    ActionDecided,
    FinishReason,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.open_turn import OpenedTurn, TurnOpening
from minara_orchestrator.app.ports import Emit, Workspace
from minara_orchestrator.app.run_step import StepRunner
from minara_orchestrator.domain.model_policy import Candidate, Route
from minara_orchestrator.domain.prompt import Prompt
from minara_orchestrator.domain.turn import (
    Budget,
    Committed,
    DecidedInput,
    Limits,
    Step,
    Turn,
    TurnRecord,
    TurnState,
)

COMMIT_PATIENCE_SECONDS = 10.0
COMMIT_RETRY_SECONDS = 0.25
_BY_LIMIT = frozenset({FinishReason.BUDGET, FinishReason.MAX_STEPS})


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a turn has come; what a failed one leaves is taken from here."""

    budget: Budget
    opened: OpenedTurn | None = None
    route: Route | None = None
    prompt: Prompt | None = None
    callable_tools: tuple[str, ...] = ()
    pending_actions: list[PendingAction] = field(default_factory=list[PendingAction])

    def open(self, opened: OpenedTurn) -> tuple[Prompt, Route]:
        self.opened, self.prompt = opened, opened.prompt
        self.route = Route(opened.candidates)
        self.callable_tools = opened.selection.callable_tools
        self.budget.session_spent_usd = opened.material.spent_today_usd
        return self.prompt, self.route

    def extend(self, step: Step) -> Prompt:
        self.prompt = step.prompt
        self.callable_tools = (*self.callable_tools, *step.callable_tools)
        self.pending_actions += step.pending_actions
        return self.prompt


class TurnRunner:
    def __init__(
        self,
        *,
        opening: TurnOpening,
        steps: StepRunner,
        workspace: Workspace,
        limits: Limits,
        clock: Clock,
        report_bug: Callable[[Exception, Turn], str],
        failpoint: Failpoint = no_failpoint,
    ) -> None:
        self._opening = opening
        self._steps = steps
        self._workspace = workspace
        self._limits = limits
        self._clock = clock
        self._report_bug = report_bug
        self._failpoint = failpoint

    async def run(self, turn: Turn, emit: Emit) -> None:
        """Run the turn to its terminal event; raises nothing but cancellation."""
        limits = self._limits
        if isinstance(turn.input, DecidedInput):
            limits = replace(limits, max_steps=1)
        progress = Progress(budget=Budget(limits, self._clock.monotonic()))
        try:
            await self.run_turn(turn, progress, emit)
        except MinaraError as error:
            await self._end_failed(turn, progress, error, emit)
        except Exception as error:
            reference = self._report_bug(error, turn)
            bug = InternalError(
                f"something broke; reference {reference}", metadata={"reference_id": reference}
            )
            await self._end_failed(turn, progress, bug, emit)

    async def run_turn(self, turn: Turn, progress: Progress, emit: Emit) -> None:
        """The turn itself. Raises MinaraError when it cannot be completed."""
        opened = await self._opening.open(turn)
        prompt, route = progress.open(opened)
        emit(_started(turn, opened, route.current))
        self._tell_decision(turn, opened, emit)
        budget = progress.budget
        while (finish_reason := budget.exhausted_by(self._clock.monotonic())) is None:
            step = await self._steps.run_step(
                turn, opened, prompt, progress.callable_tools, route, budget, emit
            )
            prompt = progress.extend(step)
            if step.failure is not None and not isinstance(turn.input, DecidedInput):
                raise step.failure
            if step.failure is not None or step.finish_reason is not None:
                finish_reason = step.finish_reason or FinishReason.STOP
                break
        committed = await self._commit(
            _record(turn, progress, TurnState.COMPLETED, finish_reason=finish_reason)
        )
        self._failpoint("turn.committed")
        emit(
            TurnCompleted(
                finish_reason=finish_reason,
                usage=committed.usage,
                limit=budget.limit if finish_reason in _BY_LIMIT else "",
            )
        )

    def _tell_decision(self, turn: Turn, opened: OpenedTurn, emit: Emit) -> None:
        if not isinstance(turn.input, DecidedInput):
            return
        action = opened.decided_action(turn)
        if action is None:
            raise NotFound(
                "no decided action waits to be told",
                reason=ErrorReason.ACTION_NOT_FOUND,
                metadata={"pending_action_id": turn.input.pending_action_id},
            )
        rejected = action.state is ActionState.REJECTED
        emit(
            ActionDecided(action=action, decision=Decision.REJECT if rejected else Decision.CONFIRM)
        )

    async def _commit(self, record: TurnRecord) -> Committed:
        deadline = self._clock.monotonic() + COMMIT_PATIENCE_SECONDS
        while True:
            try:
                return await self._workspace.commit(record)
            except (Unavailable, DeadlineExceeded) as error:
                if self._clock.monotonic() >= deadline:
                    raise Unavailable(
                        "the turn could not be recorded; what was said is kept",
                        reason=ErrorReason.NOT_RECORDED,
                    ) from error
                await pause(COMMIT_RETRY_SECONDS)

    async def _end_failed(
        self, turn: Turn, progress: Progress, error: MinaraError, emit: Emit
    ) -> None:
        if error.reason is not ErrorReason.NOT_RECORDED and progress.opened is not None:
            record = _record(turn, progress, TurnState.FAILED, failure_reason=error.reason)
            try:
                await self._commit(record)
            except MinaraError as commit_error:
                error = commit_error
        emit(TurnFailed(reason=error.reason, message=error.message))


def _started(turn: Turn, opened: OpenedTurn, first: Candidate) -> TurnStarted:
    return TurnStarted(
        turn_id=turn.context.turn_id,
        session_id=turn.context.session_id,
        skill_ids=tuple(skill.skill_id for skill in opened.selection.skills),
        scenario_ids=opened.selection.scenario_ids,
        stage=opened.selection.stage,
        risk_ceiling=opened.ceiling,
        provider=first.model.provider,
        model=first.model.name,
        notices=opened.notices,
    )


def _record(
    turn: Turn,
    progress: Progress,
    state: TurnState,
    *,
    finish_reason: FinishReason | None = None,
    failure_reason: str = "",
) -> TurnRecord:
    opened, prompt, route = progress.opened, progress.prompt, progress.route
    if opened is None or prompt is None or route is None:
        raise InternalError("a turn is recorded only after it was opened")
    open_actions = [*progress.pending_actions, *opened.standing.pending_actions]
    return TurnRecord(
        turn=turn,
        state=state,
        messages=prompt.transcript,
        usage=progress.budget.usage,
        provider=route.current.model.provider,
        model=route.current.model.name,
        step_count=progress.budget.steps,
        finish_reason=finish_reason,
        failure_reason=failure_reason,
        sent_blocks=prompt.sent_blocks,
        compaction=prompt.compaction,
        commit_token=opened.material.commit_token,
        skill_ids=tuple(skill.skill_id for skill in opened.selection.skills),
        scenario_ids=opened.selection.scenario_ids,
        stage=opened.selection.stage,
        risk_ceiling=opened.ceiling,
        open_loops=tuple(
            f"{action.tool_name} {action.order.side} {action.order.instrument.symbol} waits for you"
            for action in open_actions[:10]
        ),
    )
