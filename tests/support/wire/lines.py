"""Every adapter with a server of its wire format at the other end."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

from support.wire.dialects import AnthropicDialect, ChatDialect, Closable, Dialect
from support.wire.responses_dialect import ResponsesDialect
from support.wire.server import WireServer, a_wire_server

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "anthropic": AnthropicDialect(),
        "openai": ChatDialect(is_native=True),
        "compatible": ChatDialect(is_native=False),
        "responses": ResponsesDialect(),
    }
)
LIMITS: Mapping[str, str] = MappingProxyType(
    {"anthropic": "max_tokens", "responses": "max_output_tokens"}
)
"""How each says that the limit was reached; Chat Completions say "length"."""


@dataclass(frozen=True)
class Line:
    """One adapter, and the server at its other end."""

    api: str
    wire: WireServer
    dialect: Dialect
    model: Closable


@asynccontextmanager
async def a_line(api: str) -> AsyncGenerator[Line]:
    """A line of one of DIALECTS."""
    async with a_wire_server() as wire:
        model = DIALECTS[api].model(wire)
        yield Line(api, wire, DIALECTS[api], model)
        await model.aclose()
