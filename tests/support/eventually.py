"""Waiting for what happens in the background."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from minara_core.clock import pause


async def eventually(
    check: Callable[[], bool | Awaitable[bool]], timeout: float = 5.0, every: float = 0.01
) -> None:
    """Return once `check` is true; raise AssertionError if it is not within `timeout` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while not await _outcome(check):
        if loop.time() >= end:
            raise AssertionError(f"{check} did not come true within {timeout} s")
        await pause(every)


async def _outcome(check: Callable[[], bool | Awaitable[bool]]) -> bool:
    outcome = check()
    return await outcome if inspect.isawaitable(outcome) else outcome
