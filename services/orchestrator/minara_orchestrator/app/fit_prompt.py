"""Make a prompt fit its model: the ladder of turn.md §4, climbed only as far as it is needed."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

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
from minara_orchestrator.domain.compaction import Fold
from minara_orchestrator.domain.compaction_climb import Climb
from minara_orchestrator.domain.compaction_digest import INSTRUCTIONS, digest
from minara_orchestrator.domain.estimate import Measure, TokenEstimator
from minara_orchestrator.domain.history import CompactionRecord
from minara_orchestrator.domain.prompt import Prompt

SUMMARY_SECONDS = 20.0
SUMMARY_OUTPUT_TOKENS = 1_500
_MOST_MESSAGES = 1_000
"""A longer history is measured and cut in a thread, so that other turns go on meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAsk:
    """What must survive: the session's pending actions; and what the new message is about."""

    session_id: str
    message: str
    pending_actions: tuple[PendingAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The prompt to send, its estimated input tokens, what was done for it, and what the summary,
    if one was written, has used.

    With a `failure` (CONTEXT_TOO_LARGE) nothing was left to take: the prompt is then as short as it
    could be made, and too long all the same.
    """

    prompt: Prompt
    tokens: int
    records: tuple[CompactionRecord, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    failure: LimitExceeded | None = None


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
        self,
        prompt: Prompt,
        model: ChatModel,
        ask: FitAsk,
        *,
        overflows: int = 0,
        most_tokens: int | None = None,
    ) -> Fitted:
        """`prompt` itself when it fits, else with less history, or less of its own results.

        `overflows` is how often the provider has said in this step that the prompt is too long:
        for each of them one more rung is taken, whatever the estimate says. `most_tokens` is what
        the prompt should have at most: rungs are taken for it as for the window, but a prompt that
        has more may be sent.
        """
        measure = self._estimator.measure(model.name)
        climb = Climb(
            prompt,
            measure,
            ladder.budget_tokens(model.context_window),
            message=ask.message,
            pending_actions=ask.pending_actions,
        )
        summaries = _Summaries(self._batch, measure, ask.session_id, self._summary_seconds)
        fits = await _climbed(climb, summaries, overflows=overflows, most_tokens=most_tokens)
        return Fitted(
            prompt=climb.prompt,
            tokens=climb.tokens,
            records=tuple(climb.records),
            usage=summaries.usage,
            failure=None if fits else _too_large(climb.prompt, climb.tokens, climb.budget),
        )


async def _climbed(
    climb: Climb, summaries: "_Summaries", *, overflows: int, most_tokens: int | None
) -> bool:
    """Climb, with the summaries that this takes; whether the prompt fits then."""
    steps = climb.up(overflows=overflows, most_tokens=most_tokens)
    is_long = sum(len(turn.messages) for turn in climb.prompt.history) > _MOST_MESSAGES

    def next_fold(summary: str | None) -> Fold | bool:
        try:
            return next(steps) if summary is None else steps.send(summary)
        except StopIteration as end:
            return bool(end.value)

    written: str | None = None
    while True:
        fold = await asyncio.to_thread(next_fold, written) if is_long else next_fold(written)
        if isinstance(fold, bool):
            return fold
        written = await summaries.write(fold)


class _Summaries:
    """The batch model's; empty where there is none, or it fails. `usage` is what they have used."""

    def __init__(
        self,
        batch: Callable[[], ChatModel | None],
        measure: Measure,
        session_id: str,
        seconds: float,
    ) -> None:
        self.usage = TokenUsage()
        self._batch = batch
        self._measure = measure
        self._session_id = session_id
        self._seconds = seconds

    async def write(self, fold: Fold) -> str:
        model = self._batch()
        return "" if model is None else await self._written(model, fold)

    async def _written(self, model: ChatModel, fold: Fold) -> str:
        room = ladder.budget_tokens(model.context_window) - SUMMARY_OUTPUT_TOKENS
        said = digest(fold.folded, fold.old.summary, room, self._measure)
        if not said.strip():
            return ""
        request = ModelRequest(
            model=model.name,
            system=(SystemBlock(name="summary", text=INSTRUCTIONS),),
            tools=(),
            messages=(user_message(said),),
            max_output_tokens=SUMMARY_OUTPUT_TOKENS,
            session_id=self._session_id,
        )
        texts: list[str] = []
        try:
            async with (
                asyncio.timeout(self._seconds),
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


def _too_large(prompt: Prompt, tokens: int, budget: int) -> LimitExceeded:
    what = "the conversation is too long for this model; start a new session"
    if not prompt.history and not prompt.following:
        what = f"this model can read {budget} tokens, and what every message needs is {tokens}"
    return LimitExceeded(
        what,
        reason=ErrorReason.CONTEXT_TOO_LARGE,
        metadata={"tokens": str(tokens), "available": str(budget)},
    )
