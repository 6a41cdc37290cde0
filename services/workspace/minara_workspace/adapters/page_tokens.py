"""Opaque page tokens: where a list goes on. They hold places, no rights."""

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from minara_core.errors import InvalidRequest

_LONGEST_NUMBER = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    name: str
    time: datetime

    @property
    def number(self) -> int:
        """`name` as a place in a numbered list. Raises InvalidRequest when it is none."""
        if not self.name.isdecimal() or len(self.name) > _LONGEST_NUMBER:
            raise _foreign()
        return int(self.name)


def encode_token(name: str, time: datetime) -> str:
    text = json.dumps([name, time.isoformat()])
    return base64.urlsafe_b64encode(text.encode()).decode("ascii")


def decode_token(token: str) -> Place | None:
    """None for an empty token. Raises InvalidRequest for one that we did not make."""
    if not token:
        return None
    try:
        name, time = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
        place = Place(name=str(name), time=datetime.fromisoformat(time))
    except (ValueError, TypeError) as error:
        raise _foreign() from error
    if place.time.utcoffset() != timedelta(0):
        raise _foreign()
    return place


def _foreign() -> InvalidRequest:
    return InvalidRequest("this page_token is not ours", metadata={"field": "page_token"})
