"""A provider on loopback that plays a ScriptedModel's scripts to the orchestrators of a cluster."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from minara_llm.model import ModelEvent, ModelRequest, ModelText, ModelToolCall
from minara_llm.scripted import ScriptedModel
from minara_llm.wire.http import serving
from support.cluster import Port
from support.wire.dialects import ChatDialect
from support.wire.server import Reply, WireServer

Script = Sequence[ModelEvent]
_DIALECT = ChatDialect(is_native=False)


class Playing(Protocol):
    """What a test sees of the scripts it has given, wherever they are played."""

    def prompts(self) -> list[list[str]]:
        """Each request as text, in the order in which it is cached; equal text is equal bytes."""
        ...

    def assert_exhausted(self) -> None:
        """Raises AssertionError when a script is left over, or one was missing."""
        ...


class PlayingHere(ScriptedModel):
    """A scripted model in this process."""

    def prompts(self) -> list[list[str]]:
        return [_parts(request) for request in self.requests]


class PlayingOverTheWire:
    """A model server; `url` is its base URL."""

    def __init__(self, wire: WireServer, scripts: int) -> None:
        self._wire = wire
        self._scripts = scripts

    def prompts(self) -> list[list[str]]:
        return [_DIALECT.flattened(seen.json) for seen in self._wire.requests]

    def assert_exhausted(self) -> None:
        played = len(self._wire.requests)
        assert played == self._scripts, f"{played} model calls met {self._scripts} scripts"


def settings_of(host: str, port: Port) -> Mapping[str, str]:
    """What an orchestrator needs that reaches the model server at this port of `host`."""
    return {
        "MINARA_MODEL": "openai:scripted",
        "MINARA_OPENAI_BASE_URL": f"http://{host}:{port.number}/v1",
    }


@asynccontextmanager
async def a_model_server(
    port: Port, scripts: Iterable[Script]
) -> AsyncGenerator[PlayingOverTheWire]:
    """Plays one script a request, in order."""
    wire = WireServer()
    wire.answer(*(_reply(script) for script in scripts))
    playing = PlayingOverTheWire(wire, len(wire.replies))
    async with serving(wire, listener=port.listener()):
        yield playing


def _reply(script: Script) -> Reply:
    texts = [event.text for event in script if isinstance(event, ModelText)]
    calls = [(e.name, e.arguments_json) for e in script if isinstance(e, ModelToolCall)]
    # Closed each time: the next test's server is another one on the same port.
    return Reply(parts=(_DIALECT.stream(*texts, calls=calls),), headers={"connection": "close"})


def _parts(request: ModelRequest) -> list[str]:
    return [repr(part) for part in (*request.tools, *request.system, *request.messages)]
