"""A provider on loopback that answers as the offline model does, and takes its time about it."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from minara_core.clock import pause
from minara_core.ids import ToolCallId
from minara_core.messages import (
    Block,
    Message,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition
from minara_gateway.serving import serving
from minara_llm.model import ModelEvent, ModelRequest, ModelText, ModelToolCall
from minara_llm.offline import OfflineModel
from support.cluster import Port
from support.wire.dialects import ChatDialect

_DIALECT = ChatDialect(is_native=False)
_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "system": Role.CONTEXT,
    "developer": Role.CONTEXT,
}
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
        said = [event async for event in OfflineModel().stream(_request(await request.json()))]
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


def _request(body: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(
        model=str(body["model"]),
        system=(),
        tools=tuple(_tool(tool["function"]) for tool in body.get("tools", ())),
        messages=tuple(_message(message) for message in body["messages"]),
        max_output_tokens=1_000,
        session_id="",
    )


def _tool(function: Mapping[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=function["name"],
        description=function["description"],
        input_schema_json=json.dumps(function["parameters"]),
        tool_set="",
        permission_tier=PermissionTier.READ_ONLY,
    )


def _message(message: Mapping[str, Any]) -> Message:
    text = str(message.get("content") or "")
    blocks: list[Block] = []
    if message["role"] == "tool":
        call_id = ToolCallId(message["tool_call_id"])
        blocks.append(ToolResultBlock(tool_call_id=call_id, envelope=text))
    else:
        blocks.append(TextBlock(text))
        blocks += [
            ToolCallBlock(
                ToolCall(
                    tool_call_id=ToolCallId(call["id"]),
                    name=call["function"]["name"],
                    arguments_json=call["function"]["arguments"],
                )
            )
            for call in message.get("tool_calls", ())
        ]
    return Message(role=_ROLES[message["role"]], blocks=tuple(blocks))
