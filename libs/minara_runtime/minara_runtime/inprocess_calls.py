"""The caller's end of a call that stays inside the process."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from typing_extensions import override

from minara_runtime.inprocess_context import encode
from minara_runtime.inprocess_exchange import Exchange, SlotClosed

Req = TypeVar("Req")
Res = TypeVar("Res")


class CallEnd(grpc.aio.Call):
    """What all four kinds of calls share. Dropping the object cancels the call, as grpc.aio does.

    The servicer's task holds the exchange and never this object, so a dropped call is collected at
    once.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        serialize: Callable[[Any], bytes] | None,
        deserialize: Callable[[bytes], Any] | None,
    ) -> None:
        self._exchange = exchange
        self._serialize = serialize
        self._deserialize = deserialize
        self._source: asyncio.Task[None] | None = None

    def __del__(self) -> None:
        self._exchange.cancel()

    @override
    def cancel(self) -> bool:
        return self._exchange.cancel()

    @override
    def cancelled(self) -> bool:
        ending = self._exchange.ending
        return ending is not None and ending.code is grpc.StatusCode.CANCELLED

    @override
    def done(self) -> bool:
        return self._exchange.ending is not None

    @override
    def time_remaining(self) -> float | None:
        return self._exchange.time_remaining()

    @override
    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._exchange.on_end(lambda: callback(self))

    @override
    async def initial_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*await self._exchange.wait_initial_metadata())

    @override
    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*(await self._exchange.wait_ended()).trailing_metadata)

    @override
    async def code(self) -> grpc.StatusCode:
        return (await self._exchange.wait_ended()).code

    @override
    async def details(self) -> str:
        return (await self._exchange.wait_ended()).details

    @override
    async def wait_for_connection(self) -> None:
        return

    def feed(self, requests: Any) -> None:
        """Send what an iterator yields; when it raises, the call is cancelled."""
        exchange, serialize = self._exchange, self._serialize
        source = exchange.loop.create_task(_pump(exchange, serialize, requests))
        source.add_done_callback(lambda task: _source_ended(task, exchange))
        exchange.on_end(lambda: _cancel(source))

    async def write(self, request: Any) -> None:
        data = encode(request, self._serialize)
        if not self._exchange.refuse_oversized(data, "Sent"):
            try:
                await self._exchange.requests.put(data)
                return
            except SlotClosed:
                pass
        ending = await self._exchange.wait_ended()
        raise asyncio.CancelledError if ending.is_local else self._exchange.error(ending)

    async def done_writing(self) -> None:
        self._exchange.requests.close()

    async def read(self) -> Any:
        """The next response; `grpc.aio.EOF` at the end. Raises what the call ended with."""
        try:
            message = await self._exchange.responses.take()
        except asyncio.CancelledError:
            self._exchange.cancel()
            raise
        if message is not None:
            return self._decoded(message)
        await self._succeeded()
        return grpc.aio.EOF

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        message = await self.read()
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        return message

    def __await__(self) -> Generator[Any, None, Any]:
        return self._only_response().__await__()

    async def _only_response(self) -> Any:
        try:
            await self._succeeded()
        except asyncio.CancelledError:
            self._exchange.cancel()
            raise
        assert self._exchange.response is not None
        return self._decoded(self._exchange.response)

    async def _succeeded(self) -> None:
        ending = await self._exchange.wait_ended()
        if ending.is_local:
            raise asyncio.CancelledError
        if ending.code is not grpc.StatusCode.OK:
            raise self._exchange.error(ending)

    def _decoded(self, message: bytes) -> Any:
        return message if self._deserialize is None else self._deserialize(message)


class UnaryUnaryEnd(CallEnd, grpc.aio.UnaryUnaryCall[Req, Res], Generic[Req, Res]):
    """One request, one response."""


class UnaryStreamEnd(CallEnd, grpc.aio.UnaryStreamCall[Req, Res], Generic[Req, Res]):
    """One request, many responses."""


class StreamUnaryEnd(CallEnd, grpc.aio.StreamUnaryCall[Req, Res], Generic[Req, Res]):
    """Many requests, one response."""


class StreamStreamEnd(CallEnd, grpc.aio.StreamStreamCall[Req, Res], Generic[Req, Res]):
    """Many of both; reflection speaks so."""


async def _pump(
    exchange: Exchange, serialize: Callable[[Any], bytes] | None, requests: Any
) -> None:
    async for request in _each(requests):
        data = encode(request, serialize)
        if exchange.refuse_oversized(data, "Sent"):
            return
        try:
            await exchange.requests.put(data)
        except SlotClosed:
            return
    exchange.requests.close()


async def _each(requests: Any) -> AsyncIterator[Any]:
    if inspect.isasyncgen(requests) or hasattr(requests, "__aiter__"):
        async for request in requests:
            yield request
        return
    for request in requests:
        yield request


def _source_ended(task: "asyncio.Task[None]", exchange: Exchange) -> None:
    if not task.cancelled() and task.exception() is not None:
        exchange.cancel()


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
