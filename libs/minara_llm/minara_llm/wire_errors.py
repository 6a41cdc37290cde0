"""Providers' failures in our words."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from minara_llm.clean_text import cleaned
from minara_llm.model import FailureKind, ModelFailure

_OVERFLOW = re.compile(
    r"prompt (?:is )?too long|context[ _-]?(?:window|length|limit|size)|maximum (?:prompt|context)"
    r"|too many (?:input )?tokens|input (?:is )?too long|reduce the length|exceed_context"
    r"|exceeds? the maximum number of tokens|tokens to keep from the initial prompt",
    re.IGNORECASE,
)
"""How Anthropic, OpenAI, xAI, OpenRouter and those behind it, Ollama, llama.cpp, vLLM and LM Studio
say that a prompt does not fit."""

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
        "exceed_context_size_error": FailureKind.CONTEXT_OVERFLOW,
        "invalid_prompt": FailureKind.BAD_REQUEST,
        "bio_policy": FailureKind.BAD_REQUEST,
        "misalignment_policy_violation": FailureKind.BAD_REQUEST,
        "data_residency_mismatch": FailureKind.BAD_REQUEST,
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


def kind_of(*, status: int | None, names: tuple[object, ...], text: str) -> FailureKind:
    """What a provider's error means, by the names it gives, then its words, then its status. Some
    servers give numbers for names."""
    known = [str(name) for name in names if isinstance(name, str | int) and name]
    for name in known:
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name.isdecimal() and len(name) == len("429"):
            status = int(name)
    # A rate limit may speak of too many tokens too: those of the last minute.
    if _OVERFLOW.search(text) and (status is None or (status < 500 and status != 429)):
        return FailureKind.CONTEXT_OVERFLOW
    if status is None:
        is_about_image = any("image" in name for name in known)
        return FailureKind.BAD_REQUEST if is_about_image else FailureKind.OVERLOADED
    if status >= 500:
        return _BY_STATUS.get(status, FailureKind.OVERLOADED)
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
        metadata={"provider": provider, **({"detail": cleaned(detail[:300])} if detail else {})},
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after`, which may be a date: then from the answer's
    own `date`, for no other clock is known to agree. None without one, or for a date alone."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", value, re.ASCII):
            return float(value) * unit
    until, now = _date(headers, "retry-after"), _date(headers, "date")
    if until is None or now is None:
        return None
    return max(0.0, (until - now).total_seconds())


def _date(headers: Mapping[str, str], name: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(headers.get(name, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
