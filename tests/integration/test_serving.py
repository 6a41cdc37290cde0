"""Where the gateway listens, and whom it serves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from minara_core.clock import SystemClock, pause
from minara_core.errors import Conflict
from minara_gateway.serving import PORTS_TO_TRY, bind_tcp, bind_unix, serving
from support.eventually import eventually


def test_a_taken_port_gives_way_to_the_next_free_one() -> None:
    with bind_tcp("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with bind_tcp("127.0.0.1", port) as found:
            assert port < found.getsockname()[1] < port + PORTS_TO_TRY


def test_no_free_port_is_a_conflict() -> None:
    last = 65535
    with (
        pytest.raises(Conflict, match="no free port"),
        bind_tcp("127.0.0.1", last),
        bind_tcp("127.0.0.1", last),
    ):
        pytest.fail("two listeners share a port")


async def _words(has_ended: asyncio.Event) -> AsyncIterator[bytes]:
    try:
        while True:
            yield b"x" * 10_000
            await pause(0.001)
    finally:
        has_ended.set()


@asynccontextmanager
async def endless(
    folder: Path, *, stalled_seconds: float
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.Event]]:
    """A client of a stream without end, and what is set when the stream's source is closed."""
    app, has_ended = FastAPI(), asyncio.Event()
    app.add_api_route("/", lambda: StreamingResponse(_words(has_ended)))
    socket = folder / "served.sock"
    async with serving(app, bind_unix(socket), grace_seconds=1, stalled_seconds=stalled_seconds):
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=1_000)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            yield reader, has_ended
        finally:
            writer.transport.abort()


async def test_a_client_that_stops_reading_is_dropped(tmp_path: Path) -> None:
    async with endless(tmp_path, stalled_seconds=0.2) as (_, has_ended):
        await eventually(has_ended.is_set)


async def test_a_client_that_reads_slowly_keeps_its_stream(tmp_path: Path) -> None:
    async with endless(tmp_path, stalled_seconds=0.5) as (reader, has_ended):
        clock = SystemClock()
        end = clock.monotonic() + 1.5
        while clock.monotonic() < end:
            assert await reader.read(100_000)
            await pause(0.001)
        assert not has_ended.is_set()


async def test_a_head_that_does_not_end_is_cut_off_and_others_are_served(tmp_path: Path) -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: {"ok": True})
    socket = tmp_path / "served.sock"
    async with serving(app, bind_unix(socket), grace_seconds=1):
        reader, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")

        async def send() -> None:
            for number in range(100_000):
                writer.write(f"X-{number}: {'a' * 100}\r\n".encode())
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), 30)
        writer.transport.abort()
        reader, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" * 2)
        assert b'{"ok":true}' in await reader.read()
        writer.close()
