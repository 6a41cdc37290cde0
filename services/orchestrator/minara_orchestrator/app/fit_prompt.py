"""Make a prompt fit its model: the ladder of turn.md §4, climbed only as far as it is needed."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from minara_core.actions import PendingAction
from minara_core.errors import LimitExceeded
from minara_core.events import TokenUsage
from minara_core.messages import user_message
from minara_core.reasons import ErrorReason
from minara_llm.model import (
    ChatModel,
    ModelFailure,
    ModelRequest,
    ModelText,
    ModelUsage,
    SystemBlock,
)
from minara_orchestrator.domain import compaction as ladder
from minara_orchestrator.domain.blocks import action_line
from minara_orchestrator.domain.compaction import Fold, Rung
from minara_orchestrator.domain.compaction_digest import INSTRUCTIONS, digest
from minara_orchestrator.domain.compaction_note import Note, NoteLimits, extract, head_within
from minara_orchestrator.domain.estimate import Measure, TokenEstimator
from minara_orchestrator.domain.history import CompactionRecord
from minara_orchestrator.domain.prompt import Prompt

SUMMARY_SECONDS = 20.0
SUMMARY_OUTPUT_TOKENS = 1_500
_WORTH = 0.1
"""Share of the budget that a rung has to save unless it reaches its aim: what is cut is sent anew,
so that many small cuts cost more than they save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAsk:
    """What must survive: the session's pending actions; and what the new message is about."""

    session_id: str
    message: str
    pending_actions: tuple[PendingAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The prompt to send, its estimated input tokens, what was done for it, and what the summary,
    if one was written, has used."""

    prompt: Prompt
    tokens: int
    records: tuple[CompactionRecord, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)


class PromptFitter:
    """`batch` gives the model that writes summaries, or None when there is none; it has
    `summary_seconds` for one."""

    def __init__(
        self,
        batch: Callable[[], ChatModel | None],
        estimator: TokenEstimator,
        *,
        summary_seconds: float = SUMMARY_SECONDS,
    ) -> None:
        self._batch = batch
        self._estimator = estimator
        self._summary_seconds = summary_seconds

    def learn(self, model_name: str, *, estimated: int, told: int) -> None:
        """Take in how many tokens a request had for the provider."""
        self._estimator.learn(model_name, estimated=estimated, told=told)

    async def fit(
        self, prompt: Prompt, model: ChatModel, ask: FitAsk, *, overflows: int = 0
    ) -> Fitted:
        """`prompt` itself when it fits, else with less history, or less of its own results.

        `overflows` is how often the provider has said in this step that the prompt is too long:
        for each of them one more rung is taken, whatever the estimate says. Raises LimitExceeded
        (CONTEXT_TOO_LARGE) when nothing is left to take.
        """
        climb = _Climb(
            prompt=replace(prompt, overflows_met=min(prompt.overflows_met, overflows)),
            measure=self._estimator.measure(model.name),
            budget=ladder.budget_tokens(model.context_window),
            ask=ask,
            batch=self._batch,
            summary_seconds=self._summary_seconds,
        )
        await climb.by_share()
        while climb.prompt.overflows_met < overflows:
            await climb.next_rung()
        if climb.tokens > climb.budget:
            raise _too_large(climb.tokens, climb.budget)
        return Fitted(
            prompt=climb.prompt,
            tokens=climb.tokens,
            records=tuple(climb.records),
            usage=climb.usage,
        )


class _Climb:
    """One way up the ladder."""

    def __init__(
        self,
        *,
        prompt: Prompt,
        measure: Measure,
        budget: int,
        ask: FitAsk,
        batch: Callable[[], ChatModel | None],
        summary_seconds: float,
    ) -> None:
        self.prompt = prompt
        self.budget = budget
        self.tokens = measure.prompt(prompt)
        self.records: list[CompactionRecord] = []
        self.usage = TokenUsage()
        self._measure = measure
        self._ask = ask
        self._batch = batch
        self._summary_seconds = summary_seconds
        self._limits = NoteLimits.of(budget)
        self._pending_ids = tuple(action.pending_action_id for action in ask.pending_actions)
        self._waiting = Note(pending=tuple(action_line(each) for each in ask.pending_actions))

    async def by_share(self) -> None:
        """Each rung from its share of the budget on; the forced ones only above all of it."""
        target = int(self.budget * ladder.CUT_TO)
        if self._is_above(ladder.SLICE_FROM):
            self._take(Rung.BOUNDARY, self._sliced(target), is_forced=self._is_above(1))
        if self._is_above(ladder.COLLAPSE_FROM):
            self._take(Rung.COLLAPSE, self._collapsed(target), is_forced=self._is_above(1))
        if self._is_above(1):
            await self._fold_until_it_fits()
        elif self._is_above(ladder.SUMMARISE_FROM):
            fold = ladder.planned_fold(self.prompt, ladder.VERBATIM_TURNS[0])
            if fold is not None and self._is_worth(self._most_tokens(fold), target):
                await self._fold(fold)
        if self._is_above(1):
            self._take(Rung.OWN_RESULTS, self._own_results_stubbed(), is_forced=True)

    async def next_rung(self) -> None:
        """Take the first rung that saves anything. Raises LimitExceeded when none does."""
        before = self.tokens
        target = int(min(self.budget, self.tokens) * ladder.CUT_TO)
        for rung, take in (
            (Rung.BOUNDARY, lambda: self._sliced(target)),
            (Rung.COLLAPSE, lambda: self._collapsed(target)),
        ):
            if self._take(rung, take(), is_forced=True):
                break
        else:
            for count in ladder.VERBATIM_TURNS:
                fold = ladder.planned_fold(self.prompt, count)
                if fold is not None and await self._fold(fold):
                    break
            else:
                self._take(Rung.OWN_RESULTS, self._own_results_stubbed(), is_forced=True)
        if self.tokens >= before:
            raise _too_large(self.tokens, self.budget)
        self.prompt = replace(self.prompt, overflows_met=self.prompt.overflows_met + 1)

    def _sliced(self, target: int) -> Prompt:
        return ladder.sliced(self.prompt, self._measure, target)

    def _collapsed(self, target: int) -> Prompt:
        protected = self._pending_ids
        return ladder.collapsed(self.prompt, self._measure, target, protected=protected)

    def _own_results_stubbed(self) -> Prompt:
        return ladder.own_results_stubbed(self.prompt, protected=self._pending_ids)

    async def _fold_until_it_fits(self) -> None:
        """Keep as many turns word for word as leave room for some more; none if need be."""
        folds = [ladder.planned_fold(self.prompt, count) for count in ladder.VERBATIM_TURNS]
        planned = [fold for fold in folds if fold is not None]
        room = int(self.budget * ladder.SUMMARISE_FROM)
        for fold in planned:
            if self._most_tokens(fold) <= room or fold is planned[-1]:
                await self._fold(fold)
                return

    def _most_tokens(self, fold: Fold) -> int:
        return ladder.most_tokens(self.prompt, fold, self._waiting, self._measure, self._limits)

    async def _fold(self, fold: Fold) -> bool:
        summary = head_within(await self._summary(fold), self._limits.summary, self._measure)
        prompt = ladder.folded(
            self.prompt,
            fold,
            replace(self._waiting, summary=summary),
            self._measure,
            int(min(self.budget, self.tokens) * ladder.CUT_TO),
            limits=self._limits,
            message=self._ask.message,
            pending_ids=self._pending_ids,
        )
        return self._take(Rung.SUMMARY, prompt, is_forced=True)

    async def _summary(self, fold: Fold) -> str:
        """The batch model's summary; where there is none, the first lines of what was said."""
        model = self._batch()
        written = "" if model is None else await self._written(model, fold)
        if written:
            return written
        return extract(fold.folded, fold.old.summary, self._limits.summary, self._measure)

    async def _written(self, model: ChatModel, fold: Fold) -> str:
        room = ladder.budget_tokens(model.context_window) - SUMMARY_OUTPUT_TOKENS
        request = ModelRequest(
            model=model.name,
            system=(SystemBlock(name="summary", text=INSTRUCTIONS),),
            tools=(),
            messages=(user_message(digest(fold.folded, fold.old.summary, room, self._measure)),),
            max_output_tokens=SUMMARY_OUTPUT_TOKENS,
            session_id=self._ask.session_id,
        )
        texts: list[str] = []
        try:
            async with (
                asyncio.timeout(self._summary_seconds),
                aclosing(model.stream(request)) as events,
            ):
                async for event in events:
                    match event:
                        case ModelText():
                            texts.append(event.text)
                        case ModelUsage():
                            self.usage = self.usage.plus(event.usage)
                        case _:
                            pass
        except (ModelFailure, TimeoutError):
            return ""
        return "".join(texts).strip()

    def _take(self, rung: Rung, prompt: Prompt, *, is_forced: bool = False) -> bool:
        """Go on with `prompt` if it saves enough, or if it must save anything; whether it did."""
        after = self._measure.prompt(prompt)
        target = int(self.budget * ladder.CUT_TO)
        if after >= self.tokens or not (is_forced or self._is_worth(after, target)):
            return False
        record = CompactionRecord(rung=rung, tokens_before=self.tokens, tokens_after=after)
        self.records.append(record)
        self.prompt, self.tokens = prompt.noting(record), after
        return True

    def _is_above(self, share: float) -> bool:
        return self.tokens > self.budget * share

    def _is_worth(self, after: int, target: int) -> bool:
        return after <= target or self.tokens - after >= self.budget * _WORTH


def _too_large(tokens: int, budget: int) -> LimitExceeded:
    return LimitExceeded(
        "the conversation is too long for this model; start a new session",
        reason=ErrorReason.CONTEXT_TOO_LARGE,
        metadata={"tokens": str(tokens), "available": str(budget)},
    )
