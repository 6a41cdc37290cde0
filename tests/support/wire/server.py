"""A loopback HTTP server that plays prepared answers, byte by byte if need be."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Step(Enum):
    """HOLD says nothing until the client leaves; HANG_UP breaks the connection off."""

    HOLD = auto()
    HANG_UP = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer. Each part goes out as one chunk of a chunked body."""

    parts: tuple[bytes | Step, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WireServer:
    """Plays `replies` in order; keeps every request. `has_left` is set when a client hangs up
    while the server holds its answer."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.requests: list[Seen] = []
        self.has_left = asyncio.Event()
        self.port = 0
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, *replies: Reply) -> None:
        self.replies += replies

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while (seen := await _read(reader)) is not None:
                self.requests.append(seen)
                reply = self.replies.pop(0)
                if not await self._play(reply, reader, writer):
                    return
        except ConnectionError:
            self.has_left.set()
        finally:
            writer.close()
            del self._open[task]

    async def hang_up(self) -> None:
        """Break off every connection that is still open."""
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(list(self._open))

    async def _play(
        self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection goes on."""
        headers = {"content-type": "text/event-stream", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} .", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for part in reply.parts:
            if part is Step.HANG_UP:
                writer.transport.abort()
                return False
            if part is Step.HOLD:
                await writer.drain()
                await reader.read()
                self.has_left.set()
                return False
            if part:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def a_wire_server() -> AsyncGenerator[WireServer]:
    wire = WireServer()
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.hang_up()
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (r.partition(":") for r in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(path=first.split(" ")[1], headers=headers, body=body)


def in_pieces(stream: bytes, size: int) -> tuple[bytes, ...]:
    """The stream cut into chunks of `size` bytes, wherever that falls."""
    return tuple(stream[start : start + size] for start in range(0, len(stream), size))
