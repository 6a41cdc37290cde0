"""A session is one conversation, whichever replicas its turns are sent to."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from itertools import pairwise

import pytest
import sqlalchemy as sa

from minara.agent.v1 import event_pb2 as event_pb
from minara_orchestrator.adapters.sql_tables import TURN_EVENTS, TURNS
from minara_runtime.database import Database
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


@pytest.fixture
async def orchestrator(stage: Stage) -> AsyncGenerator[Database]:
    database = Database.open(stage.cluster.database_url("orchestrator"))
    yield database
    await database.aclose()


async def a_session(person: Person) -> str:
    first = await person.client.ask("price of BTC")
    person.told.append(first)
    return first.session_id


async def times(orchestrator: Database, turn_id: str) -> tuple[datetime, datetime]:
    """When a turn began to be worked on, and when it ended."""
    stored = sa.select(TURN_EVENTS.c.body).where(TURN_EVENTS.c.turn_id == turn_id)
    rows = await orchestrator.read(
        lambda c: c.execute(stored.order_by(TURN_EVENTS.c.sequence)).scalars().all()
    )
    events = [event_pb.TurnEvent.FromString(bytes(body)) for body in rows]
    started = next(event for event in events if event.WhichOneof("event") == "turn_started")
    return started.time.ToDatetime(), events[-1].time.ToDatetime()


async def test_turns_sent_to_all_replicas_at_once_run_one_after_the_other(
    person: Person, orchestrator: Database
) -> None:
    session_id = await a_session(person)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(person.client.ask("price of ETH", session_id=session_id))
            for _ in range(AT_ONCE)
        ]
    person.told += [task.result() for task in tasks]
    assert [told.end for told in person.told] == ["turn_completed"] * (AT_ONCE + 1)
    admitted = sa.select(TURNS).where(TURNS.c.session_id == session_id).order_by(TURNS.c.position)
    rows = await orchestrator.read(lambda c: c.execute(admitted).all())
    assert len({row.owner for row in rows}) == 2, "one orchestrator had all of them"
    spans = [await times(orchestrator, row.turn_id) for row in rows]
    for (_, end), (begin, _) in pairwise(spans):
        assert end <= begin


async def test_of_turns_that_want_to_be_alone_one_is_admitted(
    stage: Stage, person: Person, orchestrator: Database
) -> None:
    session_id = await a_session(person)
    body = {"message": "price of ETH", "session_id": session_id, "double_texting": "reject"}
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(person.client.once(gateway, "/v1/chat", body))
            for gateway in stage.cluster.gateways() * (AT_ONCE // 2)
        ]
    answers = [task.result() for task in tasks]
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * (AT_ONCE - 1)]
    reasons = {answer.json()["reason"] for answer in answers if answer.status_code == 409}
    assert reasons == {"TURN_RUNNING"}
    count = sa.select(sa.func.count()).where(TURNS.c.session_id == session_id)
    assert await orchestrator.read(lambda c: c.execute(count).scalar_one()) == 2


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
