"""Standing goals in memory, and builders of them."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from minara_core.errors import MinaraError
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.goal_ports import GoalChange
from minara_orchestrator.domain.goal import Goal, a_goal
from minara_orchestrator.domain.turn import Turn, UserInput

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ME, HERE = UserId("local"), SessionId("session-1")


def a_standing_goal(
    text: str = "find a stablecoin yield above 8 %",
    *,
    max_turns: int = 3,
    subgoals: tuple[str, ...] = (),
    session_id: SessionId = HERE,
    user_id: UserId = ME,
) -> Goal:
    """An active goal of which no turn was judged yet."""
    return a_goal(
        session_id=session_id,
        user_id=user_id,
        text=text,
        max_turns=max_turns,
        subgoals=subgoals,
        now=START,
    )


def a_judged_turn(turn_id: str = "turn-1") -> Turn:
    """A turn of the session whose goal is judged."""
    context = TurnContext(
        turn_id=TurnId(turn_id),
        session_id=HERE,
        user_id=ME,
        origin=Origin.HTTP,
        allowed_tool_sets=("read",),
    )
    return Turn(context=context, input=UserInput(text="go on"), start_time=START)


@dataclass
class FakeGoals:
    """Implements Goals; fails with `error` while there is one."""

    stored: dict[tuple[SessionId, UserId], Goal] = field(
        default_factory=dict[tuple[SessionId, UserId], Goal]
    )
    error: MinaraError | None = None
    now: datetime = START

    def put(self, goal: Goal) -> None:
        self.stored[goal.session_id, goal.user_id] = goal

    async def get(self, session_id: SessionId, user_id: UserId) -> Goal | None:
        if self.error is not None:
            raise self.error
        return self.stored.get((session_id, user_id))

    async def change(
        self, session_id: SessionId, user_id: UserId, change: GoalChange
    ) -> Goal | None:
        found = await self.get(session_id, user_id)
        self.now += timedelta(seconds=1)
        wanted = change(found, self.now)
        if wanted == found:
            return found
        if wanted is None:
            del self.stored[session_id, user_id]
            return None
        stands = replace(wanted, update_time=self.now)
        self.put(stands)
        return stands
