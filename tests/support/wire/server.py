"""A server on loopback that plays prepared answers; `support.wire.provider` has one that thinks."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from minara_llm.wire.http import LoopbackServer, Reply, Seen, Step, in_pieces, serving

__all__ = ["Reply", "Seen", "Step", "WireServer", "a_wire_server", "in_pieces"]


class WireServer(LoopbackServer):
    """Plays `replies` in order; a request without one ends the connection."""

    def __init__(self) -> None:
        super().__init__(self._next_reply)
        self.replies: list[Reply] = []

    def answer(self, *replies: Reply) -> None:
        self.replies += replies

    async def _next_reply(self, seen: Seen) -> Reply:
        return self.replies.pop(0)


@asynccontextmanager
async def a_wire_server() -> AsyncGenerator[WireServer]:
    wire = WireServer()
    async with serving(wire):
        yield wire
