"""Domain errors as RFC 9457 problem documents; `reason` is the gRPC ErrorInfo reason."""

import json

from starlette.responses import Response

from minara_core.errors import (
    AlreadyExists,
    Cancelled,
    Conflict,
    DeadlineExceeded,
    EventsLost,
    InvalidRequest,
    LimitExceeded,
    MinaraError,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    NotReady,
    TooLarge,
    Unavailable,
)
from minara_core.reasons import ErrorReason

_STATUS: tuple[tuple[type[MinaraError], int, str], ...] = (
    (TooLarge, 413, "Too large"),
    (InvalidRequest, 400, "Invalid request"),
    (NotAuthenticated, 401, "Not authenticated"),
    (NotPermitted, 403, "Not permitted"),
    (NotFound, 404, "Not found"),
    (AlreadyExists, 409, "Already exists"),
    (Conflict, 409, "Conflict"),
    (NotReady, 400, "Not ready"),
    (LimitExceeded, 429, "Limit exceeded"),
    (EventsLost, 410, "Events lost"),
    (Unavailable, 503, "Unavailable"),
    (DeadlineExceeded, 504, "Deadline exceeded"),
    (Cancelled, 499, "Cancelled"),
)
_STATUS_BY_REASON: tuple[tuple[ErrorReason, int], ...] = (
    (ErrorReason.CONTENT_TYPE_UNSUPPORTED, 415),
    (ErrorReason.CONTEXT_TOO_LARGE, 413),
)


def status_of(error: MinaraError) -> tuple[int, str]:
    """HTTP status and title of an error; 500 for anything unforeseen."""
    for kind, status, title in _STATUS:
        if isinstance(error, kind):
            special = dict(_STATUS_BY_REASON).get(error.reason)
            return (special or status), title
    return 500, "Internal error"


def problem(error: MinaraError, *, instance: str = "") -> Response:
    """The problem document of an error."""
    status, title = status_of(error)
    body: dict[str, object] = {
        "type": f"urn:minara:problem:{error.reason.lower().replace('_', '-')}",
        "title": title,
        "status": status,
        "detail": error.message,
        "reason": error.reason,
        "metadata": error.metadata,
    }
    if instance:
        body["instance"] = instance
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if (retry_after := error.metadata.get("retry_after_seconds")) is not None:
        headers["Retry-After"] = retry_after
    return Response(
        json.dumps(body, ensure_ascii=False),
        status_code=status,
        media_type="application/problem+json",
        headers=headers,
    )
