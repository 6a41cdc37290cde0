"""Requests to the paper venue: RFC 8785 JSON that is signed with HMAC-SHA256 for a few seconds."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta

from minara_core.actions import ResolvedOrder
from minara_core.clock import Clock
from minara_core.errors import InvalidRequest
from minara_tools.domain.action_json import (
    JsonObject,
    canonical_json,
    order_from_json,
    order_to_json,
    read_json,
)
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import VenueRequest

REQUEST_VALIDITY = timedelta(seconds=5)
CLOCK_LEEWAY = timedelta(seconds=1)
"""How far ahead of the venue's clock a request may have been signed."""

REQUEST_EXPIRED = "REQUEST_EXPIRED"
SIGNATURE_INVALID = "SIGNATURE_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a request was signed, and until when it may be taken."""

    sign_time: datetime
    not_after: datetime

    def is_late(self, now: datetime) -> bool:
        return now > self.not_after

    def is_early(self, now: datetime) -> bool:
        return self.sign_time > now + CLOCK_LEEWAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A request as the venue reads it. `order_json` is what a client id stands for: the same text
    is the same move, whenever it was signed."""

    order: ResolvedOrder
    order_json: str
    client_order_id: str
    window: Window


def sign(secret: bytes, body: str) -> str:
    """The signature of `body`, in hex."""
    return hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()


def check_signature(secret: bytes, body: str, signature: str) -> None:
    """Raises ToolFailed (SIGNATURE_INVALID)."""
    if not hmac.compare_digest(sign(secret, body).encode(), signature.encode()):
        raise ToolFailed(SIGNATURE_INVALID, "the request is not signed by a client of this venue")


def signed_body(content: JsonObject, now: datetime) -> str:
    """`content` with its sign time and the end of its validity."""
    window = {"sign_time": _text(now), "not_after": _text(now + REQUEST_VALIDITY)}
    return canonical_json(content | window)


def build_request(
    secret: bytes, order: ResolvedOrder, client_order_id: str, clock: Clock
) -> VenueRequest:
    """The request for a move, signed now. Raises InvalidRequest for a NaN in it."""
    now, deadline = clock.now(), clock.monotonic() + REQUEST_VALIDITY.total_seconds()
    content: JsonObject = {"client_order_id": client_order_id, "order": order_to_json(order)}
    body = signed_body(content, now)
    return VenueRequest(
        kind=order.kind,
        account=order.account,
        client_order_id=client_order_id,
        body=body,
        signature=sign(secret, body),
        sign_time=now,
        not_after=now + REQUEST_VALIDITY,
        deadline=deadline,
    )


def check_deadline(request: VenueRequest, clock: Clock) -> None:
    """Raises ToolFailed (REQUEST_EXPIRED) when the request may no longer leave."""
    if request.deadline is not None and clock.monotonic() > request.deadline:
        raise ToolFailed(REQUEST_EXPIRED, "the request was not sent within its validity")


def read_move(secret: bytes, body: str, signature: str) -> Move:
    """Raises ToolFailed (SIGNATURE_INVALID); InvalidRequest for what no client of ours writes."""
    check_signature(secret, body, signature)
    try:
        content = read_json(body)
        order_json: JsonObject = content["order"]
        return Move(
            order=order_from_json(order_json),
            order_json=canonical_json(order_json),
            client_order_id=str(content["client_order_id"]),
            window=read_window(content),
        )
    except (KeyError, ValueError, TypeError, ArithmeticError) as error:
        raise InvalidRequest("this is no request of the paper venue") from error


def stored_order(order_json: str) -> ResolvedOrder:
    """The order of a `Move.order_json`."""
    return order_from_json(read_json(order_json))


def read_window(content: JsonObject) -> Window:
    return Window(
        sign_time=datetime.fromisoformat(content["sign_time"]),
        not_after=datetime.fromisoformat(content["not_after"]),
    )


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
