"""One step: one model message, one batch of tools."""

from dataclasses import replace

from minara_core.events import ApprovalRequested, FinishReason, UsageReported
from minara_core.messages import Message, context_message
from minara_llm.model import StopReason
from minara_orchestrator.app.ask_model import Answer, Ask, ModelAsker
from minara_orchestrator.app.ports import ToolBatch
from minara_orchestrator.app.progress import Progress
from minara_orchestrator.app.reply import Reply
from minara_orchestrator.app.run_tools import BatchOutcome, ToolRunner, changes_nothing
from minara_orchestrator.app.turn_ports import TurnLink
from minara_orchestrator.domain.model_policy import reading_tools
from minara_orchestrator.domain.turn import Budget, DecidedInput, Step, Turn, input_text

_CONCLUDE = "This is the last step of this turn. Conclude now with what you have; call no tools."


class StepRunner:
    def __init__(self, asker: ModelAsker, tools: ToolRunner) -> None:
        self._asker = asker
        self._tools = tools

    async def run_step(self, turn: Turn, so_far: Progress, link: TurnLink) -> Step:
        """Ask the model, run what it asks for, and say whether the turn ends here.

        Calls that were under way when the turn was taken over are sent again instead: the tools
        service knows them by their ids.
        """
        budget = so_far.budget
        if so_far.awaited_calls:
            batch = _batch(so_far, is_silent=budget.is_last_step)
            return await self._act(turn, so_far, batch, link, within_budget=so_far.awaited_calls)
        note = _closing_note(turn, budget)
        ask = _ask(turn, so_far, link, talks_only=bool(note))
        answer = await self._asker.ask(ask, so_far.prompt.extended(note), so_far.route, link.emit)
        reply = answer.reply
        if reply is None:
            return _unasked(turn, answer, link)
        link.emit(UsageReported(step=reply.step, usage=answer.usage))
        so_far.prompt = answer.prompt.extended(_kept(reply))
        if reply.stop is None or not reply.calls:
            return _without_calls(turn, so_far, answer, reply)
        batch = _batch(so_far, is_silent=ask.talks_only)
        granted = budget.take_tool_calls(len(batch.calls))
        if granted and not changes_nothing(so_far.prompt.definitions, batch):
            # Whoever takes the turn over must send these calls again, not ask for others.
            link.keep(so_far.checkpoint(awaits_results=True))
            await link.stored()
        return await self._act(turn, so_far, batch, link, within_budget=granted)

    async def _act(
        self, turn: Turn, so_far: Progress, batch: ToolBatch, link: TurnLink, *, within_budget: int
    ) -> Step:
        outcome = await self._tools.run(turn, so_far, batch, link, within_budget=within_budget)
        for action in outcome.pending_actions:
            link.emit(ApprovalRequested(action=action))
        return Step(
            prompt=so_far.prompt.extended((outcome.message,)),
            pending_actions=outcome.pending_actions,
            callable_tools=outcome.newly_callable,
            finish_reason=_end_after(outcome),
        )


def _closing_note(turn: Turn, budget: Budget) -> tuple[Message, ...]:
    if budget.next_step_is_last and not isinstance(turn.input, DecidedInput):
        return (context_message(_CONCLUDE),)
    return ()


def _ask(turn: Turn, so_far: Progress, link: TurnLink, *, talks_only: bool) -> Ask:
    return Ask(
        turn_id=turn.context.turn_id,
        session_id=turn.context.session_id,
        parent=so_far.parent,
        message=input_text(turn.input),
        pending_actions=so_far.opened.standing.pending_actions,
        callable_tools=so_far.callable_tools,
        talks_only=talks_only or isinstance(turn.input, DecidedInput),
        budget=so_far.budget,
        stop=link.stop,
    )


def _unasked(turn: Turn, answer: Answer, link: TurnLink) -> Step:
    """No model was asked: none could be, or there was no time left to."""
    step = Step(prompt=answer.prompt, failure=answer.failure)
    if answer.failure is not None:
        return _comforted(turn, step)
    is_stopped = link.stop.requested is not None
    reason = FinishReason.INTERRUPTED if is_stopped else FinishReason.BUDGET
    return replace(step, finish_reason=reason)


def _kept(reply: Reply) -> tuple[Message, ...]:
    message = reply.message()
    return () if message is None else (message,)


def _without_calls(turn: Turn, so_far: Progress, answer: Answer, reply: Reply) -> Step:
    """The model has finished, or broke off."""
    step = Step(prompt=so_far.prompt)
    if reply.is_stopped:
        return replace(step, finish_reason=FinishReason.INTERRUPTED)
    if reply.is_out_of_time:
        return replace(step, finish_reason=so_far.budget.cut_time())
    if reply.failure is not None:
        return _comforted(turn, replace(step, failure=reply.failure))
    return replace(step, finish_reason=_finish_reason(answer, reply, so_far.budget))


def _comforted(turn: Turn, step: Step) -> Step:
    """A turn that tells a decision has told it: it ends well also without a comment."""
    if not isinstance(turn.input, DecidedInput):
        return step
    return replace(step, failure=None, finish_reason=FinishReason.STOP)


def _batch(so_far: Progress, *, is_silent: bool) -> ToolBatch:
    """The calls of the last message; `is_silent` when its model was told to call nothing."""
    opened, calls = so_far.opened, so_far.unanswered_calls
    # A model that calls a tool all the same is denied it, by the gate that reads this.
    names = () if is_silent else so_far.callable_tools
    if so_far.route.current.is_degraded:
        names = reading_tools(so_far.prompt.definitions, names)
    return ToolBatch(
        step=so_far.awaited_step if so_far.awaited_calls else so_far.budget.step,
        calls=tuple(calls),
        stage=opened.selection.stage,
        callable_tools=names,
        risk_ceiling=opened.selection.risk_ceiling,
        catalog_etag=opened.catalog.etag,
    )


def _end_after(outcome: BatchOutcome) -> FinishReason | None:
    if outcome.pending_actions:
        return FinishReason.APPROVAL_REQUESTED
    return FinishReason.QUESTION if outcome.has_question else None


def _finish_reason(answer: Answer, reply: Reply, budget: Budget) -> FinishReason:
    if answer.candidate.is_degraded:
        return FinishReason.DEGRADED
    match reply.stop:
        case StopReason.REFUSAL:
            return FinishReason.REFUSAL
        case StopReason.MAX_TOKENS:
            return budget.cut_answer()
        case _:
            return FinishReason.STOP
