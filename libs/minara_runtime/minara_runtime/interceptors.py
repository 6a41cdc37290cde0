"""The border of every service: trace, deadline, grant, errors; once per call, the same on TCP and
in process.

One interceptor instead of four: each method is wrapped once, so a call pays for the checks alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from opentelemetry.trace import Span, SpanKind
from typing_extensions import override

from minara_core import errors
from minara_core.ids import IdSource, RandomIds
from minara_core.reasons import ErrorReason
from minara_runtime import call_context, genai, logging
from minara_runtime.error_status import code_of, status_of
from minara_runtime.grant_interceptor import GrantCheck, is_exempt
from minara_runtime.grants import GrantVerifier
from minara_runtime.limits import MAX_MESSAGE_BYTES
from minara_runtime.spans import mark_failed
from minara_runtime.telemetry import Telemetry
from minara_runtime.trace_context import remote_parent

REQUEST_ID_KEY = "minara-request-id"
_ID_CHARACTERS = 128

# A context over a socket tells its code as a number.
_SUCCESS = (None, 0, grpc.StatusCode.OK)
_UNIMPLEMENTED = (12, grpc.StatusCode.UNIMPLEMENTED)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


def server_interceptors(
    verifier: GrantVerifier, telemetry: Telemetry, *, ids: IdSource | None = None
) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """What `serve` and `InProcessServer` take; one tuple may be given to both."""
    return (BorderInterceptor(GrantCheck(verifier), telemetry, ids or RandomIds()),)


@dataclass(frozen=True, slots=True)
class _Wrapped:
    source: Handler
    handler: Handler


class BorderInterceptor(grpc.aio.ServerInterceptor):
    """Lets a call in if its grant covers it, and lets nothing out but domain errors."""

    def __init__(self, grants: GrantCheck, telemetry: Telemetry, ids: IdSource) -> None:
        self._grants = grants
        self._telemetry = telemetry
        self._ids = ids
        self._log = logging.get_logger("rpc")
        self._wrapped: dict[str, _Wrapped] = {}

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or is_exempt(method):
            return handler
        known = self._wrapped.get(method)
        if known is None or known.source is not handler:
            known = _Wrapped(handler, self._wrap(method, handler))
            self._wrapped[method] = known
        return known.handler

    def _wrap(self, method: str, handler: Handler) -> Handler:
        # Bytes in and bytes out: what cannot be (de)serialized fails inside the border.
        call = _Call(self, method, handler)
        if handler.request_streaming:
            deserialize = handler.request_deserializer
            if handler.response_streaming:
                return grpc.stream_stream_rpc_method_handler(call.stream, deserialize)
            return grpc.stream_unary_rpc_method_handler(call.respond, deserialize)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(call.stream)
        return grpc.unary_unary_rpc_method_handler(call.respond)

    def admit(
        self, method: str, request: Any, metadata: Mapping[str, str | bytes], span: Span
    ) -> None:
        """Check the grant and bind the ids of the call."""
        message = request if isinstance(request, Message) else None
        call_context.set_grant(self._grants.admit(method, message, metadata))
        _bind_ids(message, metadata, span)

    def span(self, method: str, metadata: Mapping[str, str | bytes]) -> Any:
        name = method.lstrip("/")
        attributes = {genai.RPC_SYSTEM: "grpc", genai.RPC_METHOD: name, genai.RPC_RESPONSE: "OK"}
        return self._telemetry.span(
            name, attributes, kind=SpanKind.SERVER, parent=remote_parent(metadata)
        )

    def domain_error(self, broken: BaseException, method: str) -> errors.MinaraError:
        """What the caller is told. An unknown exception becomes a reference to the log."""
        known = _first_domain_error(broken)
        if known is not None and not isinstance(known, errors.InternalError):
            return known
        if known is not None and known.reason is ErrorReason.UNIMPLEMENTED:
            return known
        reference = "" if known is None else known.metadata.get("reference_id", "")
        reference = reference or self._ids.new()
        self._log.error("call_failed", method=method, reference_id=reference, exc_info=broken)
        return errors.InternalError(
            f"internal error; reference {reference}", metadata={"reference_id": reference}
        )


class _Call:
    """One method behind the border."""

    def __init__(self, border: BorderInterceptor, method: str, handler: Handler) -> None:
        self._border = border
        self._method = method
        self._handler = handler
        self._behavior: Any = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )

    async def respond(self, request: Any, context: Context) -> bytes | None:
        async def work(span: Span, metadata: Mapping[str, str | bytes]) -> bytes | None:
            message = self._admitted(request, metadata, span)
            outcome = self._behavior(message, context)
            response = await outcome if hasattr(outcome, "__await__") else outcome
            return self._encoded(response) if context.code() in _SUCCESS else None

        return await self._guarded(work, context)

    async def stream(self, request: Any, context: Context) -> None:
        async def work(span: Span, metadata: Mapping[str, str | bytes]) -> None:
            responses = self._behavior(self._admitted(request, metadata, span), context)
            # Closed here, not by the garbage collector: a cancelled servicer cleans up at once.
            async with aclosing(responses):
                async for response in responses:
                    await context.write(self._encoded(response))

        await self._guarded(work, context)

    def _admitted(self, request: Any, metadata: Mapping[str, str | bytes], span: Span) -> Any:
        deserialize = self._handler.request_deserializer
        if not self._handler.request_streaming and deserialize is not None:
            try:
                request = deserialize(request)
            except DecodeError:
                raise errors.InvalidRequest("the request is no message of this method") from None
        self._border.admit(self._method, request, metadata, span)
        return request

    def _encoded(self, response: Any) -> bytes:
        serialize = self._handler.response_serializer
        data = response if serialize is None else serialize(response)
        if len(data) > MAX_MESSAGE_BYTES:
            # grpc would refuse it as well, but takes seconds to say so.
            raise errors.TooLarge(
                "the answer is too large for one message",
                metadata={"bytes": str(len(data)), "limit": str(MAX_MESSAGE_BYTES)},
            )
        return data

    async def _guarded(
        self, work: Callable[[Span, Mapping[str, str | bytes]], Awaitable[Any]], context: Context
    ) -> Any:
        metadata: dict[str, str | bytes] = dict(context.invocation_metadata() or ())
        call_context.set_time_remaining(context.time_remaining())
        with self._border.span(self._method, metadata) as span:
            try:
                return await work(span, metadata)
            except asyncio.CancelledError as cancelled:
                if _is_being_cancelled():
                    span.set_attribute(genai.RPC_RESPONSE, grpc.StatusCode.CANCELLED.name)
                    raise
                # Nobody cancelled this call: something inside it was. Unanswered, the caller
                # would wait for ever.
                error = self._border.domain_error(cancelled, self._method)
            except grpc.aio.AbortError:
                raise
            except NotImplementedError as missing:
                error = self._unimplemented(missing, context)
            except Exception as broken:
                error = self._border.domain_error(broken, self._method)
            mark_failed(span, error)
            span.set_attribute(genai.RPC_RESPONSE, code_of(error).name)
        return await context.abort_with_status(status_of(error))

    def _unimplemented(self, missing: Exception, context: Context) -> errors.MinaraError:
        if context.code() not in _UNIMPLEMENTED:
            return self._border.domain_error(missing, self._method)
        return errors.InternalError(
            f"{self._method} is not offered here",
            reason=ErrorReason.UNIMPLEMENTED,
            metadata={"method": self._method},
        )


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _first_domain_error(broken: BaseException) -> errors.MinaraError | None:
    if isinstance(broken, errors.MinaraError):
        return broken
    if isinstance(broken, BaseExceptionGroup):
        for inner in broken.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - a group of anything
            found = _first_domain_error(inner)  # pyright: ignore[reportUnknownArgumentType] - see above
            if found is not None:
                return found
    return None


def _bind_ids(request: Message | None, metadata: Mapping[str, str | bytes], span: Span) -> None:
    context = getattr(request, "context", None)
    request_id = metadata.get(REQUEST_ID_KEY, "")
    turn_id: str = getattr(context, "turn_id", "")
    session_id: str = getattr(context, "session_id", "")
    logging.bind(
        request_id=request_id[:_ID_CHARACTERS] if isinstance(request_id, str) else "",
        turn_id=turn_id,
        session_id=session_id,
    )
    if turn_id:
        span.set_attribute(genai.TURN_ID, turn_id)
        span.set_attribute(genai.SESSION_ID, session_id)
