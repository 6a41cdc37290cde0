"""A small HTTP/1.1 server on loopback that plays its answers exactly, byte by byte if need be."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from typing_extensions import override

from minara_core.errors import Conflict
from minara_core.reasons import ErrorReason

LOOPBACK = "127.0.0.1"
_MOST_HEAD_BYTES = 256 * 1024
_LINGER_NOT = struct.pack("ii", 1, 0)


class Step(Enum):
    """HOLD says nothing until the client leaves; HANG_UP breaks the connection off with a reset;
    CLOSE ends it in good order, in the middle of the body or before its head."""

    HOLD = auto()
    HANG_UP = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Pause:
    """So long nothing is said, unless the client leaves."""

    seconds: float


Part = bytes | Step | Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer. Each part of bytes goes out as one chunk of a chunked body; a step that stands
    first is taken before the head is sent when `has_head` is false."""

    parts: tuple[Part, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    has_head: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it arrived. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Connection(asyncio.StreamReaderProtocol):
    """Knows at once when the other side has left."""

    def __init__(self, server: "LoopbackServer") -> None:
        reader = asyncio.StreamReader(limit=_MOST_HEAD_BYTES)
        super().__init__(reader, server.serve)
        self.left = asyncio.Event()

    @override
    def eof_received(self) -> bool | None:
        self.left.set()
        return super().eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        super().connection_lost(exc)


class LoopbackServer:
    """Answers each request with what `answer` makes of it; keeps every request.

    `has_left` is set when a client hangs up before its answer is over; `left_at` is when that was
    noticed, on the loop's clock.
    """

    def __init__(self, answer: Callable[[Seen], Awaitable[Reply]]) -> None:
        self.requests: list[Seen] = []
        self.has_left = asyncio.Event()
        self.left_at: float | None = None
        self.port = 0
        self._answer = answer
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while (seen := await _read(reader)) is not None:
                self.requests.append(seen)
                if not await self._play(await self._answer(seen), writer):
                    return
        except ConnectionError:
            self._note_leaving()
        finally:
            writer.close()
            del self._open[task]

    async def hang_up(self) -> None:
        """Break off every connection that is still open."""
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(list(self._open))

    async def _play(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        if reply.has_head:
            writer.write(_head(reply))
        for part in reply.parts:
            if isinstance(part, bytes):
                if part:
                    writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                    await writer.drain()
            elif not await self._take(part, writer):
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return reply.headers.get("connection") != "close"

    async def _take(self, step: Step | Pause, writer: asyncio.StreamWriter) -> bool:
        await writer.drain()
        match step:
            case Step.HANG_UP:
                _reset(writer)
                return False
            case Step.CLOSE:
                return False
            case Step.HOLD:
                await _leaving(writer).wait()
            case Pause(seconds):
                try:
                    await asyncio.wait_for(_leaving(writer).wait(), seconds)
                except TimeoutError:
                    return True
        self._note_leaving()
        return False

    def _note_leaving(self) -> None:
        self.left_at = asyncio.get_running_loop().time()
        self.has_left.set()


@asynccontextmanager
async def serving(
    server: LoopbackServer, *, port: int = 0, listener: socket.socket | None = None
) -> AsyncGenerator[None]:
    """Serve on loopback at `port` (0 takes any free one), or at `listener`, while the body runs.

    Raises Conflict when the port is taken.
    """
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Connection(server), sock=listener or _bound(port)
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        listening.close()
        await server.hang_up()
        await listening.wait_closed()


def in_pieces(stream: bytes, size: int) -> tuple[bytes, ...]:
    """The stream cut into chunks of `size` bytes, wherever that falls."""
    return tuple(stream[start : start + size] for start in range(0, len(stream), size))


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen(256)
    except OSError as error:
        bound.close()
        raise Conflict(
            f"port {port} is taken",
            reason=ErrorReason.ALREADY_EXISTS,
            metadata={"port": str(port)},
        ) from error
    return bound


def _head(reply: Reply) -> bytes:
    headers = {"content-type": "text/event-stream", **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} .", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _leaving(writer: asyncio.StreamWriter) -> asyncio.Event:
    connection = writer.transport.get_protocol()
    assert isinstance(connection, _Connection)
    return connection.left


def _reset(writer: asyncio.StreamWriter) -> None:
    """A reset, as of a process that was killed, and not the end of a stream."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").strip().split("\r\n")
        named = (line.partition(":") for line in rest)
        headers = {name.lower(): value.strip() for name, _, value in named}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return None
    method, _, target = first.partition(" ")
    return Seen(method=method, path=target.partition(" ")[0], headers=headers, body=body)
