"""What stands before every question: the key, and the list of models."""

import hmac
from collections.abc import Sequence

from minara_llm.wire.bodies import Api, Body, Refusal, Refused, as_body, dump, invalid, require
from minara_llm.wire.http import Seen
from minara_llm.wire.models import WireModel

_DATE = "2026-01-01T00:00:00Z"
_SECONDS = 1_767_225_600
_MOST_BYTES = 32 * 1024 * 1024
_NO_JSON = "The request body is not valid JSON"


def check_key(seen: Seen, api: Api, api_key: str) -> None:
    """Raises Refused with a 401 for a missing key, and for any but `api_key` if that is not
    empty."""
    bearer = seen.headers.get("authorization", "")
    given = bearer.removeprefix("Bearer ").strip()
    if api is Api.MESSAGES:
        given = seen.headers.get("x-api-key", "") or given
    is_right = hmac.compare_digest(given.encode(), api_key.encode()) if api_key else bool(given)
    if not is_right:
        raise Refused(_wrong_key(api, is_missing=not given))
    if api is Api.MESSAGES:
        require("anthropic-version" in seen.headers, "anthropic-version: header is required")


def read_body(seen: Seen) -> Body:
    """Raises Refused for too much of it, for what is no JSON object, and for half a character."""
    if len(seen.body) > _MOST_BYTES:
        raise Refused(
            Refusal(
                status=413,
                kind="request_too_large",
                message="Request exceeds the maximum allowed number of bytes.",
            )
        )
    try:
        value = seen.json
        dump(value).encode()
    except UnicodeEncodeError:
        raise invalid(f"{_NO_JSON}: no low surrogate in string") from None
    except (ValueError, RecursionError):
        raise invalid(_NO_JSON) from None
    return as_body(value, "body")


def model_list(api: Api, models: Sequence[WireModel]) -> Body:
    """The models, as the API's provider lists them."""
    if api is Api.MESSAGES:
        named = [model for model in models if model.name.startswith("claude")]
        entries: list[Body] = [
            {
                "type": "model",
                "id": model.name,
                "display_name": model.name.replace("-", " ").title(),
                "created_at": _DATE,
                "lifecycle": "active",
                "max_input_tokens": model.context_window,
                "max_tokens": model.max_output,
            }
            for model in named
        ]
        return {
            "data": entries,
            "has_more": False,
            "first_id": entries[0]["id"] if entries else None,
            "last_id": entries[-1]["id"] if entries else None,
        }
    return {
        "object": "list",
        "data": [
            {"id": model.name, "object": "model", "created": _SECONDS, "owned_by": "wire"}
            for model in models
            if not model.name.startswith("claude")
        ],
    }


def _wrong_key(api: Api, *, is_missing: bool) -> Refusal:
    if api is Api.MESSAGES:
        message = "x-api-key header is required" if is_missing else "invalid x-api-key"
        return Refusal(status=401, kind="authentication_error", message=message)
    if is_missing:
        return Refusal(
            status=401,
            kind="invalid_request_error",
            message="You didn't provide an API key.",
        )
    return Refusal(
        status=401,
        kind="invalid_request_error",
        message="Incorrect API key provided.",
        code="invalid_api_key",
    )
