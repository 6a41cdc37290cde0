"""A client over a bare socket, so that no client library is measured."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Address = Path | tuple[str, int]
"""A Unix socket, or a host and a port."""

_TURN = "/v1/chat/stream"
_FIRST_TEXT = b"event: text_delta"
_ENDS = (b"event: turn_completed", b"event: turn_failed", b"event: turn_cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Milliseconds of a turn: to its first text, and to the last byte of its stream."""

    first_ms: float
    whole_ms: float


async def connected(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(address, Path):
        return await asyncio.open_unix_connection(str(address))
    return await asyncio.open_connection(*address)


def request(method: str, path: str, *, token: str, body: Mapping[str, str] | None = None) -> bytes:
    """An HTTP/1.1 request as bytes."""
    content = b"" if body is None else json.dumps(body).encode()
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


async def stream(
    address: Address, path: str, body: Mapping[str, str], *, token: str, watch: bytes, last: bytes
) -> float:
    """POST `body` and read the stream until the frame that holds `last` and its end; when `watch`
    was first seen."""
    reader, writer = await connected(address)
    writer.write(request("POST", path, token=token, body=body))
    seen_at, seen = 0.0, b""
    while last not in seen or not seen.endswith(b"0\r\n\r\n"):
        chunk = await reader.read(65536)
        assert chunk, f"the stream broke off: {seen[-500:]!r}"
        seen += chunk
        if not seen_at and watch in seen:
            seen_at = time.perf_counter()
    writer.close()
    return seen_at


async def turn(address: Address, *, token: str, session_id: str) -> Spent:
    """A turn that asks for a price: one tool call and an answer."""
    begin = time.perf_counter()
    text_at = await stream(
        address,
        _TURN,
        {"message": "price of BTC", "session_id": session_id},
        token=token,
        watch=_FIRST_TEXT,
        last=_ENDS[0],
    )
    end = time.perf_counter()
    return Spent(first_ms=(text_at - begin) * 1_000, whole_ms=(end - begin) * 1_000)


async def call(address: Address, path: str, body: Mapping[str, str], *, token: str) -> Any:
    """POST `body`; the JSON that comes back."""
    reader, writer = await connected(address)
    writer.write(request("POST", path, token=token, body=body))
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    content = json.loads(await reader.readexactly(length))
    writer.close()
    assert head.startswith("http/1.1 200"), content
    return content


@asynccontextmanager
async def watching(
    address: Address, turn_id: str, *, token: str
) -> AsyncGenerator[asyncio.StreamReader]:
    """A stream of a turn that exists, from its beginning; its head is read already."""
    reader, writer = await connected(address)
    path = f"{_TURN}/resume?turn_id={turn_id}&after=0"
    writer.write(request("GET", path, token=token))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    try:
        yield reader
    finally:
        writer.close()


def is_end(frame: bytes) -> bool:
    """Whether a frame is a turn's last."""
    return any(end in frame for end in _ENDS)


def percentile(values: list[float], percent: int) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
