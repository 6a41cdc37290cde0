import asyncio

import pytest

from minara_runtime.service import Job, Service, running
from support.channels import nothing


async def test_a_service_starts_runs_its_jobs_and_closes_last() -> None:
    happened: list[str] = []
    at_work = asyncio.Event()

    async def start() -> None:
        happened.append("start")

    async def aclose() -> None:
        happened.append("aclose")

    async def sweep() -> None:
        happened.append("sweep")
        at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            happened.append("swept")

    jobs = (Job(name="sweep", run=sweep),)
    service = Service(name="x", servicers=(), start=start, aclose=aclose, jobs=jobs)
    async with running(service):
        await at_work.wait()
    assert happened == ["start", "sweep", "swept", "aclose"]


async def test_a_job_that_raises_is_started_again() -> None:
    attempts = 0
    succeeded = asyncio.Event()

    async def flaky() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ValueError("not yet")
        succeeded.set()

    jobs = (Job(name="flaky", run=flaky),)
    service = Service(name="x", servicers=(), start=nothing, aclose=nothing, jobs=jobs)
    async with running(service, first_delay_seconds=0.001):
        await asyncio.wait_for(succeeded.wait(), 5)
    assert attempts == 3


async def test_a_failing_job_leaves_the_others_alone() -> None:
    other_goes_on = asyncio.Event()
    failed = asyncio.Event()

    async def failing() -> None:
        failed.set()
        raise ValueError("always")

    async def other() -> None:
        await failed.wait()
        other_goes_on.set()

    jobs = (Job(name="failing", run=failing), Job(name="other", run=other))
    service = Service(name="x", servicers=(), start=nothing, aclose=nothing, jobs=jobs)
    async with running(service):
        await asyncio.wait_for(other_goes_on.wait(), 5)


async def test_the_error_of_the_body_comes_out_as_it_is() -> None:
    service = Service(name="x", servicers=(), start=nothing, aclose=nothing)
    with pytest.raises(KeyError, match="mine"):
        async with running(service):
            raise KeyError("mine")


async def test_a_service_that_fails_to_start_is_closed() -> None:
    closed: list[bool] = []

    async def start() -> None:
        raise ValueError("no")

    async def aclose() -> None:
        closed.append(True)

    service = Service(name="x", servicers=(), start=start, aclose=aclose)
    with pytest.raises(ValueError, match="no"):
        async with running(service):
            pass
    assert closed == [True]
