"""What the least that could be called a durable turn takes on this machine, for a ratio.

The same server and framework, no agent: one parsed POST, one fsynced SQLite commit, ten frames.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from bench.wire import percentile, stream
from minara_gateway.serving import bind_unix, serving

FRAMES = 10


class _Message(BaseModel):
    message: str


class Yardstick:
    """A bare streaming endpoint, measured one POST at a time."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._spent: list[float] = []

    async def measure(self) -> None:
        begin = time.perf_counter()
        await stream(
            self._socket, "/turn", {"message": "hi"}, token="", watch=b"data: 0", last=b"data: 9"
        )
        self._spent.append((time.perf_counter() - begin) * 1_000)

    @property
    def p50_ms(self) -> float:
        return percentile(self._spent, 50)


@asynccontextmanager
async def yardstick(folder: Path) -> AsyncGenerator[Yardstick]:
    """Serve the endpoint while the body runs; `folder` exists."""
    database = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE turns (message TEXT)")
    app = FastAPI()

    @app.post("/turn")
    async def turn(body: _Message) -> StreamingResponse:
        await asyncio.to_thread(database.execute, "INSERT INTO turns VALUES (?)", (body.message,))
        return StreamingResponse(_frames(), media_type="text/event-stream")

    async with serving(app, bind_unix(folder / "bare.sock")):
        yield Yardstick(folder / "bare.sock")
    database.close()


async def _frames() -> AsyncIterator[bytes]:
    for number in range(FRAMES):
        yield f"data: {number}\n\n".encode()
