"""A stream outlives the replica that serves it: the gateway re-attaches behind its back."""

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import httpx
import pytest
from typing_extensions import override

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara_core.errors import MinaraError
from minara_core.reasons import ErrorReason
from support.agents import PartAgent
from support.minara import Minara, finish_reason, is_well_formed
from support.second_gateway import a_gateway_before, a_second_gateway


class Slow(PartAgent):
    """Passes a true orchestrator's stream on, and holds it for good after `after` events."""

    def __init__(self, true: grpc.aio.Channel, *, after: int) -> None:
        self._true = agent_grpc.AgentServiceStub(true)
        self._after = after
        self.holds = asyncio.Event()

    @override
    async def RunTurn(
        self,
        request: agent_pb.RunTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.RunTurnRequest, agent_pb.RunTurnResponse],
    ) -> AsyncIterator[agent_pb.RunTurnResponse]:
        told = 0
        async for response in self._true.RunTurn(request):
            for event in response.events:
                if told == self._after:
                    self.holds.set()
                    await asyncio.Event().wait()
                told += 1
                yield agent_pb.RunTurnResponse(events=[event])


class Leaving(PartAgent):
    """Passes a true orchestrator's stream on, and goes away after `after` responses, so often."""

    def __init__(self, true: grpc.aio.Channel, *, after: int, times: int) -> None:
        self._true = agent_grpc.AgentServiceStub(true)
        self._after, self._left = after, times
        self.asked_after: list[int] = []

    @override
    async def RunTurn(
        self,
        request: agent_pb.RunTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.RunTurnRequest, agent_pb.RunTurnResponse],
    ) -> AsyncIterator[agent_pb.RunTurnResponse]:
        self.asked_after.append(request.after_sequence)
        told = 0
        async for response in self._true.RunTurn(request):
            for event in response.events:
                if self._left and told == self._after:
                    self._left -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "this replica leaves")
                told += 1
                yield agent_pb.RunTurnResponse(events=[event])


async def test_a_turn_goes_on_when_its_orchestrator_leaves_in_the_middle(minara: Minara) -> None:
    leaving = Leaving(minara.channel("orchestrator"), after=2, times=2)
    async with a_gateway_before(leaving, minara) as client:
        events = await minara.say("price of BTC", through=client)
    assert is_well_formed(events)
    assert finish_reason(events) == "stop"
    assert leaving.asked_after == [0, 2, 4]
    assert len(await minara.rows("workspace", "turns")) == 1


async def test_an_orchestrator_that_is_not_there_from_the_start_is_told_at_once(
    minara: Minara,
) -> None:
    leaving = Leaving(minara.channel("orchestrator"), after=0, times=1)
    async with a_gateway_before(leaving, minara) as client:
        with pytest.raises(MinaraError) as refusal:
            await minara.say("price of BTC", through=client)
    assert refusal.value.reason is ErrorReason.PEER_UNAVAILABLE


async def test_a_gateway_that_leaves_says_where_the_rest_of_a_stream_is(minara: Minara) -> None:
    slow = Slow(minara.channel("orchestrator"), after=2)
    headers = {"Authorization": f"Bearer {minara.token}"}
    async with a_second_gateway(slow, minara) as second:
        second.gateway.leave()
        async with httpx.AsyncClient(base_url=second.url, headers=headers) as http:
            ready = await http.get("/readyz")
            assert (ready.status_code, ready.json()["leaving"]) == (503, True)
            ending = asyncio.create_task(
                http.post("/v1/chat/stream", json={"message": "price of BTC"})
            )
            await asyncio.wait_for(slow.holds.wait(), 10)
            second.gateway.end_streams()
            lines = (await ending).text.strip().splitlines()
    assert lines[-2] == "event: stream_ended"
    assert [line for line in lines if line.startswith("id: ")] == ["id: 1", "id: 2"]
    path = json.loads(lines[-1].removeprefix("data: "))["resume"]
    rest = [event async for event in minara.client.stream(path)]
    assert rest[0].sequence == 3
    assert finish_reason(rest) == "stop"


async def test_a_client_that_resumes_misses_nothing_and_sees_nothing_twice(
    minara: Minara,
) -> None:
    slow = Slow(minara.channel("orchestrator"), after=2)
    async with a_second_gateway(slow, minara) as second:

        async def end_each_stream() -> None:
            while True:
                await slow.holds.wait()
                slow.holds.clear()
                second.gateway.end_streams()

        ending = asyncio.create_task(end_each_stream())
        body = {"message": "price of BTC"}
        stream = second.client.stream("/v1/chat/stream", body, resume_seconds=30)
        events = [event async for event in stream]
        ending.cancel()
    assert is_well_formed(events)
    assert finish_reason(events) == "stop"
