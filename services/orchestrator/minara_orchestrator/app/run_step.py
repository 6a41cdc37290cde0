"""One step: one model call, one batch of tools."""

from minara_core.clock import Clock
from minara_core.events import ApprovalRequested, FinishReason, StepStarted, UsageReported
from minara_core.messages import Message, context_message
from minara_llm.model import ChatModel, ModelRequest, StopReason, ToolChoice
from minara_orchestrator.app.ask_model import Reply, ask_model
from minara_orchestrator.app.open_turn import OpenedTurn
from minara_orchestrator.app.ports import Emit, ToolBatch
from minara_orchestrator.app.run_tools import ToolRunner
from minara_orchestrator.domain.prompt import Prompt
from minara_orchestrator.domain.turn import Budget, DecidedInput, Step, Turn

_CONCLUDE = "This is the last step of this turn. Conclude now with what you have; call no tools."


class StepRunner:
    def __init__(self, tools: ToolRunner, clock: Clock) -> None:
        self._tools = tools
        self._clock = clock

    async def run_step(
        self,
        turn: Turn,
        opened: OpenedTurn,
        prompt: Prompt,
        callable_tools: tuple[str, ...],
        model: ChatModel,
        budget: Budget,
        emit: Emit,
    ) -> Step:
        """Ask the model, run what it asks for, and say whether the turn ends here."""
        number = budget.start_step()
        emit(StepStarted(step=number))
        note = _closing_note(turn, budget)
        talks_only = bool(note) or isinstance(turn.input, DecidedInput)
        request = _request(turn, prompt.extended(note), callable_tools, model, budget, talks_only)
        reply = await ask_model(model, request, number, emit)
        budget.charge(reply.usage)
        emit(UsageReported(step=number, usage=reply.usage))
        said = _kept(note, reply)
        if reply.failure is not None:
            return Step(messages=said, failure=reply.failure)
        if not reply.calls:
            return Step(messages=said, finish_reason=_finish_reason(reply))
        outcome = await self._tools.run(
            turn,
            opened,
            ToolBatch(
                step=number,
                calls=tuple(reply.calls),
                stage=opened.selection.stage,
                # A model that calls a tool all the same is denied it, by the gate that reads this.
                callable_tools=() if talks_only else callable_tools,
                risk_ceiling=opened.selection.risk_ceiling,
                catalog_etag=opened.catalog.etag,
            ),
            emit,
            within_budget=budget.take_tool_calls(len(reply.calls)),
        )
        for action in outcome.pending_actions:
            emit(ApprovalRequested(action=action))
        return Step(
            messages=(*said, outcome.message),
            pending_actions=outcome.pending_actions,
            callable_tools=outcome.newly_callable,
            finish_reason=(
                FinishReason.APPROVAL_REQUESTED
                if outcome.pending_actions
                else FinishReason.QUESTION
                if outcome.has_question
                else None
            ),
        )


def _closing_note(turn: Turn, budget: Budget) -> tuple[Message, ...]:
    if budget.is_last_step and not isinstance(turn.input, DecidedInput):
        return (context_message(_CONCLUDE),)
    return ()


def _kept(note: tuple[Message, ...], reply: Reply) -> tuple[Message, ...]:
    message = reply.message()
    return (*note, message) if message is not None else note


def _request(
    turn: Turn,
    prompt: Prompt,
    callable_tools: tuple[str, ...],
    model: ChatModel,
    budget: Budget,
    talks_only: bool,
) -> ModelRequest:
    return ModelRequest(
        model=model.name,
        system=prompt.system,
        tools=prompt.definitions,
        messages=prompt.messages,
        max_output_tokens=budget.output_tokens_left,
        session_id=turn.context.session_id,
        tool_choice=ToolChoice.NONE if talks_only else ToolChoice.AUTO,
        callable_tools=callable_tools,
    )


def _finish_reason(reply: Reply) -> FinishReason:
    match reply.stop:
        case StopReason.REFUSAL:
            return FinishReason.REFUSAL
        case StopReason.MAX_TOKENS:
            return FinishReason.BUDGET
        case _:
            return FinishReason.STOP
