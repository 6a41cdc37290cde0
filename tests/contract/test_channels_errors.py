"""How a call that fails ends: the same in process and over TCP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from minara_core import errors
from minara_core.reasons import ErrorReason
from support.border import Border, a_border
from support.channels import KINDS
from support.echo import EchoServicer, EchoStub, echo


@pytest.fixture(params=KINDS)
def border(request: pytest.FixtureRequest, tmp_path: Path) -> Border:
    return a_border(request.param, tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("one", metadata={"field": "text"}),
        errors.TooLarge("two", metadata={"limit": "10"}),
        errors.NotAuthenticated("three"),
        errors.NotPermitted("four"),
        errors.NotFound("五", reason=ErrorReason.SESSION_NOT_FOUND),
        errors.AlreadyExists("six"),
        errors.Conflict("seven", reason=ErrorReason.EPOCH_STALE, metadata={"epoch": "3"}),
        errors.NotReady("eight"),
        errors.LimitExceeded("nine"),
        errors.EventsLost("ten"),
        errors.Unavailable("eleven", reason=ErrorReason.SHUTTING_DOWN),
        errors.DeadlineExceeded("twelve"),
        errors.Cancelled("thirteen"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_domain_error_arrives_as_it_was_raised(
    border: Border, error: errors.MinaraError
) -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise error

    async with border.open(EchoServicer(say=fail)) as channel:
        with pytest.raises(errors.MinaraError) as caught:
            await EchoStub(channel).say(echo(), metadata=border.grant)
    assert type(caught.value) is type(error)
    assert caught.value.message == error.message
    assert caught.value.reason is error.reason
    assert caught.value.metadata == error.metadata


async def test_a_group_of_errors_arrives_as_its_first_domain_error(border: Border) -> None:
    async def fail(request: Any, context: Any) -> Any:
        inner = ExceptionGroup("inner", [ValueError("x"), errors.NotFound("gone")])
        raise ExceptionGroup("outer", [KeyError("y"), inner])

    async with border.open(EchoServicer(say=fail)) as channel:
        with pytest.raises(errors.NotFound, match="gone"):
            await EchoStub(channel).say(echo(), metadata=border.grant)


async def test_the_text_of_an_unknown_exception_stays_here(border: Border) -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise ValueError("the password is hunter2")

    async def fail_later(request: Any, context: Any) -> AsyncIterator[Any]:
        yield echo("first")
        raise ValueError("the password is hunter2")

    servicer = EchoServicer(say=fail, count=fail_later)
    async with border.open(servicer, is_raw=True) as channel:
        stub = EchoStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await stub.say(echo(), metadata=border.grant)
        with pytest.raises(grpc.aio.AioRpcError) as streamed:
            [answer async for answer in stub.count(echo(), metadata=border.grant)]
    for caught in (unary.value, streamed.value):
        assert caught.code() is grpc.StatusCode.INTERNAL
        sent = f"{caught.details()} {caught.debug_error_string()} {caught.trailing_metadata()}"
        assert "hunter2" not in sent
        assert "ValueError" not in sent
        assert "reference" in (caught.details() or "")


async def test_an_internal_error_names_its_reference(border: Border) -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise KeyError("secret")

    async with border.open(EchoServicer(say=fail)) as channel:
        with pytest.raises(errors.InternalError) as caught:
            await EchoStub(channel).say(echo(), metadata=border.grant)
    assert caught.value.metadata["reference_id"] in caught.value.message


async def test_an_answer_that_cannot_be_serialized_is_an_internal_error(border: Border) -> None:
    async def wrong(request: Any, context: Any) -> Any:
        return "no message at all"

    async with border.open(EchoServicer(say=wrong)) as channel:
        with pytest.raises(errors.InternalError, match="reference"):
            await EchoStub(channel).say(echo(), metadata=border.grant)


async def test_bytes_that_are_no_message_are_an_invalid_request(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.InvalidRequest):
            await EchoStub(channel).raw(b"\xff\xff\xff", metadata=border.grant)


async def test_a_cancellation_that_nobody_asked_for_is_answered(border: Border) -> None:
    async def cancelled(request: Any, context: Any) -> Any:
        raise asyncio.CancelledError

    async with border.open(EchoServicer(say=cancelled)) as channel:
        with pytest.raises(errors.InternalError):
            await EchoStub(channel).say(echo(), metadata=border.grant, timeout=5)


async def test_a_status_set_by_the_servicer_is_kept(border: Border) -> None:
    async def refuse(request: Any, context: Any) -> Any:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("set by hand")
        return echo("dropped")

    async with border.open(EchoServicer(say=refuse), is_raw=True) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await EchoStub(channel).say(echo(), metadata=border.grant)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "set by hand"


async def test_an_abort_is_kept(border: Border) -> None:
    async def refuse(request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.DATA_LOSS, "by hand", (("why", "because"),))

    async with border.open(EchoServicer(say=refuse), is_raw=True) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await EchoStub(channel).say(echo(), metadata=border.grant)
    assert caught.value.code() is grpc.StatusCode.DATA_LOSS
    assert ("why", "because") in tuple(caught.value.trailing_metadata() or ())


async def test_a_method_that_is_not_there_is_unimplemented(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.InternalError) as caught:
            await EchoStub(channel).missing(echo(), metadata=border.grant)
    assert caught.value.reason is ErrorReason.UNIMPLEMENTED


async def test_a_method_without_a_grant_rule_is_refused_to_everybody(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.NotAuthenticated):
            await EchoStub(channel).unruled(echo(), metadata=border.grant)


async def test_a_span_tells_why_a_call_was_refused(border: Border) -> None:
    async with border.open(EchoServicer()) as channel:
        with pytest.raises(errors.NotAuthenticated):
            await EchoStub(channel).say(echo("hello"))
    (span,) = border.spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["minara.reason"] == "GRANT_MISSING"
    assert span.attributes["error.type"] == "NotAuthenticated"
    assert not span.status.is_ok
