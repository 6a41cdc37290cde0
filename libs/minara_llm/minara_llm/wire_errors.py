"""Providers' failures in our words."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from minara_llm.model import FailureKind, ModelFailure

_OVERFLOW = re.compile(
    r"prompt is too long|context[ _-]?(?:window|length|limit)|maximum context"
    r"|too many (?:input )?tokens|input (?:is )?too long|reduce the length",
    re.IGNORECASE,
)
_BY_NAME = MappingProxyType(
    {
        "overloaded_error": FailureKind.OVERLOADED,
        "overloaded": FailureKind.OVERLOADED,
        "api_error": FailureKind.OVERLOADED,
        "server_error": FailureKind.OVERLOADED,
        "internal_server_error": FailureKind.OVERLOADED,
        "service_unavailable": FailureKind.OVERLOADED,
        "rate_limit_error": FailureKind.RATE_LIMITED,
        "rate_limit_exceeded": FailureKind.RATE_LIMITED,
        "timeout_error": FailureKind.TIMEOUT,
        "authentication_error": FailureKind.AUTHENTICATION,
        "invalid_api_key": FailureKind.AUTHENTICATION,
        "permission_error": FailureKind.AUTHENTICATION,
        "billing_error": FailureKind.AUTHENTICATION,
        "insufficient_quota": FailureKind.AUTHENTICATION,
        "request_too_large": FailureKind.CONTEXT_OVERFLOW,
        "context_length_exceeded": FailureKind.CONTEXT_OVERFLOW,
    }
)
_BY_STATUS = MappingProxyType(
    {
        401: FailureKind.AUTHENTICATION,
        402: FailureKind.AUTHENTICATION,
        403: FailureKind.AUTHENTICATION,
        408: FailureKind.TIMEOUT,
        413: FailureKind.CONTEXT_OVERFLOW,
        429: FailureKind.RATE_LIMITED,
        504: FailureKind.TIMEOUT,
    }
)
_SENTENCES = MappingProxyType(
    {
        FailureKind.RATE_LIMITED: "has had too many requests",
        FailureKind.OVERLOADED: "is overloaded or broken",
        FailureKind.TIMEOUT: "did not answer in time",
        FailureKind.CONNECTION: "could not be reached, or hung up",
        FailureKind.CONTEXT_OVERFLOW: "was sent more than its model can read",
        FailureKind.AUTHENTICATION: "does not accept the key, or the account behind it",
        FailureKind.BAD_REQUEST: "refused the request",
        FailureKind.MALFORMED_STREAM: "sent an answer that ends early or cannot be read",
    }
)


def kind_of(*, status: int | None, names: tuple[str | None, ...], text: str) -> FailureKind:
    """What a provider's error means, by the names it gives, then its words, then its status."""
    for name in names:
        if not name:
            continue
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name.isdecimal() and len(name) == len("429"):
            status = int(name)
    if _OVERFLOW.search(text) and (status is None or status < 500):
        return FailureKind.CONTEXT_OVERFLOW
    if status is None or status >= 500:
        return _BY_STATUS.get(status or 0, FailureKind.OVERLOADED)
    return _BY_STATUS.get(status, FailureKind.BAD_REQUEST)


def failure(
    provider: str,
    kind: FailureKind,
    *,
    detail: str = "",
    retry_after_seconds: float | None = None,
) -> ModelFailure:
    """The failure to raise. `detail` is the provider's own words, which never hold the prompt."""
    return ModelFailure(
        f"{provider} {_SENTENCES[kind]}",
        kind=kind,
        retry_after_seconds=retry_after_seconds,
        metadata={"provider": provider, **({"detail": detail[:300]} if detail else {})},
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after`; None without one, or for a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", value, re.ASCII):
            return float(value) * unit
    return None
