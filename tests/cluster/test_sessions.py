"""A turn is told alike to everybody, whichever replicas they ask."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from support.cluster_client import Told
from support.cluster_invariants import assert_sound
from support.cluster_people import Person, a_crowd
from support.cluster_stages import Stage
from support.eventually import eventually

AT_ONCE = 6
MODEL_SECONDS = 0.8


@pytest.fixture
async def person(stage: Stage) -> AsyncGenerator[Person]:
    """Somebody, while the model takes a while for each answer."""
    async with stage.model(MODEL_SECONDS), a_crowd(stage.cluster, 1) as crowd:
        yield crowd.people[0]
        await assert_sound(stage.cluster, crowd.people)


async def test_followers_on_all_replicas_get_every_event_once(person: Person) -> None:
    """Half of them ask an orchestrator that does not run the turn, and hears of it by NOTIFY."""
    first = Told()
    running = asyncio.create_task(person.client.ask("price of BTC", told=first))
    await eventually(lambda: bool(first.turn_id), timeout=20)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(person.client.watch(first.turn_id)) for _ in range(AT_ONCE)]
    person.told += [await running, *(task.result() for task in tasks)]
    assert len({told.turn_id for told in person.told}) == 1
    assert all(told.events == first.events for told in person.told)
    assert max(told.pause_seconds for told in person.told) < 2 * MODEL_SECONDS
