"""The page of memory through which a harness moves the clocks of running processes."""

import mmap
import struct
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from minara_core.clock import Clock, SystemClock

FIRST = "first"
SECOND = "second"
VENUE = "venue"
PERSON = "person"

_NAMES = (
    "elapsed",
    *(f"skew {who}" for who in (FIRST, SECOND, VENUE, PERSON)),
    *(f"unslept {who}" for who in (FIRST, SECOND, VENUE, PERSON)),
    "armed",
    "resumed",
)
_PLACES = {name: 8 * number for number, name in enumerate(_NAMES)}


class Moments(Protocol):
    """Named numbers that several processes see."""

    def get(self, name: str) -> float: ...


class Control:
    """Numbers by name, shared by all who open the same file: `elapsed` seconds that have passed for
    everybody, `skew <who>` of a wall clock, `unslept <who>` of a monotonic clock, and whether the
    crash point is `armed`, and the process that it stopped `resumed`."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * len(_NAMES)))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8 * len(_NAMES))

    def get(self, name: str) -> float:
        return struct.unpack_from("d", self._page, _PLACES[name])[0]

    def set(self, name: str, value: float) -> None:
        struct.pack_into("d", self._page, _PLACES[name], value)

    def close(self) -> None:
        self._page.close()


class ControlledClock(Clock):
    """The world's clock with what a Control adds to it for `who`."""

    def __init__(self, moments: Moments, who: str) -> None:
        self._moments = moments
        self._who = who
        self._world = SystemClock()

    def now(self) -> datetime:
        seconds = self._moments.get("elapsed") + self._moments.get(f"skew {self._who}")
        return self._world.now() + timedelta(seconds=seconds)

    def monotonic(self) -> float:
        slept = self._moments.get(f"unslept {self._who}")
        return self._world.monotonic() + self._moments.get("elapsed") - slept
