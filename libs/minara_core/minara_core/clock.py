"""The only reader of the world's clocks; everything else is handed a Clock."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, time zone UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run back, for deadlines and durations."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the seam

    def monotonic(self) -> float:
        return time.monotonic()


async def pause(seconds: float) -> None:
    """Give the loop back for `seconds`: for back-off and poll intervals, never to wait for work."""
    await asyncio.sleep(seconds)  # noqa: TID251 - this is the seam
