"""A TCP proxy in front of a replica, with which a test cuts the network between it and all others.

Proxies live in a thread and loop of their own: they outlive the loops of single tests.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any, TypeVar

T = TypeVar("T")
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: closing sends a reset."""


class Wire(Enum):
    """WHOLE passes bytes. CUT passes none in either direction: who is connected hears nothing more,
    who connects waits. REFUSED resets every connection, old and new."""

    WHOLE = auto()
    CUT = auto()
    REFUSED = auto()


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, task: Coroutine[Any, Any, T], timeout: float = 30.0) -> T:
        """Run to the end, from another thread."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(timeout)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


class Proxy:
    """Passes what comes to `listener` on to `target`. Its methods may be called from any thread."""

    def __init__(self, loop: LoopThread, listener: socket.socket, target: tuple[str, int]) -> None:
        self._loop = loop
        self._listener = listener
        self._target = target
        self._open: dict[asyncio.Task[Any], tuple[asyncio.StreamWriter, ...]] = {}
        self._wire = Wire.WHOLE
        self._flows = asyncio.Event()
        self._server = loop.run(self._started())

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.getsockname()

    def set(self, wire: Wire) -> None:
        """What the network does from now on; what was held back goes on once it is WHOLE."""
        self._loop.run(self._set(wire))

    def close(self) -> None:
        self._loop.run(self._stopped())

    async def _started(self) -> asyncio.Server:
        self._flows.set()
        return await asyncio.start_server(self._serve, sock=self._listener)

    async def _stopped(self) -> None:
        self._server.close()
        await self._set(Wire.REFUSED)
        if self._open:
            await asyncio.wait(list(self._open))

    async def _set(self, wire: Wire) -> None:
        self._wire = wire
        if wire is Wire.WHOLE:
            self._flows.set()
        else:
            self._flows.clear()
        if wire is Wire.REFUSED:
            for task, writers in self._open.items():
                for writer in writers:
                    _reset(writer)
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._wire is Wire.REFUSED:
            _reset(writer)
            return
        self._open[task] = (writer,)
        try:
            await self._flows.wait()
            there_reader, there_writer = await asyncio.open_connection(*self._target)
            self._open[task] = (writer, there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, there_writer))
                both.create_task(self._pump(there_reader, writer))
        except* (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            for one in self._open.pop(task):
                one.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while some := await source.read(65_536):
            await self._flows.wait()
            sink.write(some)
            await sink.drain()
        await self._flows.wait()
        if sink.can_write_eof():
            sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    plug: socket.socket = writer.get_extra_info("socket")
    if plug.fileno() >= 0:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
