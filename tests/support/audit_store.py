"""A write-once store outside: an HTTP server that takes checkpoints, or does not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Store:
    """An HTTP server that answers with `states` in turn, then with 201."""

    states: list[int] = field(default_factory=list[int])
    taken: list[bytes] = field(default_factory=list[bytes])
    asked: int = 0
    server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/audit?who=us"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        assert head.startswith("post /audit?who=us ")
        assert "minara-service: tools\r\n" in head
        state = self.states.pop(0) if self.states else 201
        self.asked += 1
        if state in {201, 409}:
            self.taken.append(body)
        location = "location: http://127.0.0.1:1/\r\n" if state == 302 else ""
        answer = f"HTTP/1.1 {state} x\r\n{location}content-length: 0\r\nconnection: close\r\n\r\n"
        writer.write(answer.encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def a_store(*states: int) -> AsyncGenerator[Store]:
    store = Store(list(states))
    store.server = await asyncio.start_server(store.answer, "127.0.0.1", 0)
    try:
        yield store
    finally:
        store.server.close()
