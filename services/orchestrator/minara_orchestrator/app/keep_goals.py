"""Set, pause, resume and clear a session's standing goal, and admit the turns that work on it."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from minara_core.errors import AlreadyExists, NotFound, NotReady
from minara_core.goals import GOAL_TURN_TEXT
from minara_core.ids import SessionId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.goal_ports import Goals
from minara_orchestrator.domain.goal import Goal, a_goal


class GoalStep(StrEnum):
    """What a person may do with the goal that stands."""

    PAUSE = "pause"
    RESUME = "resume"
    CLEAR = "clear"


class GoalKeeper:
    def __init__(self, goals: Goals) -> None:
        self._goals = goals

    async def get(self, session_id: SessionId, user_id: UserId) -> Goal | None:
        """The goal of this session, if this person has set one. Raises Unavailable."""
        return await self._goals.get(session_id, user_id)

    async def set(
        self,
        session_id: SessionId,
        user_id: UserId,
        *,
        text: str,
        max_turns: int = 0,
        subgoals: Sequence[str] = (),
    ) -> Goal:
        """Set a goal where none is active or paused; the same one again is what stands.

        Raises InvalidRequest (GOAL_INVALID), AlreadyExists (GOAL_EXISTS), Unavailable.
        """

        def change(found: Goal | None, now: datetime) -> Goal:
            wanted = a_goal(
                session_id=session_id,
                user_id=user_id,
                text=text,
                max_turns=max_turns,
                subgoals=subgoals,
                now=now,
            )
            if found is None or not found.stands:
                return wanted
            if found.asks_the_same_as(wanted):
                return found
            raise AlreadyExists(
                f"this session has a goal that is {found.state}; clear it first",
                reason=ErrorReason.GOAL_EXISTS,
                metadata={"state": found.state.value},
            )

        stands = await self._goals.change(session_id, user_id, change)
        assert stands is not None
        return stands

    async def update(self, session_id: SessionId, user_id: UserId, step: GoalStep) -> Goal | None:
        """Take this step; what stands then, None once it is cleared.

        Raises NotFound (GOAL_NOT_FOUND), NotReady (GOAL_NOT_ACTIVE), Unavailable.
        """

        def change(found: Goal | None, now: datetime) -> Goal | None:
            if step is GoalStep.CLEAR:
                return None
            if found is None:
                raise NotFound("this session has no goal", reason=ErrorReason.GOAL_NOT_FOUND)
            match step:
                case GoalStep.PAUSE:
                    return found.paused()
                case GoalStep.RESUME:
                    return found.resumed()

        return await self._goals.change(session_id, user_id, change)

    async def admit_goal_turn(self, context: TurnContext, text: str) -> None:
        """Let a turn begin: any of another origin, and one of origin `goal` when it says the fixed
        sentence and the session's goal is active. Raises NotReady (GOAL_NOT_ACTIVE), Unavailable.
        """
        if context.origin is not Origin.GOAL:
            return
        if text != GOAL_TURN_TEXT:
            raise NotReady(
                "a goal turn says the fixed sentence alone", reason=ErrorReason.GOAL_NOT_ACTIVE
            )
        goal = await self._goals.get(context.session_id, context.user_id)
        if goal is None or not goal.is_active:
            raise NotReady("no goal of this session is active", reason=ErrorReason.GOAL_NOT_ACTIVE)
