"""One model message, whatever providers do: fit the prompt, ask, try again, ask the next one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from minara_core.actions import PendingAction
from minara_core.clock import Clock, pause
from minara_core.errors import LimitExceeded
from minara_core.events import ContextCompacted, ModelSwitched, StepStarted, TextReset, TokenUsage
from minara_llm.failover import Breakers, wait_before_retry
from minara_llm.model import ChatModel, FailureKind, ModelFailure, ModelRequest, ToolChoice
from minara_llm.offline.model import OFFLINE_PROVIDER
from minara_llm.prices import cost_of
from minara_orchestrator.app.fit_prompt import FitAsk, Fitted, PromptFitter
from minara_orchestrator.app.ports import Emit
from minara_orchestrator.app.reply import Reply, hear
from minara_orchestrator.app.stop_signal import StopSignal, TurnStopped
from minara_orchestrator.domain.compaction import reserved_output
from minara_orchestrator.domain.estimate import text_tokens
from minara_orchestrator.domain.model_policy import Candidate, Route, reading_tools
from minara_orchestrator.domain.prompt import Prompt
from minara_orchestrator.domain.turn import Budget, CallCost

_TOO_LARGE = FailureKind.CONTEXT_OVERFLOW.value

MOST_OVERFLOWS = 2
"""How often in one step a provider may say that the prompt is too long for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a step wants to hear, and from what it is paid. `parent` is the call of the sub-agent
    that asks, if one does."""

    turn_id: str
    session_id: str
    parent: str
    message: str
    pending_actions: tuple[PendingAction, ...]
    callable_tools: tuple[str, ...]
    talks_only: bool
    budget: Budget
    stop: StopSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The reply, who gave it to which prompt, and what all attempts have used.

    `reply` is None when no call was made: the budget allowed none, the turn was stopped, or, with a
    `failure`, the prompt fitted no candidate.
    """

    reply: Reply | None
    prompt: Prompt
    candidate: Candidate
    usage: TokenUsage
    failure: LimitExceeded | None = None


@dataclass(slots=True, kw_only=True)
class _Asking:
    """One step's attempts: with the candidate that speaks, and in all."""

    ask: Ask
    prompt: Prompt
    route: Route
    step: int = 0
    tries: int = 0
    overflows: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)

    def charge(self, usage: TokenUsage) -> None:
        self.usage = self.usage.plus(usage)
        self.ask.budget.charge(usage)

    def answer(self, reply: Reply | None, failure: LimitExceeded | None = None) -> Answer:
        return Answer(
            reply=reply,
            prompt=self.prompt,
            candidate=self.route.current,
            usage=self.usage,
            failure=failure,
        )


class ModelAsker:
    """Asks the candidates of a turn's route in their order until one of them has answered.

    What a broken attempt said is voided (`text_reset`) before another one begins, so that text
    never repeats. Attempts are charged even when they fail.
    """

    def __init__(
        self,
        fitter: PromptFitter,
        breakers: Breakers,
        clock: Clock,
        *,
        wait: Callable[[float], Awaitable[None]] = pause,
    ) -> None:
        self._fitter = fitter
        self._breakers = breakers
        self._clock = clock
        self._wait = wait

    async def ask(self, ask: Ask, prompt: Prompt, route: Route, emit: Emit) -> Answer:
        """One whole reply, or in it the failure of the last candidate."""
        asking = _Asking(ask=ask, prompt=prompt, route=route)
        self.pass_over_broken(route, emit)
        try:
            return await self._answer(asking, emit)
        except TurnStopped:
            return asking.answer(None)

    async def _answer(self, asking: _Asking, emit: Emit) -> Answer:
        ask, route = asking.ask, asking.route
        while True:
            async with ask.stop.breaking():
                fitted = await self._fit(asking, emit)
            if fitted.failure is not None:
                if not route.has_next:
                    return asking.answer(None, fitted.failure)
                self._move_on(asking, _TOO_LARGE, emit)
                continue
            model = route.current.model
            allowance = min(
                ask.budget.output_allowance(fitted.tokens, _cost(model)),
                reserved_output(model.context_window),
            )
            if not allowance:
                return asking.answer(None)
            if not asking.step:
                asking.step = ask.budget.start_step()
                emit(StepStarted(step=asking.step))
            reply = await self._attempt(asking, fitted.tokens, allowance, emit)
            if reply.failure is None or not await self._goes_on(asking, reply, emit):
                return asking.answer(reply)

    def pass_over_broken(self, route: Route, emit: Emit) -> None:
        """Move on from providers that are left alone for now."""
        while route.has_next and not self._allows(route.current.model):
            _switch(route, "circuit_open", emit)

    def _allows(self, model: ChatModel) -> bool:
        return self._breakers.of(model.provider).allows(self._clock.monotonic())

    async def _fit(self, asking: _Asking, emit: Emit) -> Fitted:
        ask = asking.ask
        told = FitAsk(
            session_id=ask.session_id, message=ask.message, pending_actions=ask.pending_actions
        )
        model = asking.route.current.model
        is_opening = not ask.budget.steps and not asking.step
        fitted = await self._fitter.fit(
            asking.prompt,
            model,
            told,
            overflows=asking.overflows,
            most_tokens=ask.budget.opening_tokens(_cost(model)) if is_opening else None,
        )
        for record in fitted.records:
            emit(
                ContextCompacted(
                    rung=record.rung,
                    tokens_before=record.tokens_before,
                    tokens_after=record.tokens_after,
                )
            )
        # What only another model needs cut is not cut for those that follow.
        is_first = asking.route.is_first
        kept = fitted.prompt.compaction if is_first else asking.prompt.compaction
        asking.prompt = replace(fitted.prompt, compaction=kept)
        asking.charge(fitted.usage)
        return fitted

    async def _attempt(self, asking: _Asking, estimated: int, allowance: int, emit: Emit) -> Reply:
        model = asking.route.current.model
        breaker = self._breakers.of(model.provider)
        breaker.begin(self._clock.monotonic())
        reply = await hear(
            model.stream(_request(asking, allowance)),
            asking.step,
            emit,
            seconds=asking.ask.budget.seconds_left(self._clock.monotonic()),
            most_tokens=allowance,
            stop=asking.ask.stop,
            parent=asking.ask.parent,
        )
        if reply.is_stopped:
            pass
        elif reply.failure is None:
            breaker.succeed()
        elif not reply.is_out_of_time:
            breaker.fail(reply.failure, self._clock.monotonic())
        if reply.usage.input_tokens:
            self._fitter.learn(model.name, estimated=estimated, told=reply.usage.input_tokens)
        if reply.has_spoken and model.provider != OFFLINE_PROVIDER:
            said = text_tokens("".join(_texts(reply)))
            reply.make_up_usage(model.name, input_tokens=estimated, output_tokens=said)
        asking.charge(reply.usage)
        return reply

    async def _goes_on(self, asking: _Asking, reply: Reply, emit: Emit) -> bool:
        """Whether another attempt follows the one that failed."""
        failure, route = reply.failure, asking.route
        assert failure is not None
        if reply.is_out_of_time:
            return False
        if failure.kind is FailureKind.CONTEXT_OVERFLOW and asking.overflows < MOST_OVERFLOWS:
            asking.overflows += 1
            _void(reply, failure, emit)
            return True
        asking.tries += 1
        key = f"{asking.ask.turn_id}:{asking.step}"
        wait = wait_before_retry(failure, tries=asking.tries, key=key)
        if wait is not None and self._allows(route.current.model):
            _void(reply, failure, emit)
            async with asking.ask.stop.breaking():
                await self._wait(wait)
            return True
        if not route.has_next:
            return False
        _void(reply, failure, emit)
        self._move_on(asking, failure.kind.value, emit)
        return True

    def _move_on(self, asking: _Asking, reason: str, emit: Emit) -> None:
        _switch(asking.route, reason, emit)
        self.pass_over_broken(asking.route, emit)
        asking.tries = asking.overflows = 0


def _void(reply: Reply, failure: ModelFailure, emit: Emit) -> None:
    if reply.has_spoken:
        emit(TextReset(reason=failure.kind.value))


def _switch(route: Route, reason: str, emit: Emit) -> None:
    before = route.current.label
    emit(ModelSwitched(from_model=before, to_model=route.move_on().label, reason=reason))


def _cost(model: ChatModel) -> CallCost:
    """The dearest a call can be: nothing of its input is cached yet, and all of it is to be."""
    return lambda input_tokens, output_tokens: cost_of(
        model.name,
        TokenUsage(
            input_tokens=input_tokens,
            cache_write_tokens=input_tokens,
            output_tokens=output_tokens,
        ),
    )


def _request(asking: _Asking, allowance: int) -> ModelRequest:
    ask, prompt, candidate = asking.ask, asking.prompt, asking.route.current
    names = ask.callable_tools
    if candidate.is_degraded:
        names = reading_tools(prompt.definitions, names)
    return ModelRequest(
        model=candidate.model.name,
        system=prompt.system,
        tools=prompt.definitions,
        messages=prompt.messages,
        max_output_tokens=allowance,
        session_id=ask.session_id,
        tool_choice=ToolChoice.NONE if ask.talks_only else ToolChoice.AUTO,
        callable_tools=names,
    )


def _texts(reply: Reply) -> list[str]:
    calls = [call.name + call.arguments_json for call in reply.calls]
    return [getattr(block, "text", "") for block in reply.blocks] + calls
