"""A client over a bare socket, so that no client library is measured."""

import asyncio
import json
import time
from pathlib import Path


async def stream(
    socket: Path, path: str, body: dict[str, str], *, token: str, watch: bytes, last: bytes
) -> float:
    """POST `body` and read the stream until the frame that holds `last` and its end; when `watch`
    was first seen."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(head.encode() + content)
    seen_at, seen = 0.0, b""
    while last not in seen or not seen.endswith(b"0\r\n\r\n"):
        seen += await reader.read(65536)
        if not seen_at and watch in seen:
            seen_at = time.perf_counter()
    writer.close()
    return seen_at


def percentile(values: list[float], percent: int) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
