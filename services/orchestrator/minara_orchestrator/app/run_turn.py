"""The turn as prose: open, speak and act step by step, commit, say so."""

from collections.abc import Callable
from dataclasses import replace

from minara_core.actions import ActionState, Decision
from minara_core.clock import Clock, pause
from minara_core.errors import (
    Conflict,
    DeadlineExceeded,
    InternalError,
    MinaraError,
    NotFound,
    Unavailable,
)
from minara_core.events import (
    ActionDecided,
    FinishReason,
    TerminalEvent,
    TextReset,
    ToolCallFinished,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    UserInterjected,
)
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_orchestrator.app.judge_goal import GoalJudge
from minara_orchestrator.app.open_turn import OpenedTurn, TurnOpening
from minara_orchestrator.app.ports import Tools, Workspace
from minara_orchestrator.app.progress import Progress
from minara_orchestrator.app.run_step import StepRunner
from minara_orchestrator.app.tool_outcomes import cut_off
from minara_orchestrator.app.turn_ports import TurnLink
from minara_orchestrator.domain.turn import (
    ELSEWHERE,
    Budget,
    Committed,
    DecidedInput,
    Limits,
    Turn,
    TurnRecord,
    TurnState,
)

COMMIT_PATIENCE_SECONDS = 10.0
COMMIT_RETRY_SECONDS = 0.25
TAKE_OVER_PATIENCE_SECONDS = 60.0
_BY_LIMIT = frozenset({FinishReason.BUDGET, FinishReason.MAX_STEPS})
_JUDGED = frozenset({FinishReason.STOP, *_BY_LIMIT})


class TurnRunner:
    def __init__(
        self,
        *,
        opening: TurnOpening,
        steps: StepRunner,
        workspace: Workspace,
        tools: Tools,
        judge: GoalJudge,
        limits: Limits,
        clock: Clock,
        owner: str,
        report_bug: Callable[[Exception, Turn], str],
        failpoint: Failpoint = no_failpoint,
    ) -> None:
        self._opening = opening
        self._steps = steps
        self._workspace = workspace
        self._tools = tools
        self._judge = judge
        self._limits = limits
        self._clock = clock
        self._owner = owner
        self._report_bug = report_bug
        self._failpoint = failpoint

    async def run(self, turn: Turn, link: TurnLink) -> None:
        """Run the turn to its terminal event.

        Raises Conflict (LEASE_LOST, EPOCH_STALE) when another process has the session now; nothing
        else but cancellation.
        """
        so_far: Progress | None = None
        try:
            so_far = await self._begin(turn, link)
            if _has_lost_its_goal(turn, so_far, link):
                link.emit(TurnCancelled(reason="its goal is not active any more"))
                return
            await self.run_turn(turn, so_far, link)
        except MinaraError as error:
            if isinstance(error, Conflict) and error.reason in ELSEWHERE:
                raise
            await self._end_failed(turn, so_far, error, link)
        except Exception as error:
            reference = self._report_bug(error, turn)
            bug = InternalError(
                f"something broke; reference {reference}", metadata={"reference_id": reference}
            )
            await self._end_failed(turn, so_far, bug, link)

    async def run_turn(self, turn: Turn, so_far: Progress, link: TurnLink) -> None:
        """Its steps and its end. Raises MinaraError when it cannot be completed."""
        while so_far.is_under_way(self._clock.monotonic(), link.stop.requested):
            await self._take_interjections(turn, so_far, link)
            step = await self._steps.run_step(turn, so_far, link)
            is_asked_more = link.has_interjections and so_far.may_go_on(self._clock.monotonic())
            so_far.extend(step, goes_on=is_asked_more)
            link.keep(so_far.checkpoint())
        if so_far.failure is not None:
            raise so_far.failure
        await link.close()
        if so_far.is_unwanted(link.stop.requested):
            await self._end_cancelled(turn, so_far, link)
            return
        await self._judge_goal(turn, so_far, link)
        committed = await self._commit(so_far.record(turn, TurnState.COMPLETED))
        self._failpoint("turn.committed")
        link.emit(_end_of(committed, so_far))

    async def _begin(self, turn: Turn, link: TurnLink) -> Progress:
        """Open the turn, or open it again where its past ended, and say so."""
        past, limits = link.past, self._limits
        if isinstance(turn.input, DecidedInput):
            limits = replace(limits, max_steps=1)
        opened = await self._opened(turn, link)
        so_far = Progress.begin(opened, Budget(limits, self._clock.monotonic()), past)
        if not past.is_new:
            link.emit(TurnResumed(owner=self._owner, after_step=past.last.step))
        link.emit(_started(turn, so_far))
        self._tell_decision(turn, so_far, link)
        _take_back(link)
        if not past.checkpoints:
            link.keep(so_far.opening_checkpoint())
        return so_far

    async def _opened(self, turn: Turn, link: TurnLink) -> OpenedTurn:
        """A turn that is taken over waits for the workspace: where all processes died, this one may
        be back before it."""
        deadline = self._clock.monotonic() + TAKE_OVER_PATIENCE_SECONDS
        while True:
            try:
                return await self._opening.open(turn)
            except (Unavailable, DeadlineExceeded) as error:
                if not link.past.is_taken_over:
                    raise
                is_stopped = link.stop.requested is not None
                if is_stopped or self._clock.monotonic() >= deadline:
                    raise Unavailable(
                        "the turn could not be gone on with; what was said is kept",
                        reason=ErrorReason.NOT_RECORDED,
                    ) from error
                await pause(COMMIT_RETRY_SECONDS)

    def _tell_decision(self, turn: Turn, so_far: Progress, link: TurnLink) -> None:
        if not isinstance(turn.input, DecidedInput):
            return
        action = so_far.opened.decided_action(turn)
        if action is None:
            raise NotFound(
                "no decided action waits to be told",
                reason=ErrorReason.ACTION_NOT_FOUND,
                metadata={"pending_action_id": turn.input.pending_action_id},
            )
        rejected = action.state is ActionState.REJECTED
        link.emit(
            ActionDecided(action=action, decision=Decision.REJECT if rejected else Decision.CONFIRM)
        )

    async def _take_interjections(self, turn: Turn, so_far: Progress, link: TurnLink) -> None:
        """Put what persons have said into the turn where the model reads it next."""
        if so_far.awaited_calls:
            return
        for each in link.take_interjections():
            context = replace(each.context, session_epoch=turn.context.session_epoch)
            try:
                await self._tools.interject(context, each.text, turn.context.turn_id)
            except MinaraError as error:
                if error.reason in ELSEWHERE:
                    raise
                # The model reads the words all the same; no gate counts them as an ask.
            so_far.inject(each)
            link.emit(UserInterjected(text=each.text, message_id=each.message_id))

    async def _judge_goal(self, turn: Turn, so_far: Progress, link: TurnLink) -> None:
        """Say whether the standing goal is met. What waits for the person is no time to ask."""
        if so_far.opened.goal is None or so_far.finish_reason not in _JUDGED:
            return
        judgement = await self._judge.judge(turn, so_far.prompt.transcript)
        if judgement is not None:
            so_far.budget.charge(judgement.usage)
            link.emit(judgement.event)

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

    async def _end_cancelled(self, turn: Turn, so_far: Progress, link: TurnLink) -> None:
        await self._commit(so_far.record(turn, TurnState.CANCELLED))
        link.emit(TurnCancelled(reason="nobody waited for the answer any more"))

    async def _end_failed(
        self, turn: Turn, so_far: Progress | None, error: MinaraError, link: TurnLink
    ) -> None:
        record: TurnRecord | None = None
        if so_far is not None:
            so_far.failure = error
            link.keep(so_far.checkpoint())
            await link.close()
            record = so_far.record(turn, TurnState.FAILED)
        elif link.past.checkpoints:
            record = TurnRecord.of_cut_off(turn, link.past, error.reason)
        if error.reason is not ErrorReason.NOT_RECORDED and record is not None:
            try:
                await self._commit(record)
            except MinaraError as commit_error:
                if commit_error.reason in ELSEWHERE:
                    raise
                error = commit_error
        link.emit(TurnFailed(reason=error.reason, message=error.message))


def _has_lost_its_goal(turn: Turn, so_far: Progress, link: TurnLink) -> bool:
    """Whether a turn of a goal comes to its time when the goal is met, paused or cleared."""
    is_new = not link.past.checkpoints
    return turn.context.origin is Origin.GOAL and is_new and so_far.opened.goal is None


def _started(turn: Turn, so_far: Progress) -> TurnStarted:
    opened, first = so_far.opened, so_far.route.current
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


def _take_back(link: TurnLink) -> None:
    """Take back what was told of which nothing was kept: of a step that is asked again, and of
    sub-agents, which begin anew."""
    past = link.past
    for call_id, name in past.told.open_calls.items():
        parent, _, _ = call_id.rpartition("/")
        if parent or past.has_void_step:
            link.emit(ToolCallFinished(result=cut_off(call_id, name), parent_tool_call_id=parent))
    if past.has_void_step and past.told.has_spoken:
        link.emit(TextReset(reason="turn_resumed"))


def _end_of(committed: Committed, so_far: Progress) -> TerminalEvent:
    """What the first commit of the turn says, which is this one but after a take-over."""
    if committed.state is not TurnState.COMPLETED or committed.finish_reason is None:
        return TurnFailed(
            reason=ErrorReason.SHUTTING_DOWN, message="the turn ended before; what it said is kept"
        )
    by_limit = committed.finish_reason in _BY_LIMIT
    return TurnCompleted(
        finish_reason=committed.finish_reason,
        usage=committed.usage,
        limit=so_far.budget.limit if by_limit else "",
    )
