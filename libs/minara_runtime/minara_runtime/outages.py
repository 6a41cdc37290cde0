"""What waits for a database that is away for a moment, rather than give up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from minara_core.clock import pause
from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.5


async def through_outage(work: Callable[[], Awaitable[T]], *, seconds: float) -> T:
    """Do `work`, again and again while it raises Unavailable, for at most so many seconds.

    What it did before the answer was lost is done again: only for work that is the same when it is
    done twice. Raises Unavailable in the end, and at once when it is we who are shutting down.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    wait = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await work()
        except Unavailable as error:
            if error.reason is ErrorReason.SHUTTING_DOWN or loop.time() >= end:
                raise
        await pause(wait)
        wait = min(2 * wait, _LONGEST_PAUSE_SECONDS)
