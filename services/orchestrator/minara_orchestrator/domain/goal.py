"""The standing goal of a session: what it may say, and how it moves on (turn.md §2)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from minara_core import input_scan
from minara_core.errors import InvalidRequest, MinaraError, NotReady
from minara_core.events import GoalJudged
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.untrusted import harmless

MAX_TEXT_BYTES = 4 * 1024
MAX_SUBGOAL_BYTES = 512
MAX_SUBGOALS = 20
DEFAULT_MAX_TURNS = 20
MOST_MAX_TURNS = 100
_MOST_REASON = 300
_NO_REASON = "no reason was given"


class GoalState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    MET = "met"
    BLOCKED = "blocked"


class Verdict(StrEnum):
    CONTINUE = "continue"
    MET = "met"
    BLOCKED = "blocked"


class PausedReason(StrEnum):
    USER = "user"
    TURNS_USED_UP = "turns_used_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal and what its judge said last. `turns_used` counts the turns judged since it was set or
    resumed; `last_turn_id` is the last one that was judged."""

    session_id: SessionId
    user_id: UserId
    text: str
    state: GoalState = GoalState.ACTIVE
    turns_used: int = 0
    max_turns: int = DEFAULT_MAX_TURNS
    subgoals: tuple[str, ...] = ()
    last_verdict: Verdict | None = None
    last_reason: str = ""
    paused_reason: PausedReason | None = None
    last_turn_id: TurnId | None = None
    create_time: datetime
    update_time: datetime

    @property
    def is_active(self) -> bool:
        return self.state is GoalState.ACTIVE

    @property
    def stands(self) -> bool:
        """Whether no other goal may take its place yet."""
        return self.state in (GoalState.ACTIVE, GoalState.PAUSED)

    @property
    def turns_left(self) -> int:
        return self.max_turns - self.turns_used

    def asks_the_same_as(self, other: "Goal") -> bool:
        """Whether a person who sets one of the two means the other one as well."""
        return (self.text, self.max_turns, self.subgoals) == (
            other.text,
            other.max_turns,
            other.subgoals,
        )

    def is_still(self, other: "Goal") -> bool:
        """Whether it is `other` at another moment, not one that was set in its place."""
        return self.create_time == other.create_time and self.asks_the_same_as(other)

    def was_judged_after(self, turn_id: TurnId) -> bool:
        """Whether this turn was the last one that was judged."""
        return self.last_turn_id == turn_id

    def paused(self) -> "Goal":
        """From active to paused, by the person; a paused one stays as it is.

        Raises NotReady (GOAL_NOT_ACTIVE) when it is met or blocked.
        """
        if self.state is GoalState.PAUSED:
            return self
        if not self.is_active:
            raise _not_active(f"the goal is {self.state}; there is nothing to pause")
        return replace(self, state=GoalState.PAUSED, paused_reason=PausedReason.USER)

    def resumed(self) -> "Goal":
        """From paused or blocked to active, with all its turns; an active one stays as it is.

        Raises NotReady (GOAL_NOT_ACTIVE) when it is met.
        """
        if self.is_active:
            return self
        if self.state is GoalState.MET:
            raise _not_active("the goal is met; set another one")
        return replace(self, state=GoalState.ACTIVE, turns_used=0, paused_reason=None)

    def judged(self, verdict: Verdict, reason: str, turn_id: TurnId) -> "Goal":
        """After a turn: counted, and moved by the verdict; paused when that was its last turn.

        A turn counts once, and only while the goal is active: otherwise nothing changes.
        """
        if not self.is_active or self.was_judged_after(turn_id):
            return self
        told = replace(
            self,
            turns_used=self.turns_used + 1,
            last_verdict=verdict,
            last_reason=sentence(reason),
            last_turn_id=turn_id,
        )
        if verdict is Verdict.MET:
            return replace(told, state=GoalState.MET)
        if verdict is Verdict.BLOCKED:
            return replace(told, state=GoalState.BLOCKED)
        if told.turns_left <= 0:
            return replace(told, state=GoalState.PAUSED, paused_reason=PausedReason.TURNS_USED_UP)
        return told

    @property
    def judgement(self) -> GoalJudged:
        """What its last judgement is told as. It has one."""
        assert self.last_verdict is not None
        return GoalJudged(
            verdict=self.last_verdict.value,
            reason=self.last_reason,
            turns_used=self.turns_used,
            max_turns=self.max_turns,
        )


def a_goal(
    *,
    session_id: SessionId,
    user_id: UserId,
    text: str,
    max_turns: int,
    subgoals: Iterable[str],
    now: datetime,
) -> Goal:
    """A new, active goal; `max_turns` 0 is the default. Texts are scanned as messages are, so that
    what is kept of them holds no secret.

    Raises InvalidRequest (GOAL_INVALID) for an empty or too long text or subgoal, too many
    subgoals, or turns out of 1 to MOST_MAX_TURNS.
    """
    parts = tuple(subgoals)
    if len(parts) > MAX_SUBGOALS:
        raise _invalid("subgoals", f"a goal has at most {MAX_SUBGOALS} subgoals")
    turns = max_turns or DEFAULT_MAX_TURNS
    if not 1 <= turns <= MOST_MAX_TURNS:
        raise _invalid("max_turns", f"a goal may use 1 to {MOST_MAX_TURNS} turns")
    return Goal(
        session_id=session_id,
        user_id=user_id,
        text=_scanned("text", text, MAX_TEXT_BYTES),
        max_turns=turns,
        subgoals=tuple(_scanned("subgoals", part, MAX_SUBGOAL_BYTES) for part in parts),
        create_time=now,
        update_time=now,
    )


def goal_block(goal: Goal) -> str:
    """What a model is told of an active goal: the person's words, and the turns that are left."""
    lines = ["The person's standing goal for this session:", harmless(goal.text)]
    if goal.subgoals:
        lines += ["Its parts:", *(f"- {harmless(part)}" for part in goal.subgoals)]
    lines += [
        f"Turns left for it: {goal.turns_left} of {goal.max_turns}.",
        "It is a wish, not an order: it allows no tool that is not callable, and whatever moves "
        "money still takes the person's own word.",
    ]
    return "\n".join(lines)


def sentence(text: str) -> str:
    """A model's reason as it is kept and shown: one short line without control characters, secrets
    or a chat template's tokens."""
    try:
        scanned = input_scan.scan(text[: 4 * _MOST_REASON]).text
    except MinaraError:
        return _NO_REASON
    line = " ".join(harmless(scanned).split())
    return line if len(line) <= _MOST_REASON else f"{line[: _MOST_REASON - 1]}…"


def _scanned(field: str, text: str, most_bytes: int) -> str:
    try:
        scanned = input_scan.scan(text).text.strip()
    except MinaraError as error:
        raise _invalid(field, error.message) from error
    if len(scanned.encode()) > most_bytes:
        raise _invalid(field, f"at most {most_bytes} bytes are taken")
    return scanned


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, reason=ErrorReason.GOAL_INVALID, metadata={"field": field})


def _not_active(message: str) -> NotReady:
    return NotReady(message, reason=ErrorReason.GOAL_NOT_ACTIVE)
