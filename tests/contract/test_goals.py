"""Goals: one suite for the fake and for the real one on both databases."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import datetime

import pytest

from minara_core.errors import AlreadyExists, InvalidRequest
from minara_core.ids import SessionId, TurnId, UserId
from minara_orchestrator.adapters.sql_goals import SqlGoals
from minara_orchestrator.adapters.sql_turns import VERSIONS
from minara_orchestrator.app.goal_ports import Goals
from minara_orchestrator.app.keep_goals import GoalKeeper
from minara_orchestrator.domain.goal import Goal, Verdict
from support.databases import Databases
from support.orchestrator.goals import HERE, ME, FakeGoals, a_standing_goal

SOMEBODY = UserId("somebody")


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def replicas(request: pytest.FixtureRequest) -> AsyncGenerator[tuple[Goals, Goals]]:
    """Two that share their storage."""
    if request.param == "fake":
        fake = FakeGoals()
        yield fake, fake
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    database = await databases.open(VERSIONS)
    yield SqlGoals(database), SqlGoals(databases.reopen(database.url))
    await databases.aclose()


@pytest.fixture
def goals(replicas: tuple[Goals, Goals]) -> Goals:
    return replicas[0]


async def put(goals: Goals, goal: Goal) -> Goal:
    stands = await goals.change(goal.session_id, goal.user_id, lambda found, now: goal)
    assert stands is not None
    return stands


async def test_there_is_no_goal_at_first(goals: Goals) -> None:
    assert await goals.get(HERE, ME) is None
    assert await goals.change(HERE, ME, lambda found, now: found) is None


async def test_every_field_comes_back(replicas: tuple[Goals, Goals]) -> None:
    goal = a_standing_goal('三"\n', max_turns=1, subgoals=("on Base", "a, b"))
    for step in (goal, goal.judged(Verdict.CONTINUE, "why", TurnId("turn-1")), goal.paused()):
        stands = await put(replicas[0], step)
        assert stands == replace(step, update_time=stands.update_time)
        assert await replicas[1].get(HERE, ME) == stands


async def test_a_goal_is_its_persons_and_its_sessions_alone(goals: Goals) -> None:
    mine = await put(goals, a_standing_goal())
    theirs = await put(goals, a_standing_goal("theirs", user_id=SOMEBODY))
    assert await goals.get(HERE, ME) == mine
    assert await goals.get(HERE, SOMEBODY) == theirs
    assert await goals.get(SessionId("session-2"), ME) is None
    assert await goals.change(HERE, SOMEBODY, lambda found, now: None) is None
    assert await goals.get(HERE, SOMEBODY) is None
    assert await goals.get(HERE, ME) == mine


async def test_no_change_leaves_even_the_time(goals: Goals) -> None:
    stands = await put(goals, a_standing_goal())
    assert await goals.change(HERE, ME, lambda found, now: found) == stands
    assert await goals.get(HERE, ME) == stands


async def test_a_change_is_told_what_stands_and_what_time_it_is(goals: Goals) -> None:
    stands = await put(goals, a_standing_goal())
    seen: list[tuple[Goal | None, datetime]] = []

    def change(found: Goal | None, now: datetime) -> Goal | None:
        seen.append((found, now))
        return stands.paused()

    paused = await goals.change(HERE, ME, change)
    assert paused is not None
    assert seen == [(stands, paused.update_time)]
    assert paused.update_time >= stands.update_time
    assert paused.create_time == stands.create_time


async def test_what_a_change_raises_changes_nothing(goals: Goals) -> None:
    stands = await put(goals, a_standing_goal())

    def refuse(found: Goal | None, now: datetime) -> Goal | None:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await goals.change(HERE, ME, refuse)
    assert await goals.get(HERE, ME) == stands


async def test_of_twenty_goals_set_at_once_one_stands(replicas: tuple[Goals, Goals]) -> None:
    keepers = [GoalKeeper(goals) for goals in replicas]
    refused: list[str] = []

    async def set_goal(number: int) -> None:
        text = f"goal {number}"
        try:
            await keepers[number % 2].set(HERE, ME, text=text)
        except AlreadyExists:
            refused.append(text)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(set_goal(number))
    stands = await replicas[0].get(HERE, ME)
    assert stands is not None
    assert len(refused) == 19
    assert stands.text not in refused


async def test_of_twenty_judgements_of_one_turn_one_counts(replicas: tuple[Goals, Goals]) -> None:
    await put(replicas[0], a_standing_goal(max_turns=50))
    verdicts = [Verdict.CONTINUE, Verdict.MET]

    async def judge(number: int) -> Goal | None:
        def change(found: Goal | None, now: datetime) -> Goal | None:
            assert found is not None
            return found.judged(verdicts[number % 2], f"reason {number}", TurnId("turn-1"))

        return await replicas[number % 2].change(HERE, ME, change)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(judge(number)) for number in range(20)]
    told = {(goal.last_reason, goal.turns_used) for task in tasks if (goal := task.result())}
    assert len(told) == 1
    assert {used for _, used in told} == {1}
