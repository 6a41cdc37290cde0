"""Domain errors as gRPC statuses and back; nobody else touches a status."""

from collections.abc import Mapping
from types import MappingProxyType

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2 as details_pb
from google.rpc import status_pb2 as status_pb
from grpc_status import rpc_status

from minara_core import errors
from minara_core.reasons import ErrorReason

DOMAIN = "minara"
"""`google.rpc.ErrorInfo.domain` of every error we send."""

_DETAILS_KEY = "grpc-status-details-bin"
# Trailers over 8 KiB are refused by peers; a character may take nine bytes in them.
_MESSAGE_CHARACTERS = 400
_VALUE_CHARACTERS = 200
_METADATA_ENTRIES = 12

_CODES: Mapping[type[errors.MinaraError], grpc.StatusCode] = MappingProxyType(
    {
        errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
        errors.TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
        errors.NotAuthenticated: grpc.StatusCode.UNAUTHENTICATED,
        errors.NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
        errors.NotFound: grpc.StatusCode.NOT_FOUND,
        errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
        errors.Conflict: grpc.StatusCode.ABORTED,
        errors.NotReady: grpc.StatusCode.FAILED_PRECONDITION,
        errors.LimitExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.EventsLost: grpc.StatusCode.OUT_OF_RANGE,
        errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
        errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
        errors.Cancelled: grpc.StatusCode.CANCELLED,
        errors.InternalError: grpc.StatusCode.INTERNAL,
    }
)
_CLASSES: Mapping[grpc.StatusCode, type[errors.MinaraError]] = MappingProxyType(
    {code: kind for kind, code in _CODES.items() if kind is not errors.TooLarge}
)
_TOO_LARGE = frozenset({ErrorReason.MESSAGE_TOO_LARGE, ErrorReason.BODY_TOO_LARGE})
_REASONS = frozenset(ErrorReason)


def code_of(error: errors.MinaraError) -> grpc.StatusCode:
    """The status code of an error, by the nearest class of the tree (architecture.md §9)."""
    if error.reason is ErrorReason.UNIMPLEMENTED:
        return grpc.StatusCode.UNIMPLEMENTED
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return grpc.StatusCode.INTERNAL


def status_of(error: errors.MinaraError) -> grpc.Status:
    """The status that carries an error's reason and metadata as `google.rpc.ErrorInfo`."""
    info = details_pb.ErrorInfo(
        reason=error.reason,
        domain=DOMAIN,
        metadata={
            name: value[:_VALUE_CHARACTERS]
            for name, value in list(error.metadata.items())[:_METADATA_ENTRIES]
        },
    )
    detail = AnyMessage()
    detail.Pack(info)
    number: int = code_of(error).value[0]
    return rpc_status.to_status(  # pyright: ignore[reportUnknownMemberType] - its stub is untyped
        status_pb.Status(code=number, message=error.message[:_MESSAGE_CHARACTERS], details=[detail])
    )


def from_status(error: grpc.aio.AioRpcError, *, peer: str = "") -> errors.MinaraError:
    """The domain error that a peer's status stands for.

    A status without our ErrorInfo was made by the transport: its text stays out of the message.
    """
    code = error.code()
    info = _error_info(error)
    if info is None:
        return _transport_error(code, peer)
    reason = ErrorReason(info.reason) if info.reason in _REASONS else None
    metadata = dict(info.metadata)
    message = error.details() or code.name
    if reason in _TOO_LARGE:
        return errors.TooLarge(message, reason=reason, metadata=metadata)
    kind = _CLASSES.get(code, errors.InternalError)
    return kind(message, reason=reason, metadata=metadata)


def _transport_error(code: grpc.StatusCode, peer: str) -> errors.MinaraError:
    metadata = {"peer": peer} if peer else {}
    name = peer or "the peer"
    if code is grpc.StatusCode.UNAVAILABLE:
        return errors.Unavailable(f"{name} does not answer", metadata=metadata)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded(f"{name} took too long", metadata=metadata)
    if code is grpc.StatusCode.CANCELLED:
        return errors.Cancelled(f"{name} cancelled the call", metadata=metadata)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # The transport limits nothing but sizes; our own limits come with an ErrorInfo.
        return errors.TooLarge(f"the message is too large for {name}", metadata=metadata)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.InternalError(
            f"{name} does not offer this method",
            reason=ErrorReason.UNIMPLEMENTED,
            metadata=metadata,
        )
    return errors.InternalError(f"{name} failed", metadata=metadata | {"code": code.name})


def _error_info(error: grpc.aio.AioRpcError) -> details_pb.ErrorInfo | None:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            return _info_in(value)
    return None


def _info_in(data: bytes) -> details_pb.ErrorInfo | None:
    status = status_pb.Status.FromString(data)
    for detail in status.details:
        info = details_pb.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return info
    return None
