"""Serve the app over HTTP: on a Unix socket for our own terminals, and on TCP."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from minara_core.errors import Conflict
from minara_core.reasons import ErrorReason
from minara_runtime.logging import get_logger

SOCKET_FILE = "minara.sock"
PORTS_TO_TRY = 20
GRACE_SECONDS = 10.0
MOST_HEAD_BYTES = 512 * 1024
"""What may come of a request before its headers are whole; a single read can hold several."""
STALLED_SECONDS = 20.0
"""How long a client may take nothing while more waits for it than the transport holds (64 KB)."""

_log = get_logger("gateway/serving")


def bind_tcp(host: str, port: int, *, ports_to_try: int = PORTS_TO_TRY) -> socket.socket:
    """A listening address at `port`, or at the next free one. Raises Conflict when none is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + ports_to_try, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(256)
        except OSError:
            listener.close()
            continue
        return listener
    raise Conflict(
        f"port {port} is taken" if ports_to_try == 1 else f"no free port from {port} on",
        reason=ErrorReason.ALREADY_EXISTS,
        metadata={"host": host, "port": str(port)},
    )


def bind_unix(path: Path) -> socket.socket:
    """The data folder's socket, for its owner alone. A socket that a dead process left is replaced:
    the folder's lock is ours by then."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(256)
    return listener


@asynccontextmanager
async def serving(
    app: FastAPI,
    *listeners: socket.socket,
    grace_seconds: float = GRACE_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
) -> AsyncGenerator[None]:
    """Serve `app` on all listeners while the body runs; open requests get `grace_seconds`.

    A client that takes nothing for `stalled_seconds` while its connection is full is dropped; what
    it watched goes on, and can be watched again from where it stopped.
    """
    server = _Server(
        uvicorn.Config(
            app,
            http=_dropping_after(stalled_seconds),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
    )
    task = asyncio.create_task(server.serve(sockets=list(listeners)))
    try:
        while not server.started and not task.done():
            await asyncio.wait([task], timeout=0.01)
        if task.done():
            task.result()
        yield
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await task
        for listener in listeners:
            listener.close()


class _Server(uvicorn.Server):
    """Leaves signals to the program that runs it."""

    @contextmanager
    @override
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _BoundedHead(HttpToolsProtocol):
    """Hangs up on a client whose request line and headers do not end."""

    _is_in_head = True
    _head_bytes = 0

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                _log.info("endless_head_dropped", bytes=self._head_bytes)
                self.transport.abort()
                return
        super().data_received(data)

    @override
    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._is_in_head = True
        super().on_message_complete()


def _dropping_after(seconds: float) -> type[HttpToolsProtocol]:
    """HTTP for clients that read; one that does not is hung up on after `seconds`."""

    class Protocol(_BoundedHead):
        _stalled: asyncio.TimerHandle | None = None

        @override
        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(seconds, self._drop)

        @override
        def resume_writing(self) -> None:
            self._forget()
            super().resume_writing()

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _drop(self) -> None:
            _log.info("stalled_client_dropped", seconds=seconds)
            self.transport.abort()

        def _forget(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

    return Protocol
