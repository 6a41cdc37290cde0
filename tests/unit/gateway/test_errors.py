"""Every domain error is a problem document with the status of the design's table."""

import json

import pytest

from minara_core import errors
from minara_core.reasons import ErrorReason
from minara_gateway.errors import problem

TABLE = [
    (errors.InvalidRequest("x"), 400),
    (errors.TooLarge("x"), 413),
    (errors.NotAuthenticated("x"), 401),
    (errors.NotPermitted("x"), 403),
    (errors.NotFound("x"), 404),
    (errors.AlreadyExists("x"), 409),
    (errors.Conflict("x"), 409),
    (errors.NotReady("x"), 400),
    (errors.LimitExceeded("x"), 429),
    (errors.EventsLost("x"), 410),
    (errors.Unavailable("x"), 503),
    (errors.DeadlineExceeded("x"), 504),
    (errors.Cancelled("x"), 499),
    (errors.InternalError("x"), 500),
    (errors.InvalidRequest("x", reason=ErrorReason.CONTENT_TYPE_UNSUPPORTED), 415),
]


@pytest.mark.parametrize(("error", "status"), TABLE)
def test_the_status_fits_the_error(error: errors.MinaraError, status: int) -> None:
    response = problem(error, instance="/v1/x")
    body = json.loads(bytes(response.body))
    assert response.status_code == body["status"] == status
    assert response.media_type == "application/problem+json"
    assert body["reason"] == error.reason
    assert body["type"].startswith("urn:minara:problem:")


def test_a_limit_says_when_to_come_back() -> None:
    error = errors.LimitExceeded("slow down", metadata={"retry_after_seconds": "7"})
    assert problem(error).headers["retry-after"] == "7"
