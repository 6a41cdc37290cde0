"""A service as its composition root hands it over, and its life from start to end."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc.aio

from minara_core.clock import pause
from minara_core.errors import Unavailable
from minara_runtime.figures import Gauge
from minara_runtime.logging import get_logger

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0


async def _always() -> bool:
    return True


async def _at_once(seconds: float) -> None:
    """Nothing runs here beyond its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servicer:
    """`full_name` as in the proto; `register` calls the generated `add_…Servicer_to_server`."""

    full_name: str
    register: Callable[[grpc.aio.Server], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work in the background; `run` goes on until it is cancelled, or returns when it is done."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What `build` returns. `aclose` must be safe after a `start` that failed half-way.

    `is_ready`, asked every second, says whether a call may succeed here. `drain` waits for what
    runs without a call that would wait for it, for at most so many seconds.
    """

    name: str
    servicers: tuple[Servicer, ...]
    start: Callable[[], Awaitable[None]]
    aclose: Callable[[], Awaitable[None]]
    jobs: tuple[Job, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    is_ready: Callable[[], Awaitable[bool]] = _always
    drain: Callable[[float], Awaitable[None]] = _at_once


@asynccontextmanager
async def running(
    service: Service, *, first_delay_seconds: float = FIRST_DELAY_SECONDS
) -> AsyncGenerator[Service]:
    """Start a service and its jobs; on exit cancel the jobs, then close it.

    A job that raises is logged and started again, after twice the delay each time it fails soon.
    """
    try:
        await service.start()
        jobs = asyncio.create_task(
            _run_jobs(service, first_delay_seconds), name=f"{service.name} jobs"
        )
        try:
            yield service
        finally:
            jobs.cancel()
            await asyncio.wait([jobs])
    finally:
        await service.aclose()


async def _run_jobs(service: Service, first_delay: float) -> None:
    async with asyncio.TaskGroup() as group:
        for job in service.jobs:
            group.create_task(_keep_running(service.name, job, first_delay), name=job.name)


async def _keep_running(service: str, job: Job, first_delay: float) -> None:
    log = get_logger("job")
    loop = asyncio.get_running_loop()
    delay = first_delay
    told = -math.inf
    while True:
        begin = loop.time()
        try:
            await job.run()
            return
        except Unavailable as error:
            # The database or a peer is away: what waits for it should not wait much longer.
            if loop.time() - told > LONGEST_DELAY_SECONDS:
                log.warning("job_waits", service=service, job=job.name, reason=error.reason)
                told = loop.time()
            delay = first_delay
        except Exception as error:
            log.error("job_failed", service=service, job=job.name, exc_info=error)
        if loop.time() - begin > LONGEST_DELAY_SECONDS:
            delay = first_delay
        await pause(delay)
        delay = min(2 * delay, LONGEST_DELAY_SECONDS)
