"""What a call carries: the same in process and over TCP."""

import contextvars
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from minara_core import errors
from minara_runtime.call_context import current_grant
from minara_runtime.limits import MAX_MESSAGE_BYTES
from support.border import Border, a_border
from support.channels import KINDS
from support.echo import EchoServicer, EchoStub, echo

OVER_THE_LIMIT = "x" * (MAX_MESSAGE_BYTES + 1)
UNDER_THE_LIMIT = "x" * (MAX_MESSAGE_BYTES - 1_024)

seen_by_callers: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


@pytest.fixture(params=KINDS)
def border(request: pytest.FixtureRequest, tmp_path: Path) -> Border:
    return a_border(request.param, tmp_path)


async def test_an_answer_comes_back(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        answer = await EchoStub(channel).say(echo("hello"), metadata=border.grant)
    assert answer.text == "hello"


async def test_a_servicer_gets_its_own_copy_of_the_request(border: Border) -> None:
    async def overwrite(request: Any, context: Any) -> Any:
        request.text = "changed"
        return request

    request = echo("mine")
    async with border.open(EchoServicer(say=overwrite)) as channel:
        answer = await EchoStub(channel).say(request, metadata=border.grant)
    assert (request.text, answer.text) == ("mine", "changed")


async def test_messages_up_to_8_mib_pass(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        answer = await EchoStub(channel).say(echo(UNDER_THE_LIMIT), metadata=border.grant)
    assert len(answer.text) == len(UNDER_THE_LIMIT)


async def test_a_request_over_8_mib_is_too_large(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.TooLarge):
            await EchoStub(channel).say(echo(OVER_THE_LIMIT), metadata=border.grant)


async def test_an_answer_over_8_mib_is_too_large(border: Border) -> None:
    async def huge(request: Any, context: Any) -> Any:
        return echo(OVER_THE_LIMIT)

    async def huge_stream(request: Any, context: Any) -> AsyncIterator[Any]:
        yield echo(OVER_THE_LIMIT)

    async with border.open(EchoServicer(say=huge, count=huge_stream)) as channel:
        stub = EchoStub(channel)
        with pytest.raises(errors.TooLarge):
            await stub.say(echo(), metadata=border.grant)
        with pytest.raises(errors.TooLarge):
            await anext(stub.count(echo(), metadata=border.grant))


async def test_metadata_goes_both_ways(border: Border) -> None:
    async def tell(request: Any, context: Any) -> Any:
        sent = dict(context.invocation_metadata())
        await context.send_initial_metadata((("early", "1"),))
        context.set_trailing_metadata((("late", "2"), ("late-bin", b"\x00\xff")))
        return echo(f"{sent['colour']} {sent['raw-bin']!r}")

    metadata = (*border.grant, ("colour", "blue"), ("raw-bin", b"\x01\x02"))
    async with border.open(EchoServicer(say=tell)) as channel:
        call = EchoStub(channel).say(echo(), metadata=metadata)
        answer = await call
        early = tuple(await call.initial_metadata())
        late = tuple(await call.trailing_metadata())
        code = await call.code()
    assert answer.text == r"blue b'\x01\x02'"
    assert ("early", "1") in early
    assert ("late", "2") in late
    assert ("late-bin", b"\x00\xff") in late
    assert code is grpc.StatusCode.OK


async def test_a_servicer_sees_nothing_of_its_callers_context(border: Border) -> None:
    async def tell(request: Any, context: Any) -> Any:
        before = seen_by_callers.get()
        seen_by_callers.set("left behind")
        return echo(before)

    seen_by_callers.set("the caller's")
    async with border.open(EchoServicer(say=tell)) as channel:
        stub = EchoStub(channel)
        answers = [await stub.say(echo(), metadata=border.grant) for _ in range(2)]
    assert [answer.text for answer in answers] == ["nothing", "nothing"]
    assert seen_by_callers.get() == "the caller's"


async def test_a_servicer_knows_the_grant_of_its_call(border: Border) -> None:
    async def tell(request: Any, context: Any) -> Any:
        return echo(current_grant().subject)

    async def tell_twice(request: Any, context: Any) -> AsyncIterator[Any]:
        yield echo(current_grant().subject)
        yield echo(current_grant().subject)

    async with border.open(EchoServicer(say=tell, count=tell_twice)) as channel:
        stub = EchoStub(channel)
        said = (await stub.say(echo(), metadata=border.grant)).text
        counted = [answer.text async for answer in stub.count(echo(), metadata=border.grant)]
    assert [said, *counted] == ["local"] * 3


async def test_one_trace_spans_all_hops(border: Border) -> None:
    async with border.open(EchoServicer()) as leaf:

        async def ask(request: Any, context: Any) -> Any:
            return await EchoStub(leaf).say(request, metadata=border.grant)

        async with border.open(EchoServicer(say=ask)) as channel:
            with border.telemetry.span("test"):
                await EchoStub(channel).say(echo("hello"), metadata=border.grant)
    spans = border.spans.get_finished_spans()
    inner, outer, root = spans
    assert root.name == "test"
    assert [inner.name, outer.name] == ["minara_echo.v1.EchoService/Say"] * 2
    contexts = [span.get_span_context() for span in spans]
    assert outer.parent is not None
    assert inner.parent is not None
    assert [inner.parent.span_id, outer.parent.span_id] == [
        context.span_id for context in contexts[1:] if context is not None
    ]
    assert len({context.trace_id for context in contexts if context is not None}) == 1
