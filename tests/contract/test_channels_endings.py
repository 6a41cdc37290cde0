"""Deadlines, cancellation and shutdown: the same in process and over TCP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from minara_core import errors
from minara_core.clock import pause
from minara_runtime.call_context import detached
from minara_runtime.channels import connect_in_process
from minara_runtime.inprocess import InProcessServer
from support.border import Border, a_border
from support.channels import KINDS
from support.echo import EchoServicer, EchoStub, echo


@pytest.fixture(params=KINDS)
def border(request: pytest.FixtureRequest, tmp_path: Path) -> Border:
    return a_border(request.param, tmp_path)


async def test_past_the_deadline_both_ends_stop(border: Border) -> None:
    stopped = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with border.open(EchoServicer(say=hang)) as channel:
        with pytest.raises(errors.DeadlineExceeded):
            await EchoStub(channel).say(echo(), metadata=border.grant, timeout=0.2)
        await asyncio.wait_for(stopped.wait(), 5)


async def test_a_servicer_knows_how_much_time_is_left(border: Border) -> None:
    async def tell(request: Any, context: Any) -> Any:
        return echo(str(context.time_remaining()))

    async with border.open(EchoServicer(say=tell)) as channel:
        stub = EchoStub(channel)
        bounded = await stub.say(echo(), metadata=border.grant, timeout=30)
        unbounded = await stub.say(echo(), metadata=border.grant)
    assert 25 < float(bounded.text) <= 30.1
    assert unbounded.text == "None"


async def test_the_inbound_deadline_caps_the_outbound_call(border: Border) -> None:
    async def tell(request: Any, context: Any) -> Any:
        return echo(str(context.time_remaining()))

    async with border.open(EchoServicer(say=tell)) as leaf:

        async def ask(request: Any, context: Any) -> Any:
            return await EchoStub(leaf).say(echo(), metadata=border.grant, timeout=60)

        async with border.open(EchoServicer(say=ask)) as channel:
            answer = await EchoStub(channel).say(echo(), metadata=border.grant, timeout=10)
    assert 5 < float(answer.text) < 30


async def test_a_detached_task_outlives_the_deadline_of_its_call(border: Border) -> None:
    left: list[str] = []

    async def tell(request: Any, context: Any) -> Any:
        return echo(str(context.time_remaining()))

    async with border.open(EchoServicer(say=tell)) as leaf:

        async def ask(request: Any, context: Any) -> Any:
            async def later() -> None:
                left.append((await EchoStub(leaf).say(echo(), metadata=border.grant)).text)

            await asyncio.create_task(later(), context=detached())
            return echo()

        async with border.open(EchoServicer(say=ask)) as channel:
            await EchoStub(channel).say(echo(), metadata=border.grant, timeout=10)
    assert left == ["None"]


async def test_a_cancelled_caller_cancels_the_servicer(border: Border) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def ask(stub: EchoStub) -> Any:
        return await stub.say(echo(), metadata=border.grant)

    async with border.open(EchoServicer(say=hang)) as channel:
        caller = asyncio.create_task(ask(EchoStub(channel)))
        await asyncio.wait_for(begun.wait(), 5)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.wait_for(stopped.wait(), 5)


async def test_a_cancelled_call_says_so(border: Border) -> None:
    begun = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with border.open(EchoServicer(say=hang)) as channel:
        call = EchoStub(channel).say(echo(), metadata=border.grant)
        await asyncio.wait_for(begun.wait(), 5)
        assert not call.done()
        assert call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert call.cancelled()
        assert await call.code() is grpc.StatusCode.CANCELLED


async def test_a_servicer_waiting_at_a_yield_cleans_up_when_its_caller_goes(
    border: Border,
) -> None:
    closed = asyncio.Event()

    async def endless(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            while True:
                yield echo("x" * 65_536)
        finally:
            closed.set()

    async with border.open(EchoServicer(count=endless)) as channel:
        stream = EchoStub(channel).count(echo(), metadata=border.grant)
        async for _ in stream:
            break
        stream.cancel()
        await asyncio.wait_for(closed.wait(), 5)


async def test_a_call_without_any_time_left_never_reaches_the_servicer(border: Border) -> None:
    reached = False

    async def note(request: Any, context: Any) -> Any:
        nonlocal reached
        reached = True
        return echo()

    async with border.open(EchoServicer(say=note)) as channel:
        with pytest.raises(errors.DeadlineExceeded):
            await EchoStub(channel).say(echo(), metadata=border.grant, timeout=0)
        with pytest.raises(errors.NotAuthenticated):
            await EchoStub(channel).say(echo())
    assert not reached


async def test_a_stopping_server_cancels_what_still_runs(border: Border) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def ask(stub: EchoStub) -> Any:
        return await stub.say(echo(), metadata=border.grant)

    async with border.open(EchoServicer(say=hang)) as channel:
        caller = asyncio.create_task(ask(EchoStub(channel)))
        await asyncio.wait_for(begun.wait(), 5)
    await asyncio.wait_for(stopped.wait(), 5)
    await asyncio.wait([caller], timeout=5)
    assert caller.done()


async def test_an_in_process_server_stops_like_one_on_a_socket() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, context: Any) -> Any:
        begun.set()
        await go_on.wait()
        return echo("done")

    server = InProcessServer()
    EchoServicer(say=slow).register(server)
    stub = EchoStub(connect_in_process(server, peer="echo"))
    running = stub.say(echo())
    await asyncio.wait_for(begun.wait(), 5)
    stopping = asyncio.create_task(server.stop(10))
    await pause(0)
    with pytest.raises(errors.Unavailable) as refused:
        await stub.say(echo())
    assert refused.value.metadata == {"peer": "echo"}
    go_on.set()
    assert (await running).text == "done"
    await asyncio.wait_for(stopping, 5)


async def test_without_grace_a_running_call_is_unavailable() -> None:
    begun = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    server = InProcessServer()
    EchoServicer(say=hang).register(server)
    running = EchoStub(connect_in_process(server, peer="echo")).say(echo())
    await asyncio.wait_for(begun.wait(), 5)
    await server.stop(None)
    with pytest.raises(errors.Unavailable):
        await running
    assert server.running_calls == 0
