"""Judge a session's standing goal after a turn: a cheap model is asked, a rule decides."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime

from minara_core.errors import MinaraError
from minara_core.events import GoalJudged, TokenUsage
from minara_core.messages import Message, user_message
from minara_llm.model import ChatModel, ModelRequest, ModelText, ModelUsage, SystemBlock
from minara_llm.offline.model import OFFLINE_PROVIDER
from minara_orchestrator.app.goal_ports import Goals
from minara_orchestrator.domain.goal import Goal, Verdict
from minara_orchestrator.domain.goal_judging import (
    JUDGE_INSTRUCTIONS,
    MOST_ANSWER,
    Opinion,
    question,
    read_opinion,
)
from minara_orchestrator.domain.turn import Turn

JUDGE_SECONDS = 3.0
JUDGE_OUTPUT_TOKENS = 400
_MODEL_SHARE = 0.8
"""Of the time, for the model; the rest is for storage."""

NO_MODEL = "no language model is set up that could judge this goal"
NOT_JUDGED = "this turn could not be judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is told of the goal, and what judging it has used."""

    event: GoalJudged
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(slots=True, kw_only=True)
class _Judging:
    """One turn's judgement as far as it got."""

    turn: Turn
    messages: tuple[Message, ...]
    goal: Goal | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)

    @property
    def failed(self) -> Judgement | None:
        """What is told when judging broke off: nothing is known to be counted."""
        if self.goal is None:
            return None
        event = GoalJudged(
            verdict=Verdict.CONTINUE.value,
            reason=NOT_JUDGED,
            turns_used=self.goal.turns_used,
            max_turns=self.goal.max_turns,
        )
        return Judgement(event=event, usage=self.usage)


class GoalJudge:
    """`batch` gives the model that is asked, or None while none answers; without `has_model` there
    never is one, and goals end as blocked so that nobody works on them for ever."""

    def __init__(
        self,
        goals: Goals,
        batch: Callable[[], ChatModel | None],
        report_bug: Callable[[BaseException], None],
        *,
        has_model: bool = True,
        seconds: float = JUDGE_SECONDS,
    ) -> None:
        self._goals = goals
        self._batch = batch
        self._report_bug = report_bug
        self._has_model = has_model
        self._seconds = seconds

    async def judge(self, turn: Turn, messages: tuple[Message, ...]) -> Judgement | None:
        """Judge the active goal of the turn's session by what the turn left; None without one.

        Takes at most `seconds`. A turn is counted once: asked again, the answer is the same. When
        no verdict can be had the goal goes on. Raises nothing but cancellation.
        """
        judging = _Judging(turn=turn, messages=messages)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._judged(judging)
        except (MinaraError, TimeoutError):
            return judging.failed

    async def _judged(self, judging: _Judging) -> Judgement | None:
        context = judging.turn.context
        goal = await self._goals.get(context.session_id, context.user_id)
        if goal is not None and goal.was_judged_after(context.turn_id):
            return Judgement(event=goal.judgement)
        if goal is None or not goal.is_active:
            return None
        judging.goal = goal
        opinion = await self._opinion(judging, goal)

        def change(found: Goal | None, now: datetime) -> Goal | None:
            if found is None or not found.is_still(goal):
                return found
            return found.judged(opinion.verdict, opinion.reason, context.turn_id)

        stands = await self._goals.change(context.session_id, context.user_id, change)
        if stands is None or not stands.was_judged_after(context.turn_id):
            return None  # a person cleared, paused or replaced it meanwhile
        return Judgement(event=stands.judgement, usage=judging.usage)

    async def _opinion(self, judging: _Judging, goal: Goal) -> Opinion:
        model = self._batch()
        if not self._has_model or (model is not None and model.provider == OFFLINE_PROVIDER):
            return Opinion(verdict=Verdict.BLOCKED, reason=NO_MODEL)
        if model is None:
            return Opinion(verdict=Verdict.CONTINUE, reason=NOT_JUDGED)
        try:
            async with asyncio.timeout(self._seconds * _MODEL_SHARE):
                return read_opinion(await _answer(model, judging, goal))
        except (MinaraError, TimeoutError):
            return Opinion(verdict=Verdict.CONTINUE, reason=NOT_JUDGED)
        except Exception as error:
            # The turn is recorded: it must not fail because of its judge, and it counts.
            self._report_bug(error)
            return Opinion(verdict=Verdict.CONTINUE, reason=NOT_JUDGED)


async def _answer(model: ChatModel, judging: _Judging, goal: Goal) -> str:
    """All that the model says, as far as it can be a verdict; counts what that has used."""
    context = judging.turn.context
    request = ModelRequest(
        model=model.name,
        system=(SystemBlock(name="judge", text=JUDGE_INSTRUCTIONS),),
        tools=(),
        messages=(user_message(question(goal, context.turn_id, judging.messages)),),
        max_output_tokens=JUDGE_OUTPUT_TOKENS,
        session_id=context.session_id,
    )
    said = ""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            match event:
                case ModelText():
                    said += event.text[: MOST_ANSWER + 1 - len(said)]
                case ModelUsage():
                    judging.usage = judging.usage.plus(event.usage)
                case _:
                    pass
    return said
