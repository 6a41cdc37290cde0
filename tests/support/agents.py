"""Orchestrators of a test's own, for what stands before them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
from typing_extensions import override

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara_core.errors import MinaraError
from minara_runtime.error_status import status_of


class PartAgent(agent_grpc.AgentServiceServicer):
    """Offers nothing; a test's own kind offers what it needs."""

    @override
    async def RunTurn(
        self, request: agent_pb.RunTurnRequest, context: Any
    ) -> AsyncIterator[agent_pb.RunTurnResponse]:
        await _unoffered(context)
        yield agent_pb.RunTurnResponse()

    @override
    async def SteerTurn(self, request: agent_pb.SteerTurnRequest, context: Any) -> Any:
        await _unoffered(context)

    @override
    async def CancelTurn(self, request: agent_pb.CancelTurnRequest, context: Any) -> Any:
        await _unoffered(context)

    @override
    async def RenderPrompt(self, request: agent_pb.RenderPromptRequest, context: Any) -> Any:
        await _unoffered(context)


class HeldAgent(PartAgent):
    """Streams one turn, whoever asks for whichever: `events`, and the `rest` once `go_on` is set.

    It notes what it is asked, and how many streams are open.
    """

    def __init__(
        self, *events: event_pb.TurnEvent, rest: tuple[event_pb.TurnEvent, ...] = ()
    ) -> None:
        self.go_on = asyncio.Event()
        self.run: list[agent_pb.RunTurnRequest] = []
        self.steered: list[agent_pb.SteerTurnRequest] = []
        self.cancelled: list[agent_pb.CancelTurnRequest] = []
        self.open = 0
        self.refusal: MinaraError | None = None
        self.cuts = 0
        self._events = events
        self._rest = rest

    @override
    async def RunTurn(
        self, request: agent_pb.RunTurnRequest, context: Any
    ) -> AsyncGenerator[agent_pb.RunTurnResponse]:
        self.run.append(request)
        await self._refuse(context)
        self.open += 1
        try:
            for event in self._events:
                if event.sequence > request.after_sequence:
                    yield agent_pb.RunTurnResponse(events=[event])
            if self.cuts:
                self.cuts -= 1
                await context.abort(grpc.StatusCode.UNAVAILABLE, "this replica leaves")
            await self.go_on.wait()
            for event in self._rest:
                yield agent_pb.RunTurnResponse(events=[event])
        finally:
            self.open -= 1

    @override
    async def SteerTurn(
        self, request: agent_pb.SteerTurnRequest, context: Any
    ) -> agent_pb.SteerTurnResponse:
        self.steered.append(request)
        await self._refuse(context)
        return agent_pb.SteerTurnResponse(turn_id=request.turn_id or "live-turn")

    @override
    async def CancelTurn(
        self, request: agent_pb.CancelTurnRequest, context: Any
    ) -> agent_pb.CancelTurnResponse:
        self.cancelled.append(request)
        await self._refuse(context)
        return agent_pb.CancelTurnResponse(turn_id=request.context.turn_id, was_live=True)

    async def _refuse(self, context: Any) -> None:
        if self.refusal is not None:
            await context.abort_with_status(status_of(self.refusal))


async def _unoffered(context: Any) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not offered here")
