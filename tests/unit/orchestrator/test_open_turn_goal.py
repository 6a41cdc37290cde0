"""A turn is told of its session's goal while it is active, and never waits for it."""

from dataclasses import replace

import pytest

from minara_core.errors import Unavailable
from minara_core.events import TurnCancelled, TurnCompleted
from minara_core.goals import GOAL_TURN_TEXT
from minara_core.ids import UserId
from minara_core.taxonomy import Origin
from minara_llm.scripted import ScriptedModel, says
from minara_orchestrator.app.open_turn import OpenedTurn, TurnOpening
from minara_orchestrator.domain.goal import GoalState, goal_block
from minara_orchestrator.domain.model_policy import Candidate
from minara_orchestrator.domain.prompt import blocks_in
from minara_orchestrator.domain.turn import TriggerInput, Turn
from support.orchestrator.goals import FakeGoals, a_judged_turn, a_standing_goal
from support.orchestrator.house import House
from support.orchestrator.peers import FakeSkills, FakeTools, FakeWorkspace


class OneModel:
    async def candidates(self, user_id: UserId) -> tuple[Candidate, ...]:
        return (Candidate(model=ScriptedModel([])),)


@pytest.fixture
def goals() -> FakeGoals:
    return FakeGoals()


async def opened(goals: FakeGoals) -> OpenedTurn:
    opening = TurnOpening(FakeWorkspace(), FakeSkills(), FakeTools(), OneModel(), goals)
    return await opening.open(a_judged_turn())


def told(turn: OpenedTurn) -> dict[str, str]:
    return dict(blocks_in(turn.prompt.opening[0].text))


async def test_an_active_goal_stands_in_the_prompt_before_the_signal(goals: FakeGoals) -> None:
    goal = a_standing_goal()
    goals.put(goal)
    turn = await opened(goals)
    assert turn.goal == goal
    assert told(turn)["goal"] == goal_block(goal)
    assert list(told(turn))[-2:] == ["goal", "signal"]


@pytest.mark.parametrize("state", [GoalState.PAUSED, GoalState.MET, GoalState.BLOCKED])
async def test_a_goal_that_is_not_active_is_not_told(goals: FakeGoals, state: GoalState) -> None:
    goals.put(replace(a_standing_goal(), state=state))
    turn = await opened(goals)
    assert turn.goal is None
    assert "goal" not in told(turn)


async def test_a_turn_whose_goal_cannot_be_read_goes_on_without(goals: FakeGoals) -> None:
    goals.put(a_standing_goal())
    goals.error = Unavailable("gone")
    turn = await opened(goals)
    assert turn.goal is None
    assert "signal" in told(turn)


def a_goal_turn() -> Turn:
    turn = a_judged_turn()
    context = replace(turn.context, origin=Origin.GOAL)
    return replace(turn, context=context, input=TriggerInput(text=GOAL_TURN_TEXT))


async def test_a_goal_turn_whose_goal_was_met_while_it_waited_does_not_run(
    goals: FakeGoals,
) -> None:
    goals.put(replace(a_standing_goal(), state=GoalState.MET))
    house = House([], goals=goals)
    events = await house.play(a_goal_turn())
    assert isinstance(events[-1], TurnCancelled)
    assert house.workspace.records == {}


async def test_a_goal_turn_runs_while_its_goal_is_active(goals: FakeGoals) -> None:
    goals.put(a_standing_goal())
    events = await House([says("I looked.")], goals=goals).play(a_goal_turn())
    assert isinstance(events[-1], TurnCompleted)
