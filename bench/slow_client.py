"""What becomes of a client that stops reading."""

import os
import socket
import time
from pathlib import Path

from bench.places import Place
from bench.streams import stored_turn
from bench.wire import request
from minara_core.clock import pause

_RECEIVES = 4_096
_PATIENCE_SECONDS = 90.0


async def measure_slow_client(place: Place, events: int) -> dict[str, float]:
    """Seconds until a client is dropped that asks for a long stream and reads nothing of it, by
    the server's count of open sockets. Infinite when it is not."""
    (path,) = place.addresses
    (pid,) = place.processes.values()
    assert isinstance(path, Path)
    turn_id = await stored_turn(place, max(events, 20_000))
    await pause(1)  # until those of the last clients are closed
    before = _sockets(pid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVES)
        client.connect(str(path))
        client.sendall(
            request("GET", f"/v1/chat/stream/resume?turn_id={turn_id}&after=0", token=place.token)
        )
        begin = time.perf_counter()
        await pause(1)
        while _sockets(pid) > before:
            if time.perf_counter() - begin > _PATIENCE_SECONDS:
                return {"slow_client_dropped_s": float("inf")}
            await pause(0.1)
    return {"slow_client_dropped_s": time.perf_counter() - begin}


def _sockets(pid: int) -> int:
    folder = Path(f"/proc/{pid}/fd")
    return sum(os.readlink(entry).startswith("socket:") for entry in folder.iterdir())
