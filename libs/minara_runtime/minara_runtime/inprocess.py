"""gRPC without a socket: the same stubs, servicers and interceptors, inside one process.

Messages are serialized both ways, so nobody holds another's object. Each call is its own task in an
empty context. A servicer that is cancelled at a `yield` sees GeneratorExit, not CancelledError: its
generator is closed, and it cleans up in `finally`.
"""

from __future__ import annotations  # grpc's classes are generic to a type checker only

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import grpc
import grpc.aio
from typing_extensions import override

from minara_runtime.inprocess_calls import (
    CallEnd,
    StreamStreamEnd,
    StreamUnaryEnd,
    UnaryStreamEnd,
    UnaryUnaryEnd,
)
from minara_runtime.inprocess_context import InProcessContext, encode
from minara_runtime.inprocess_exchange import Ending, Exchange, MetadataPairs

Req = TypeVar("Req")
Res = TypeVar("Res")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(slots=True)
class CallDetails:
    """What an interceptor is told before the handler is looked up; mutable as grpc declares it."""

    method: str
    invocation_metadata: Any


class InProcessServer(grpc.aio.Server):
    """Servicers that this process calls directly; registers like any grpc.aio server.

    Serves from the moment a servicer is added until `stop`, after which calls are UNAVAILABLE.
    """

    def __init__(self, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._lookup = self._find
        for interceptor in reversed(interceptors):
            self._lookup = _intercepted(interceptor, self._lookup)

    @override
    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]
    ) -> None:
        self._handlers.extend(generic_rpc_handlers)

    @override
    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Handler]
    ) -> None:
        """Nothing: generated code registers the same handlers generically as well."""

    @override
    def add_insecure_port(self, address: str) -> int:
        raise grpc.aio.UsageError("an in-process server has no port")

    @override
    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        raise grpc.aio.UsageError("an in-process server has no port")

    @override
    async def start(self) -> None:
        return

    @override
    async def stop(self, grace: float | None) -> None:
        """Refuse new calls, let running ones end within `grace` seconds, then cancel them."""
        self._is_stopped = True
        if self._tasks and grace:
            await asyncio.wait(self._tasks, timeout=grace)
        running = list(self._tasks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    @override
    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        return bool(self._tasks)

    @property
    def running_calls(self) -> int:
        """How many servicers are at work."""
        return len(self._tasks)

    def begin(self, exchange: Exchange, request: bytes | None) -> None:
        """Answer one call in a task of its own."""
        if self._is_stopped:
            code = grpc.StatusCode.UNAVAILABLE
            exchange.end(Ending(code=code, details="the server has stopped"))
            return
        if exchange.ending is not None:
            return
        task = exchange.loop.create_task(
            self._serve(exchange, request), context=contextvars.Context()
        )
        exchange.task = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._served(done, exchange))

    def _served(self, task: asyncio.Task[None], exchange: Exchange) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            code = grpc.StatusCode.UNAVAILABLE if self._is_stopped else grpc.StatusCode.CANCELLED
            exchange.end(Ending(code=code, details="the servicer was cancelled"))
            return
        error = task.exception()
        if error is None or isinstance(error, grpc.aio.AbortError):
            return
        # Without an error interceptor the text of an exception would be sent; here never.
        exchange.end(Ending(code=grpc.StatusCode.UNKNOWN, details="the servicer broke"))
        exchange.loop.call_exception_handler(
            {"message": f"{exchange.method} broke", "exception": error, "task": task}
        )

    async def _serve(self, exchange: Exchange, request: bytes | None) -> None:
        handler = await self._lookup(CallDetails(exchange.method, exchange.metadata))
        if handler is None:
            exchange.end(Ending(code=grpc.StatusCode.UNIMPLEMENTED, details="Method not found!"))
            return
        context: InProcessContext[Any, Any] = InProcessContext(
            exchange,
            deserialize=handler.request_deserializer,
            serialize=handler.response_serializer,
        )
        if handler.request_streaming:
            message: Any = context.requests()
        else:
            data = await exchange.requests.take() if request is None else request
            message = _decoded(data, handler.request_deserializer)
        if handler.response_streaming:
            await _stream(handler.stream_stream or handler.unary_stream, message, context)
        else:
            await _respond(handler.stream_unary or handler.unary_unary, message, context)

    async def _find(self, details: grpc.HandlerCallDetails) -> Handler | None:
        for generic in self._handlers:
            handler = generic.service(details)
            if handler is not None:
                return handler
        return None


def _intercepted(interceptor: grpc.aio.ServerInterceptor, lookup: Any) -> Any:
    async def look_up(details: grpc.HandlerCallDetails) -> Handler | None:
        return await interceptor.intercept_service(lookup, details)

    return look_up


def _decoded(data: bytes | None, deserialize: Callable[[bytes], Any] | None) -> Any:
    return data if deserialize is None or data is None else deserialize(data)


async def _respond(behavior: Any, message: Any, context: InProcessContext[Any, Any]) -> None:
    outcome = behavior(message, context)
    context.answer(await outcome if hasattr(outcome, "__await__") else outcome)


async def _stream(behavior: Any, message: Any, context: InProcessContext[Any, Any]) -> None:
    outcome = behavior(message, context)
    if hasattr(outcome, "__aiter__"):
        async with aclosing(outcome) as responses:
            async for response in responses:
                await context.write(response)
    elif hasattr(outcome, "__await__"):
        await outcome
    context.finish()


class InProcessChannel(grpc.aio.Channel):
    """The calling end of an InProcessServer; what `XServiceStub(channel)` takes."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server
        self._is_closed = False

    @override
    async def __aenter__(self) -> Self:
        return self

    @override
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.close()

    @override
    async def close(self, grace: float | None = None) -> None:
        """Refuse new calls; running ones belong to whoever holds them."""
        self._is_closed = True

    @override
    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        state = grpc.ChannelConnectivity
        return state.SHUTDOWN if self._is_closed else state.READY

    @override
    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        if last_observed_state is self.get_state():
            await asyncio.get_running_loop().create_future()

    @override
    async def channel_ready(self) -> None:
        return

    @override
    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.UnaryUnaryMultiCallable[Req, Res]:
        call: Any = _OneRequest(
            self, method, request_serializer, response_deserializer, UnaryUnaryEnd
        )
        return call

    @override
    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.UnaryStreamMultiCallable[Req, Res]:
        call: Any = _OneRequest(
            self, method, request_serializer, response_deserializer, UnaryStreamEnd
        )
        return call

    @override
    def stream_unary(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.StreamUnaryMultiCallable[Req, Res]:
        call: Any = _ManyRequests(
            self, method, request_serializer, response_deserializer, StreamUnaryEnd
        )
        return call

    @override
    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.StreamStreamMultiCallable[Req, Res]:
        call: Any = _ManyRequests(
            self, method, request_serializer, response_deserializer, StreamStreamEnd
        )
        return call

    def exchange(self, method: str, timeout: float | None, metadata: Any) -> Exchange:
        """A call about to begin. Raises UsageError when the channel is closed."""
        if self._is_closed:
            raise grpc.aio.UsageError("Channel is closed.")
        return Exchange(
            method=method,
            metadata=_pairs(metadata),
            timeout=timeout,
            loop=asyncio.get_running_loop(),
        )

    def begin(self, exchange: Exchange, request: bytes | None) -> None:
        self._server.begin(exchange, request)


class _Method:
    def __init__(
        self,
        channel: InProcessChannel,
        method: str,
        serialize: Callable[[Any], bytes] | None,
        deserialize: Callable[[bytes], Any] | None,
        end: type[CallEnd],
    ) -> None:
        self._channel = channel
        self._method = method
        self._serialize = serialize
        self._deserialize = deserialize
        self._end = end

    def _call(self, exchange: Exchange) -> Any:
        return self._end(exchange, serialize=self._serialize, deserialize=self._deserialize)


class _OneRequest(_Method):
    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Any = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        data = encode(request, self._serialize)
        exchange = self._channel.exchange(self._method, timeout, metadata)
        call = self._call(exchange)
        if not exchange.refuse_oversized(data, "Sent"):
            self._channel.begin(exchange, data)
        return call


class _ManyRequests(_Method):
    def __call__(
        self,
        request_iterator: Any = None,
        timeout: float | None = None,
        metadata: Any = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        exchange = self._channel.exchange(self._method, timeout, metadata)
        call = self._call(exchange)
        self._channel.begin(exchange, None)
        if request_iterator is not None:
            call.feed(request_iterator)
        return call


def _pairs(metadata: Any) -> MetadataPairs:
    return tuple((key.lower(), value) for key, value in metadata) if metadata else ()
