"""Who leaves a turn: a client may end its turn by going, a gateway never does."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.clock import pause
from minara_core.errors import NotFound
from minara_core.ids import turn_id_for
from minara_core.reasons import ErrorReason
from support.agents import HeldAgent
from support.eventually import eventually
from support.minara import Minara
from support.second_gateway import SecondGateway, a_second_gateway

BODY = {"message": "price of BTC"}
CANCEL = BODY | {"on_disconnect": "cancel"}


def text(words: str, *, sequence: int) -> event_pb.TurnEvent:
    return event_pb.TurnEvent(sequence=sequence, text_delta=event_pb.TextDelta(text=words))


def completed(*, sequence: int) -> event_pb.TurnEvent:
    reason = event_pb.FINISH_REASON_STOP
    return event_pb.TurnEvent(
        sequence=sequence, turn_completed=event_pb.TurnCompleted(finish_reason=reason)
    )


@pytest.fixture
def agent() -> HeldAgent:
    """Its turn has begun to speak, and goes on when it is told to."""
    started = event_pb.TurnEvent(sequence=1, turn_started=event_pb.TurnStarted())
    said = (text("It is", sequence=2), text(" up.", sequence=3))
    return HeldAgent(started, said[0], rest=(said[1], completed(sequence=4)))


@pytest.fixture
async def second(agent: HeldAgent, minara: Minara) -> AsyncGenerator[SecondGateway]:
    async with a_second_gateway(agent, minara) as gateway:
        yield gateway


@asynccontextmanager
async def watching(
    second: SecondGateway, minara: Minara, body: dict[str, Any]
) -> AsyncGenerator[AsyncIterator[str]]:
    """The lines of a stream that has shown its first words."""
    async with (
        http_to(second, minara) as http,
        http.stream("POST", "/v1/chat/stream", json=body) as response,
    ):
        lines = response.aiter_lines()
        while "It is" not in await anext(lines):
            pass
        yield lines


def http_to(second: SecondGateway, minara: Minara) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {minara.token}", "Idempotency-Key": "a-key"}
    return httpx.AsyncClient(base_url=second.url, headers=headers)


def turn_of(minara: Minara) -> str:
    return turn_id_for(minara.user_id, "a-key")


async def test_a_watcher_that_leaves_under_cancel_stops_its_turn(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with watching(second, minara, CANCEL):
        assert not agent.cancelled
    await eventually(lambda: len(agent.cancelled) == 1, timeout=1)
    assert agent.cancelled[0].context.turn_id == turn_of(minara)
    await eventually(lambda: agent.open == 0, timeout=1)


async def test_a_watcher_that_leaves_under_continue_leaves_its_turn_alone(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with watching(second, minara, BODY):
        pass
    await eventually(lambda: agent.open == 0, timeout=1)
    await pause(0.1)
    assert not agent.cancelled


async def test_a_turn_that_somebody_else_watches_here_is_not_stopped(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    path = f"/v1/chat/stream/resume?turn_id={turn_of(minara)}"
    async with http_to(second, minara) as http, http.stream("GET", path) as other:
        assert other.status_code == 200
        async with watching(second, minara, CANCEL):
            assert agent.open == 2
        await eventually(lambda: agent.open == 1, timeout=1)
        await pause(0.1)
        assert not agent.cancelled


async def test_a_turn_that_came_to_its_end_is_not_stopped(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    agent.go_on.set()
    events = [event async for event in second.client.stream("/v1/chat/stream", CANCEL)]
    assert events[-1].name == "turn_completed"
    await eventually(lambda: agent.open == 0, timeout=1)
    await pause(0.1)
    assert not agent.cancelled


async def test_a_json_client_that_leaves_under_cancel_stops_its_turn(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with http_to(second, minara) as http:
        asking = asyncio.create_task(http.post("/v1/chat", json=CANCEL))
        await eventually(lambda: agent.open == 1)
        asking.cancel()
        await asyncio.wait([asking])
    await eventually(lambda: len(agent.cancelled) == 1 and agent.open == 0, timeout=1)


async def test_a_json_client_that_stays_under_cancel_has_its_reply(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    agent.go_on.set()
    async with http_to(second, minara) as http:
        answer = (await http.post("/v1/chat", json=CANCEL)).json()
    assert (answer["reply"], answer["turn_id"]) == ("It is up.", turn_of(minara))
    assert not agent.cancelled


async def test_a_json_client_that_leaves_under_continue_leaves_its_turn_alone(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with http_to(second, minara) as http:
        asking = asyncio.create_task(http.post("/v1/chat", json=BODY))
        await eventually(lambda: agent.open == 1)
        asking.cancel()
        await asyncio.wait([asking])
    await pause(0.3)
    assert not agent.cancelled
    agent.go_on.set()


async def test_a_gateway_that_leaves_stops_no_turn(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with watching(second, minara, CANCEL) as lines:
        second.gateway.end_streams()
        rest = [line async for line in lines if line]
    path = json.loads(rest[-1].removeprefix("data: "))["resume"]
    assert path == f"/v1/chat/stream/resume?turn_id={turn_of(minara)}&after=2"
    await eventually(lambda: agent.open == 0, timeout=1)
    await pause(0.1)
    assert not agent.cancelled


async def test_a_stop_that_meets_no_turn_yet_is_tried_again(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with watching(second, minara, CANCEL):
        agent.refusal = NotFound("no such turn", reason=ErrorReason.TURN_NOT_FOUND)
    await eventually(lambda: len(agent.cancelled) == 1)
    agent.refusal = None
    await eventually(lambda: len(agent.cancelled) == 2)
    await pause(0.5)
    assert len(agent.cancelled) == 2


async def test_the_orchestrator_is_never_asked_to_judge_who_left(
    agent: HeldAgent, second: SecondGateway, minara: Minara
) -> None:
    async with watching(second, minara, CANCEL):
        pass
    assert agent.run[0].on_disconnect == agent_pb.ON_DISCONNECT_UNSPECIFIED
