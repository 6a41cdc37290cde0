import grpc
import grpc.aio
import pytest

from minara_core import errors
from minara_core.reasons import ErrorReason
from minara_runtime.error_status import code_of, from_status, status_of


def sent(error: errors.MinaraError) -> grpc.aio.AioRpcError:
    """`error` as it arrives at a caller."""
    status = status_of(error)
    trailing = grpc.aio.Metadata(*(status.trailing_metadata or ()))
    return grpc.aio.AioRpcError(status.code, None, trailing, details=status.details)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidRequest("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.TooLarge("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.NotAuthenticated("x"), grpc.StatusCode.UNAUTHENTICATED),
        (errors.NotPermitted("x"), grpc.StatusCode.PERMISSION_DENIED),
        (errors.NotFound("x"), grpc.StatusCode.NOT_FOUND),
        (errors.AlreadyExists("x"), grpc.StatusCode.ALREADY_EXISTS),
        (errors.Conflict("x"), grpc.StatusCode.ABORTED),
        (errors.NotReady("x"), grpc.StatusCode.FAILED_PRECONDITION),
        (errors.LimitExceeded("x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (errors.EventsLost("x"), grpc.StatusCode.OUT_OF_RANGE),
        (errors.Unavailable("x"), grpc.StatusCode.UNAVAILABLE),
        (errors.DeadlineExceeded("x"), grpc.StatusCode.DEADLINE_EXCEEDED),
        (errors.Cancelled("x"), grpc.StatusCode.CANCELLED),
        (errors.InternalError("x"), grpc.StatusCode.INTERNAL),
        (
            errors.InternalError("x", reason=ErrorReason.UNIMPLEMENTED),
            grpc.StatusCode.UNIMPLEMENTED,
        ),
    ],
)
def test_each_error_has_its_status_and_comes_back(
    error: errors.MinaraError, code: grpc.StatusCode
) -> None:
    assert code_of(error) is code
    back = from_status(sent(error))
    assert type(back) is type(error)
    assert back.reason is error.reason


def test_a_subclass_has_the_status_of_its_parent() -> None:
    class Special(errors.NotFound):
        pass

    assert code_of(Special("x")) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.Unavailable, ErrorReason.PEER_UNAVAILABLE),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded, None),
        (grpc.StatusCode.CANCELLED, errors.Cancelled, None),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.TooLarge, ErrorReason.MESSAGE_TOO_LARGE),
        (grpc.StatusCode.UNIMPLEMENTED, errors.InternalError, ErrorReason.UNIMPLEMENTED),
        (grpc.StatusCode.UNKNOWN, errors.InternalError, ErrorReason.INTERNAL),
        (grpc.StatusCode.DATA_LOSS, errors.InternalError, ErrorReason.INTERNAL),
    ],
)
def test_a_status_of_the_transport_keeps_its_text_to_itself(
    code: grpc.StatusCode, kind: type[errors.MinaraError], reason: ErrorReason | None
) -> None:
    error = grpc.aio.AioRpcError(code, details="connect to 10.0.0.7:50051 failed")
    back = from_status(error, peer="tools")
    assert type(back) is kind
    assert back.reason is (kind.default_reason if reason is None else reason)
    assert "10.0.0.7" not in back.message
    assert back.metadata["peer"] == "tools"


def test_a_reason_this_version_does_not_know_becomes_the_default() -> None:
    error = errors.Conflict("x")
    error.reason = "FROM_THE_FUTURE"  # pyright: ignore[reportAttributeAccessIssue] - on purpose
    assert from_status(sent(error)).reason is ErrorReason.ETAG_MISMATCH


def test_an_error_never_outgrows_the_trailers() -> None:
    metadata = {f"field{number}": "値" * 10_000 for number in range(100)}
    status = status_of(errors.InvalidRequest("あ" * 100_000, metadata=metadata))
    size = sum(len(value) for _, value in status.trailing_metadata or ())
    assert size + 9 * len(status.details) < 16_384
