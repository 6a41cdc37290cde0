"""Streams in both directions: the same in process and over TCP."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from minara_core import errors
from minara_core.clock import pause
from minara_core.reasons import ErrorReason
from support.border import Border, a_border
from support.channels import KINDS
from support.echo import EchoServicer, EchoStub, echo
from support.eventually import eventually


@pytest.fixture(params=KINDS)
def border(request: pytest.FixtureRequest, tmp_path: Path) -> Border:
    return a_border(request.param, tmp_path)


async def test_what_was_streamed_before_an_error_arrives_before_it(border: Border) -> None:
    async def fail_at_two(request: Any, context: Any) -> AsyncIterator[Any]:
        yield echo(number=0)
        yield echo(number=1)
        raise errors.Conflict("two")

    async with border.open(EchoServicer(count=fail_at_two)) as channel:
        stream = EchoStub(channel).count(echo(), metadata=border.grant)
        numbers = [(await anext(stream)).number for _ in range(2)]
        with pytest.raises(errors.Conflict):
            await anext(stream)
    assert numbers == [0, 1]


async def test_a_stream_arrives_whole_and_in_order(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        stream = EchoStub(channel).count(echo("n", 200), metadata=border.grant)
        numbers = [answer.number async for answer in stream]
    assert numbers == list(range(200))


async def test_a_stream_can_be_read_one_by_one(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        stream = EchoStub(channel).count(echo("n", 1), metadata=border.grant)
        assert (await stream.read()).number == 0
        assert await stream.read() is grpc.aio.EOF


async def test_a_stream_past_its_deadline_stops(border: Border) -> None:
    async def hang(request: Any, context: Any) -> AsyncIterator[Any]:
        yield echo("first")
        await asyncio.Event().wait()

    async with border.open(EchoServicer(count=hang)) as channel:
        stream = EchoStub(channel).count(echo(), metadata=border.grant, timeout=0.3)
        first = await anext(stream)
        with pytest.raises(errors.DeadlineExceeded):
            await anext(stream)
    assert first.text == "first"


async def test_a_thousand_dropped_streams_leave_no_servicer_behind(border: Border) -> None:
    live = 0

    async def endless(request: Any, context: Any) -> AsyncIterator[Any]:
        nonlocal live
        live += 1
        try:
            yield echo("first")
            await asyncio.Event().wait()
        finally:
            live -= 1

    async with border.open(EchoServicer(count=endless)) as channel:
        stub = EchoStub(channel)
        grant = border.grant
        for _ in range(1_000):
            async for _answer in stub.count(echo(), metadata=grant):
                break
        gc.collect()
        await eventually(lambda: live == 0, timeout=20)


async def test_a_slow_reader_holds_the_writer_back(border: Border) -> None:
    written = 0

    async def eager(request: Any, context: Any) -> AsyncIterator[Any]:
        nonlocal written
        for _ in range(2_000):
            written += 1
            yield echo("x" * 65_536)

    async with border.open(EchoServicer(count=eager)) as channel:
        stream = EchoStub(channel).count(echo(), metadata=border.grant)
        for _ in range(3):
            await stream.read()
        before = -1
        while before != written:
            before = written
            await pause(0.2)
        stream.cancel()
    assert written <= (5 if border.kind == "in_process" else 1_000)


async def test_a_caller_may_stream_its_requests(border: Border) -> None:
    async def letters() -> AsyncGenerator[Any]:
        for letter in "abc":
            yield echo(letter)

    async with border.open(EchoServicer()) as channel:
        stub = EchoStub(channel)
        streamed = await stub.collect(letters(), metadata=border.grant)
        listed = await stub.collect(iter([echo("d"), echo("e")]), metadata=border.grant)
        call = stub.collect(metadata=border.grant)
        await call.write(echo("f"))
        await call.done_writing()
        written = await call
    assert [streamed.text, listed.text, written.text] == ["a,b,c", "d,e", "f"]


async def test_a_streaming_caller_gets_its_own_error_back(border: Border) -> None:
    async def broken() -> AsyncGenerator[Any]:
        yield echo("a")
        raise errors.InvalidRequest("the upload broke")

    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.InvalidRequest, match="the upload broke"):
            await EchoStub(channel).collect(broken(), metadata=border.grant)


async def test_a_servicer_may_refuse_a_stream_before_its_end(border: Border) -> None:
    refused = asyncio.Event()

    async def refuse(requests: Any, context: Any) -> Any:
        async for _ in requests:
            raise errors.TooLarge("enough")

    # While grpc.aio is writing, a status that comes in at that moment may be lost over TCP.
    async def unfinished() -> AsyncGenerator[Any]:
        yield echo("one")
        await refused.wait()

    async with border.open(EchoServicer(collect=refuse)) as channel:
        with pytest.raises(errors.TooLarge, match="enough"):
            await EchoStub(channel).collect(unfinished(), metadata=border.grant)
        refused.set()


async def test_a_streaming_caller_needs_a_grant_too(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.NotAuthenticated) as caught:
            await EchoStub(channel).collect(iter([echo("a")]))
    assert caught.value.reason is ErrorReason.GRANT_MISSING
