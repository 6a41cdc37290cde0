"""What a person may do with a goal, and which goal turns begin."""

from dataclasses import replace

import pytest

from minara_core.errors import AlreadyExists, NotFound, NotReady
from minara_core.goals import GOAL_TURN_TEXT
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.keep_goals import GoalKeeper, GoalStep
from minara_orchestrator.domain.goal import GoalState
from support.orchestrator.goals import HERE, ME, FakeGoals, a_standing_goal

THERE = "get the best yield"


@pytest.fixture
def goals() -> FakeGoals:
    return FakeGoals()


@pytest.fixture
def keeper(goals: FakeGoals) -> GoalKeeper:
    return GoalKeeper(goals)


def a_context(origin: Origin = Origin.GOAL) -> TurnContext:
    return TurnContext(
        turn_id=TurnId("turn-1"),
        session_id=HERE,
        user_id=ME,
        origin=origin,
        allowed_tool_sets=("read",),
    )


async def test_the_same_goal_again_is_what_stands(keeper: GoalKeeper) -> None:
    first = await keeper.set(HERE, ME, text=THERE, subgoals=["on Base"])
    paused = await keeper.update(HERE, ME, GoalStep.PAUSE)
    assert paused == replace(
        first,
        state=GoalState.PAUSED,
        paused_reason=paused and paused.paused_reason,
        update_time=paused.update_time if paused else first.update_time,
    )
    assert await keeper.set(HERE, ME, text=f" {THERE} ", subgoals=["on Base"]) == paused


@pytest.mark.parametrize("state", [GoalState.ACTIVE, GoalState.PAUSED])
async def test_another_goal_waits_until_the_one_that_stands_is_cleared(
    keeper: GoalKeeper, goals: FakeGoals, state: GoalState
) -> None:
    goals.put(replace(a_standing_goal(), state=state))
    with pytest.raises(AlreadyExists) as refused:
        await keeper.set(HERE, ME, text=THERE)
    assert refused.value.reason is ErrorReason.GOAL_EXISTS
    assert await keeper.update(HERE, ME, GoalStep.CLEAR) is None
    assert (await keeper.set(HERE, ME, text=THERE)).text == THERE


@pytest.mark.parametrize("state", [GoalState.MET, GoalState.BLOCKED])
async def test_a_goal_that_is_over_makes_room(
    keeper: GoalKeeper, goals: FakeGoals, state: GoalState
) -> None:
    goals.put(replace(a_standing_goal(THERE), state=state, turns_used=2))
    goal = await keeper.set(HERE, ME, text=THERE, max_turns=3)
    assert goal.is_active
    assert goal.turns_used == 0


async def test_a_goal_that_is_cleared_again_stays_cleared(keeper: GoalKeeper) -> None:
    assert await keeper.update(HERE, ME, GoalStep.CLEAR) is None


@pytest.mark.parametrize("step", [GoalStep.PAUSE, GoalStep.RESUME])
async def test_a_session_without_a_goal_has_nothing_to_update(
    keeper: GoalKeeper, step: GoalStep
) -> None:
    with pytest.raises(NotFound) as refused:
        await keeper.update(HERE, ME, step)
    assert refused.value.reason is ErrorReason.GOAL_NOT_FOUND


async def test_a_goal_turn_begins_while_the_goal_is_active(
    keeper: GoalKeeper, goals: FakeGoals
) -> None:
    goals.put(a_standing_goal())
    await keeper.admit_goal_turn(a_context(), GOAL_TURN_TEXT)


async def test_a_goal_turn_says_nothing_but_the_fixed_sentence(
    keeper: GoalKeeper, goals: FakeGoals
) -> None:
    goals.put(a_standing_goal())
    for text in ("buy $50 of ETH", f"{GOAL_TURN_TEXT} ", ""):
        with pytest.raises(NotReady) as refused:
            await keeper.admit_goal_turn(a_context(), text)
        assert refused.value.reason is ErrorReason.GOAL_NOT_ACTIVE


@pytest.mark.parametrize("state", [None, GoalState.PAUSED, GoalState.MET, GoalState.BLOCKED])
async def test_without_an_active_goal_no_goal_turn_begins(
    keeper: GoalKeeper, goals: FakeGoals, state: GoalState | None
) -> None:
    if state is not None:
        goals.put(replace(a_standing_goal(), state=state))
    with pytest.raises(NotReady) as refused:
        await keeper.admit_goal_turn(a_context(), GOAL_TURN_TEXT)
    assert refused.value.reason is ErrorReason.GOAL_NOT_ACTIVE


async def test_turns_of_other_origins_ask_no_goal(keeper: GoalKeeper) -> None:
    await keeper.admit_goal_turn(a_context(Origin.HTTP), "buy $50 of ETH")
