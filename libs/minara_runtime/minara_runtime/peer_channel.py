"""The calling side of the border: deadline, trace and request id out, domain errors in.

Wraps a channel of either kind. Plain objects instead of grpc.aio's client interceptors, which cost
a task per call and cannot see how a stream ends.
"""

from __future__ import annotations  # grpc's classes are generic to a type checker only

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
import grpc.aio
from typing_extensions import override

from minara_runtime import logging
from minara_runtime.call_context import capped_timeout
from minara_runtime.error_status import from_status
from minara_runtime.interceptors import REQUEST_ID_KEY
from minara_runtime.trace_context import TRACEPARENT, traceparent

Req = TypeVar("Req")
Res = TypeVar("Res")


_PAST = -1.0


class PeerChannel(grpc.aio.Channel):
    """A channel to `peer` whose calls raise MinaraErrors, never AioRpcError.

    A call never outlives the deadline of the call being served. Whoever stops awaiting or iterating
    a call cancels it.
    """

    def __init__(self, inner: grpc.aio.Channel, *, peer: str) -> None:
        self._inner = inner
        self._peer = peer

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
        await self._inner.close(grace)

    @override
    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._inner.get_state(try_to_connect)

    @override
    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._inner.wait_for_state_change(last_observed_state)

    @override
    async def channel_ready(self) -> None:
        await self._inner.channel_ready()

    @override
    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.UnaryUnaryMultiCallable[Req, Res]:
        inner = self._inner.unary_unary(method, request_serializer, response_deserializer)
        return self._one_request(inner)

    @override
    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.UnaryStreamMultiCallable[Req, Res]:
        inner = self._inner.unary_stream(method, request_serializer, response_deserializer)
        return self._one_request(inner)

    @override
    def stream_unary(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.StreamUnaryMultiCallable[Req, Res]:
        inner = self._inner.stream_unary(method, request_serializer, response_deserializer)
        return self._many_requests(inner)

    @override
    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Req], bytes] | None = None,
        response_deserializer: Callable[[bytes], Res] | None = None,
        _registered_method: bool | None = False,
    ) -> grpc.aio.StreamStreamMultiCallable[Req, Res]:
        inner = self._inner.stream_stream(method, request_serializer, response_deserializer)
        return self._many_requests(inner)

    def _one_request(self, inner: Any) -> Any:
        def call(request: Any, **options: Any) -> Any:
            return _PeerCall(inner(request, **_outgoing(options)), self._peer, None)

        return call

    def _many_requests(self, inner: Any) -> Any:
        def call(request_iterator: Any = None, **options: Any) -> Any:
            source = None if request_iterator is None else _Source(request_iterator)
            return _PeerCall(inner(source, **_outgoing(options)), self._peer, source)

        return call


class _Source:
    """A caller's stream of requests that remembers what broke it."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncGenerator[Any]:
        with self:
            if hasattr(self._requests, "__aiter__"):
                async for request in self._requests:
                    yield request
            else:
                for request in self._requests:
                    yield request

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if isinstance(exc_val, Exception):
            self.error = exc_val


class _PeerCall:
    """A call of any kind; offers what its kind offers."""

    def __init__(self, call: Any, peer: str, source: _Source | None) -> None:
        self._call = call
        self._peer = peer
        self._source = source
        self._responses: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __del__(self) -> None:
        self._call.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from cast("Generator[Any, None, Any]", self._call.__await__()))
        except grpc.aio.AioRpcError as error:
            raise from_status(error, peer=self._peer) from None
        except asyncio.CancelledError:
            self._call.cancel()
            self._raise_for_source()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._responses is None:
            self._responses = self._call.__aiter__()
        try:
            return await self._responses.__anext__()
        except grpc.aio.AioRpcError as error:
            raise from_status(error, peer=self._peer) from None
        except asyncio.CancelledError:
            self._call.cancel()
            raise

    async def read(self) -> Any:
        return await self._mapped(self._call.read())

    async def write(self, request: Any) -> None:
        await self._mapped(self._call.write(request))

    async def done_writing(self) -> None:
        await self._mapped(self._call.done_writing())

    async def _mapped(self, operation: Any) -> Any:
        try:
            return await operation
        except grpc.aio.AioRpcError as error:
            raise from_status(error, peer=self._peer) from None
        except asyncio.CancelledError:
            self._call.cancel()
            raise

    def _raise_for_source(self) -> None:
        if self._source is not None and self._source.error is not None:
            raise self._source.error from None


def _outgoing(options: dict[str, Any]) -> dict[str, Any]:
    timeout = capped_timeout(options.get("timeout"))
    # grpc lets a call with a deadline of just now through when the peer is quick.
    options["timeout"] = _PAST if timeout is not None and timeout <= 0 else timeout
    pairs: list[tuple[str, str | bytes]] = list(options.get("metadata") or ())
    parent = traceparent()
    if parent is not None:
        pairs.append((TRACEPARENT, parent))
    request_id = logging.bound("request_id")
    if request_id:
        pairs.append((REQUEST_ID_KEY, request_id))
    options["metadata"] = tuple(pairs)
    return options
