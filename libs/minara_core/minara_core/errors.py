"""The error tree. Class names say who should react; nobody but `minara_runtime` sees a status.

MinaraError
├── InvalidRequest       fix the request
│   └── TooLarge         send less
├── NotAuthenticated     stop: nobody knows who is calling
├── NotPermitted         stop: this caller may not
├── NotFound             stop, or name something that exists
├── AlreadyExists        read what exists
├── Conflict             reload, decide, retry the whole operation
├── NotReady             change the state first
├── LimitExceeded        wait
├── EventsLost           start from the stored turn
├── Unavailable          retry reads with back-off
├── DeadlineExceeded     decide; do not blindly retry
├── Cancelled            nothing
└── InternalError        a bug: `reference_id` finds it in the log, the text is not sent
"""

from collections.abc import Mapping
from typing import ClassVar

from minara_core.reasons import ErrorReason


class MinaraError(Exception):
    """A refusal or failure with a reason code.

    `message` is one sentence for a person; `metadata` holds the values it speaks of, as text.
    """

    default_reason: ClassVar[ErrorReason] = ErrorReason.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        reason: ErrorReason | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = self.default_reason if reason is None else reason
        self.metadata: dict[str, str] = dict(metadata or {})


class InvalidRequest(MinaraError):
    default_reason = ErrorReason.REQUEST_INVALID


class TooLarge(InvalidRequest):
    default_reason = ErrorReason.MESSAGE_TOO_LARGE


class NotAuthenticated(MinaraError):
    default_reason = ErrorReason.GRANT_MISSING


class NotPermitted(MinaraError):
    default_reason = ErrorReason.SCOPE_MISSING


class NotFound(MinaraError):
    default_reason = ErrorReason.ROUTE_NOT_FOUND


class AlreadyExists(MinaraError):
    default_reason = ErrorReason.ALREADY_EXISTS


class Conflict(MinaraError):
    default_reason = ErrorReason.ETAG_MISMATCH


class NotReady(MinaraError):
    default_reason = ErrorReason.CATALOG_STALE


class LimitExceeded(MinaraError):
    default_reason = ErrorReason.RATE_LIMITED


class EventsLost(MinaraError):
    default_reason = ErrorReason.EVENTS_LOST


class Unavailable(MinaraError):
    default_reason = ErrorReason.PEER_UNAVAILABLE


class DeadlineExceeded(MinaraError):
    default_reason = ErrorReason.DEADLINE_EXCEEDED


class Cancelled(MinaraError):
    default_reason = ErrorReason.CANCELLED


class InternalError(MinaraError):
    default_reason = ErrorReason.INTERNAL
