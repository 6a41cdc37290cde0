"""A model server on loopback whose pace the bench sets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from minara_core.clock import pause
from minara_gateway.serving import serving
from support.cluster import Port
from support.wire.dialects import ChatDialect

_DIALECT = ChatDialect(is_native=False)
WAITS = "wait for me"
PIECE = "a few words more "


class PacedModel:
    """Answers in pieces, one every `every_seconds`. What asks it with WAITS first waits for `go`,
    and then gets a piece every `slow_seconds`."""

    def __init__(
        self, *, pieces: int, every_seconds: float, slow_pieces: int, slow_seconds: float
    ) -> None:
        self.go = asyncio.Event()
        self._fast = (pieces, every_seconds)
        self._slow = (slow_pieces, slow_seconds)

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/v1/chat/completions", self._complete, methods=["POST"])
        return app

    async def _complete(self, request: Request) -> StreamingResponse:
        waits = WAITS.encode() in await request.body()
        return StreamingResponse(self._pieces(waits=waits), media_type="text/event-stream")

    async def _pieces(self, *, waits: bool) -> AsyncIterator[bytes]:
        if waits:
            await self.go.wait()
        count, seconds = self._slow if waits else self._fast
        for event in _DIALECT.stream(*[PIECE] * count).split(b"\n\n")[:-1]:
            await pause(seconds)
            yield event + b"\n\n"


@asynccontextmanager
async def a_paced_model(port: Port, model: PacedModel) -> AsyncGenerator[None]:
    """Serves `model` at this port while the body runs."""
    listener = port.listener()
    listener.setblocking(False)
    async with serving(model.app(), listener, grace_seconds=1):
        yield
