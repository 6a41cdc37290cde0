"""A provider on loopback that answers as the offline model does, and takes its time about it."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from minara_core.clock import pause
from minara_gateway.serving import serving
from minara_llm.model import ModelEvent, ModelText, ModelToolCall
from minara_llm.offline.model import OfflineModel
from minara_llm.wire.openai_prompts import chat_view
from support.cluster import Port
from support.wire.dialects import ChatDialect

_DIALECT = ChatDialect(is_native=False)
_PIECES = 4


class SlowModel:
    """Each answer takes `seconds`, in pieces. `asked` is how often it was."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/v1/chat/completions", self._complete, methods=["POST"])
        return app

    async def _complete(self, request: Request) -> StreamingResponse:
        self.asked += 1
        said = [event async for event in OfflineModel().stream(chat_view(await request.json()))]
        # Closed each time: who asks again must not meet a connection that has just been left.
        headers = {"connection": "close"}
        return StreamingResponse(
            self._pieces(said), headers=headers, media_type="text/event-stream"
        )

    async def _pieces(self, said: Sequence[ModelEvent]) -> AsyncIterator[bytes]:
        texts = [event.text for event in said if isinstance(event, ModelText)]
        calls = [(e.name, e.arguments_json) for e in said if isinstance(e, ModelToolCall)]
        answer = _DIALECT.stream(*texts, calls=calls, fragment=1_000)
        events = answer.split(b"\n\n")[:-1]
        size = -(-len(events) // _PIECES)
        for start in range(0, len(events), size):
            await pause(self.seconds / _PIECES)
            yield b"".join(event + b"\n\n" for event in events[start : start + size])


@asynccontextmanager
async def a_slow_model(port: Port, *, seconds: float) -> AsyncGenerator[SlowModel]:
    """Serves at this port while the body runs; `support.model_server.settings_of` names it."""
    model = SlowModel(seconds)
    listener = port.listener()
    listener.setblocking(False)
    async with serving(model.app(), listener, grace_seconds=1):
        yield model
