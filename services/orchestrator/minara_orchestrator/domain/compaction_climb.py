"""One way up the ladder: which rung is taken when, and how far (turn.md §4)."""

from collections.abc import Generator, Sequence
from dataclasses import replace

from minara_core.actions import PendingAction
from minara_orchestrator.domain import compaction as ladder
from minara_orchestrator.domain.blocks import action_line
from minara_orchestrator.domain.compaction import Fold, Rung
from minara_orchestrator.domain.compaction_note import Note, NoteLimits, extract, head_within
from minara_orchestrator.domain.estimate import Measure
from minara_orchestrator.domain.history import CompactionRecord
from minara_orchestrator.domain.prompt import Prompt

_WORTH = 0.1
"""Share of its aim that a rung has to save unless it reaches what it cuts to: what is cut is sent
anew, so that many small cuts cost more than they save."""

Summarised = Generator[Fold, str, bool]
"""Yields what has to be summarised, and is sent the summary, empty when nobody wrote one."""


class Climb:
    """Takes rungs from `prompt` until it has at most `budget` tokens.

    `message` and `pending_actions` are what bears on the turn and must survive.
    """

    def __init__(
        self,
        prompt: Prompt,
        measure: Measure,
        budget: int,
        *,
        message: str,
        pending_actions: Sequence[PendingAction],
    ) -> None:
        self.prompt = prompt
        self.budget = budget
        self.tokens = 0
        self.records: list[CompactionRecord] = []
        self._measure = measure
        self._message = message
        self._aim = budget
        self._limits = NoteLimits.of(budget)
        self._pending_ids = tuple(action.pending_action_id for action in pending_actions)
        self._waiting = Note(pending=tuple(action_line(each) for each in pending_actions))

    def up(self, *, overflows: int, most_tokens: int | None) -> Summarised:
        """Climb as far as it is needed; whether the prompt fits then.

        For each of `overflows` one more rung is taken, whatever the estimate says. `most_tokens`
        is what the prompt should have at most; one with more fits all the same.
        """
        met = min(self.prompt.overflows_met, overflows)
        self.prompt = replace(self.prompt, overflows_met=met)
        self.tokens = self._measure.prompt(self.prompt)
        self._drop_state()
        self._aim = ladder.aim(self.prompt, self._measure, self.tokens, self.budget, most_tokens)
        self._limits = NoteLimits.of(self._aim)
        yield from self._by_share()
        while self.prompt.overflows_met < overflows:
            before = self.tokens
            yield from self._next_rung()
            if self.tokens >= before:
                return False
            met = self.prompt.overflows_met + 1
            self.prompt = replace(self.prompt, overflows_met=met)
        return self.tokens <= self.budget

    def _drop_state(self) -> None:
        """What is no text is not counted in tokens, but has to be stored."""
        prompt = ladder.without_state(self.prompt)
        if prompt is not self.prompt:
            self._go_on(Rung.STATE, prompt, self._measure.prompt(prompt))

    def _by_share(self) -> Summarised:
        """Each rung from its share of the aim on, if it saves enough; above all of it whatever
        there is. Whether the aim is reached."""
        target = int(self._aim * ladder.CUT_TO)
        was_over = self._is_above(1)
        if self._is_above(ladder.SLICE_FROM):
            self._take(Rung.BOUNDARY, self._sliced(target))
        if self._is_above(ladder.COLLAPSE_FROM):
            self._take(Rung.COLLAPSE, self._collapsed(target))
        if was_over and self._is_above(ladder.SUMMARISE_FROM):
            # A cut that only just fits would be made again each turn.
            yield from self._fold_until_it_fits()
        elif self._is_above(ladder.SUMMARISE_FROM):
            fold = ladder.planned_fold(self.prompt, ladder.VERBATIM_TURNS[0])
            if fold is not None and self._is_worth(self._most_tokens(fold), target):
                yield from self._fold(fold)
        for rung, take in (
            (Rung.BOUNDARY, lambda: self._sliced(target)),
            (Rung.COLLAPSE, lambda: self._collapsed(target)),
            (Rung.OWN_RESULTS, self._own_results_stubbed),
        ):
            if self._is_above(1):
                self._take(rung, take(), is_forced=True)
        return not self._is_above(1)

    def _next_rung(self) -> Summarised:
        """The first rung that saves anything; whether there was one."""
        target = int(min(self._aim, self.tokens) * ladder.CUT_TO)
        if self._take(Rung.BOUNDARY, self._sliced(target), is_forced=True):
            return True
        if self._take(Rung.COLLAPSE, self._collapsed(target), is_forced=True):
            return True
        for count in ladder.VERBATIM_TURNS:
            fold = ladder.planned_fold(self.prompt, count)
            if fold is not None and (yield from self._fold(fold)):
                return True
        return self._take(Rung.OWN_RESULTS, self._own_results_stubbed(), is_forced=True)

    def _sliced(self, target: int) -> Prompt:
        return ladder.sliced(self.prompt, self._measure, target)

    def _collapsed(self, target: int) -> Prompt:
        protected = self._pending_ids
        return ladder.collapsed(self.prompt, self._measure, target, protected=protected)

    def _own_results_stubbed(self) -> Prompt:
        return ladder.own_results_stubbed(self.prompt, protected=self._pending_ids)

    def _fold_until_it_fits(self) -> Summarised:
        """Keep as many turns word for word as leave room for some more; none if need be."""
        folds = [ladder.planned_fold(self.prompt, count) for count in ladder.VERBATIM_TURNS]
        planned = [fold for fold in folds if fold is not None]
        room = int(self._aim * ladder.SUMMARISE_FROM)
        for fold in planned:
            if self._most_tokens(fold) <= room or fold is planned[-1]:
                return (yield from self._fold(fold))
        return False

    def _most_tokens(self, fold: Fold) -> int:
        return ladder.most_tokens(self.prompt, fold, self._waiting, self._measure, self._limits)

    def _fold(self, fold: Fold) -> Summarised:
        """Without a summary, the first lines of what was said stand for it."""
        limit = self._limits.summary
        written = yield fold
        if not written:
            written = extract(fold.folded, fold.old.summary, limit, self._measure)
        prompt = ladder.folded(
            self.prompt,
            fold,
            replace(self._waiting, summary=head_within(written, limit, self._measure)),
            self._measure,
            int(min(self._aim, self.tokens) * ladder.CUT_TO),
            limits=self._limits,
            message=self._message,
            pending_ids=self._pending_ids,
        )
        return self._take(Rung.SUMMARY, prompt, is_forced=True)

    def _take(self, rung: Rung, prompt: Prompt, *, is_forced: bool = False) -> bool:
        """Go on with `prompt` if it saves enough, or if it must save anything; whether it did."""
        if prompt is self.prompt:
            return False
        after = self._measure.prompt(prompt)
        target = int(self._aim * ladder.CUT_TO)
        if after >= self.tokens or not (is_forced or self._is_worth(after, target)):
            return False
        self._go_on(rung, prompt, after)
        return True

    def _go_on(self, rung: Rung, prompt: Prompt, after: int) -> None:
        record = CompactionRecord(rung=rung, tokens_before=self.tokens, tokens_after=after)
        self.records.append(record)
        self.prompt, self.tokens = prompt.noting(record), after

    def _is_above(self, share: float) -> bool:
        return self.tokens > self._aim * share

    def _is_worth(self, after: int, target: int) -> bool:
        return after <= target or self.tokens - after >= self._aim * _WORTH
