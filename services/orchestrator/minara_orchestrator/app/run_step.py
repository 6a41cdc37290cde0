"""One step: one model message, one batch of tools."""

from dataclasses import replace

from minara_core.events import ApprovalRequested, FinishReason, UsageReported
from minara_core.messages import Message, context_message
from minara_llm.model import StopReason
from minara_orchestrator.app.ask_model import Answer, Ask, ModelAsker
from minara_orchestrator.app.open_turn import OpenedTurn
from minara_orchestrator.app.ports import Emit, ToolBatch
from minara_orchestrator.app.reply import Reply
from minara_orchestrator.app.run_tools import BatchOutcome, ToolRunner
from minara_orchestrator.domain.model_policy import Route, reading_tools
from minara_orchestrator.domain.prompt import Prompt
from minara_orchestrator.domain.turn import Budget, DecidedInput, Step, Turn, input_text

_CONCLUDE = "This is the last step of this turn. Conclude now with what you have; call no tools."


class StepRunner:
    def __init__(self, asker: ModelAsker, tools: ToolRunner) -> None:
        self._asker = asker
        self._tools = tools

    async def run_step(
        self,
        turn: Turn,
        opened: OpenedTurn,
        prompt: Prompt,
        callable_tools: tuple[str, ...],
        route: Route,
        budget: Budget,
        emit: Emit,
    ) -> Step:
        """Ask the model, run what it asks for, and say whether the turn ends here."""
        note = _closing_note(turn, budget)
        ask = _ask(turn, opened, callable_tools, budget, talks_only=bool(note))
        answer = await self._asker.ask(ask, prompt.extended(note), route, emit)
        reply = answer.reply
        if reply is None:
            reason = None if answer.failure else FinishReason.BUDGET
            return Step(prompt=answer.prompt, finish_reason=reason, failure=answer.failure)
        emit(UsageReported(step=reply.step, usage=answer.usage))
        said = Step(prompt=answer.prompt.extended(_kept(reply)))
        if reply.is_out_of_time:
            return replace(said, finish_reason=budget.cut_time())
        if reply.failure is not None:
            return replace(said, failure=reply.failure)
        if not reply.calls:
            return replace(said, finish_reason=_finish_reason(answer, reply, budget))
        batch = _batch(opened, answer, reply, ask)
        outcome = await self._tools.run(
            turn, opened, batch, emit, within_budget=budget.take_tool_calls(len(batch.calls))
        )
        for action in outcome.pending_actions:
            emit(ApprovalRequested(action=action))
        return Step(
            prompt=said.prompt.extended((outcome.message,)),
            pending_actions=outcome.pending_actions,
            callable_tools=outcome.newly_callable,
            finish_reason=_end_after(outcome),
        )


def _closing_note(turn: Turn, budget: Budget) -> tuple[Message, ...]:
    if budget.next_step_is_last and not isinstance(turn.input, DecidedInput):
        return (context_message(_CONCLUDE),)
    return ()


def _ask(
    turn: Turn,
    opened: OpenedTurn,
    callable_tools: tuple[str, ...],
    budget: Budget,
    *,
    talks_only: bool,
) -> Ask:
    return Ask(
        turn_id=turn.context.turn_id,
        session_id=turn.context.session_id,
        message=input_text(turn.input),
        pending_actions=opened.standing.pending_actions,
        callable_tools=callable_tools,
        talks_only=talks_only or isinstance(turn.input, DecidedInput),
        budget=budget,
    )


def _kept(reply: Reply) -> tuple[Message, ...]:
    message = reply.message()
    return () if message is None else (message,)


def _batch(opened: OpenedTurn, answer: Answer, reply: Reply, ask: Ask) -> ToolBatch:
    # A model that calls a tool all the same is denied it, by the gate that reads this.
    names = () if ask.talks_only else ask.callable_tools
    if answer.candidate.is_degraded:
        names = reading_tools(answer.prompt.definitions, names)
    return ToolBatch(
        step=reply.step,
        calls=tuple(reply.calls),
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
