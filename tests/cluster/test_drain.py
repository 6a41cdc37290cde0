"""A replica is told to end while a turn runs that takes longer than it may: its client is not told
of it, or is told where to go on."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from minara_llm.wire.brain import Answer
from minara_runtime.database import Database
from support.cluster import Replica
from support.cluster_client import Told
from support.cluster_held import Asked, HeldProvider, Hold, saying
from support.cluster_invariants import assert_sound
from support.cluster_people import Person, a_crowd
from support.cluster_stages import GRACE_SECONDS, Stage
from support.cluster_turns import stored_turns
from support.eventually import eventually

SHORT_GRACE_SECONDS = 2
LEFT_WITHIN_SECONDS = 7.0
"""The grace, and some time to end what is left."""
GOES_ON_WITHIN_SECONDS = 4.0
"""Behind the end of the grace: what is left is told to the others at once."""
WORD = "long"

pytestmark = pytest.mark.timeout(200)


def speak(asked: Asked) -> Answer:
    """A price first, then words that are held back the first time."""
    text = f"At place {asked.place} I say this for the {asked.attempt}. time."
    return saying(text, *([("get_price", {"symbol": "BTC"})] if asked.place == 0 else []))


@pytest.fixture
async def model(stage: Stage) -> AsyncGenerator[HeldProvider]:
    async with stage.held_model(speak) as model:
        yield model
        assert model.complaints == []


@pytest.fixture
async def person(stage: Stage, model: HeldProvider) -> AsyncGenerator[Person]:
    async with a_crowd(stage.cluster, 1) as crowd:
        yield crowd.people[0]
        await assert_sound(stage.cluster, crowd.people)


@pytest.fixture
async def orchestrator(stage: Stage) -> AsyncGenerator[Database]:
    database = Database.open(stage.cluster.database_url("orchestrator"))
    yield database
    await database.aclose()


@asynccontextmanager
async def impatient(*replicas: Replica) -> AsyncGenerator[None]:
    """They have a short grace while the body runs."""
    for replica in replicas:
        await replica.restart(MINARA_GRACE_SECONDS=str(SHORT_GRACE_SECONDS))
    try:
        yield
    finally:
        for replica in replicas:
            await replica.restart(MINARA_GRACE_SECONDS=str(GRACE_SECONDS))


async def test_a_stream_goes_on_when_the_orchestrator_of_a_long_turn_leaves(
    stage: Stage, person: Person, model: HeldProvider, orchestrator: Database
) -> None:
    leaving, other = stage.cluster.replicas_of("orchestrator")
    model.hold(WORD, 1, Hold.IN_TEXT)
    async with impatient(leaving):
        await other.terminate()
        told = Told()
        asking = asyncio.create_task(person.client.ask(f"price of BTC {WORD}", told=told))
        await eventually(
            lambda: any("At place 1" in each["text"] for each in told.fields_of("text_delta")),
            timeout=20,
        )
        (before,) = await stored_turns(orchestrator, told.session_id)
        await other.restart()
        ended = await leaving.terminate()
        await asyncio.wait_for(asking, GOES_ON_WITHIN_SECONDS)
        person.told.append(told)
    (after,) = await stored_turns(orchestrator, told.session_id)
    assert (ended.code, ended.seconds < LEFT_WITHIN_SECONDS) == (0, True)
    assert told.end == "turn_completed"
    assert told.cuts == 0, "the client had to resume"
    assert person.client.met == {}
    assert len(told.fields_of("turn_resumed")) == len(told.fields_of("text_reset")) == 1
    assert told.fields_of("text_delta")[-1]["text"].endswith("for the 2. time.")
    assert before.owner != after.owner
    assert after.take_overs == 0, "to leave in good order was counted as a death"


async def test_what_was_said_into_a_turn_goes_over_with_it(
    stage: Stage, person: Person, model: HeldProvider
) -> None:
    leaving, other = stage.cluster.replicas_of("orchestrator")
    model.hold(WORD, 1, Hold.IN_TEXT)
    async with impatient(leaving):
        await other.terminate()
        told = Told()
        asking = asyncio.create_task(person.client.ask(f"price of BTC {WORD}", told=told))
        await eventually(lambda: model.is_held(WORD, 1) and bool(told.session_id), timeout=20)
        body = {"message": "and ETH?", "session_id": told.session_id}
        gateway = stage.cluster.gateways()[0]
        said = await person.client.once(gateway, "/v1/chat/interject", body)
        await other.restart()
        await leaving.terminate()
        await asyncio.wait_for(asking, GOES_ON_WITHIN_SECONDS)
        person.told.append(told)
    assert said.json()["turn_id"] == told.turn_id
    assert told.end == "turn_completed"
    assert [each["text"] for each in told.fields_of("user_interjected")] == ["and ETH?"]
    assert told.events[-1].fields["pending_interjections"] == []
    assert [asked.said for asked in model.asked].count("and ETH?") == 2, "one for each place"


async def test_a_client_whose_gateway_leaves_is_told_where_the_rest_is(
    stage: Stage, person: Person, model: HeldProvider
) -> None:
    leaving, other = stage.cluster.replicas_of("gateway")
    model.hold(WORD, 1, Hold.BEFORE)
    body = {"message": f"price of BTC {WORD}"}
    async with (
        impatient(leaving),
        httpx.AsyncClient(headers=person.client.headers, trust_env=False, timeout=30) as http,
        http.stream("POST", f"http://{leaving.address}/v1/chat/stream", json=body) as response,
    ):
        seen: list[str] = []
        reading = asyncio.create_task(read(response, seen))
        await eventually(lambda: model.is_held(WORD, 1), timeout=20)
        ended = await leaving.terminate()
        await reading
        assert (ended.code, ended.seconds < LEFT_WITHIN_SECONDS) == (0, True)
        *_, name, data = seen
        assert name == "event: stream_ended"
        path = json.loads(data.removeprefix("data: "))["resume"]
        assert path.endswith(f"&after={sequences(seen)[-1]}")
        model.release(WORD, 1)
        rest: list[str] = []
        async with http.stream("GET", f"http://{other.address}{path}") as resumed:
            await read(resumed, rest)
    whole = [*sequences(seen), *sequences(rest)]
    assert whole == list(range(1, len(whole) + 1))
    assert "event: turn_completed" in rest


async def read(response: httpx.Response, into: list[str]) -> None:
    """The lines of a stream that say something."""
    assert response.status_code == 200
    async for line in response.aiter_lines():
        into += [line] if line and not line.startswith(":") else []


def sequences(lines: list[str]) -> list[int]:
    return [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
