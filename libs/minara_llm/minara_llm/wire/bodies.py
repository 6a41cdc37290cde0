"""JSON bodies as they are read and written here, and the refusals that providers answer with."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

Body = dict[str, Any]


class Api(StrEnum):
    """The three ways of asking a model."""

    MESSAGES = "messages"
    CHAT = "chat"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error body before it takes its provider's shape. `code` and `param` are OpenAI's."""

    status: int
    kind: str
    message: str
    code: str | None = None
    param: str | None = None


class Refused(Exception):
    """The request is refused as the provider would."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def invalid(message: str, *, code: str | None = None, param: str | None = None) -> Refused:
    """A 400 that names the place."""
    return Refused(
        Refusal(status=400, kind="invalid_request_error", message=message, code=code, param=param)
    )


def require(
    is_so: bool, message: str, *, code: str | None = None, param: str | None = None
) -> None:
    """Raises Refused with a 400 unless `is_so`."""
    if not is_so:
        raise invalid(message, code=code, param=param)


def error_body(api: Api, refusal: Refusal) -> Body:
    """As the API's provider writes it."""
    if api is Api.MESSAGES:
        return {
            "type": "error",
            "error": {"type": refusal.kind, "message": refusal.message},
            "request_id": "req_wire",
        }
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.kind,
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def dump(value: Any) -> str:
    """Compact JSON in the order given; the text stands as it is, not escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_body(value: Any, place: str) -> Body:
    """Raises Refused unless it is an object."""
    if not isinstance(value, dict):
        raise invalid(f"{place}: Input should be a valid dictionary", param=place)
    return cast("Body", value)


def as_list(value: Any, place: str) -> list[Any]:
    """Raises Refused unless it is an array."""
    if not isinstance(value, list):
        raise invalid(f"{place}: Input should be a valid list", param=place)
    return cast("list[Any]", value)


def as_bodies(value: Any, place: str) -> list[Body]:
    """An array of objects."""
    return [as_body(item, f"{place}.{n}") for n, item in enumerate(as_list(value, place))]


def as_text(value: Any, place: str) -> str:
    """Raises Refused unless it is a string."""
    if not isinstance(value, str):
        raise invalid(f"{place}: Input should be a valid string", param=place)
    return value


def as_count(value: Any, place: str) -> int:
    """Raises Refused unless it is a whole number; a boolean is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(f"{place}: Input should be a valid integer", param=place)
    return value


def inner(body: Body, name: str) -> Body:
    """The object of this name; an empty one for none."""
    value = body.get(name)
    return cast("Body", value) if isinstance(value, dict) else {}


def listed(body: Body, name: str) -> list[Body]:
    """The objects of this name; none for no array."""
    value = body.get(name)
    return cast("list[Body]", value) if isinstance(value, list) else []


def words(text: str) -> frozenset[str]:
    """Names, as a sentence."""
    return frozenset(text.split())
