"""What stands on a wire where a text or a number belongs, made into one or refused.

Servers send what they like, and the SDKs check nothing: no value of theirs is used before it went
through here, or through code whose errors are UNREADABLE.
"""

from minara_core.events import TokenUsage

UNREADABLE = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What may be raised when foreign JSON is read that has another shape than it should."""

MOST_TOKENS = 2**31 - 1
"""No call counts more; a number above it is a mistake."""

_LONGEST_COUNT = 10


def text_of(value: object) -> str:
    """A text; empty for none. Raises TypeError for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text belongs")
    return value


def id_of(value: object) -> str:
    """An id as it came; empty when there is none that could be sent back."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int and abs(value) <= MOST_TOKENS else ""


def count_of(value: object) -> int | None:
    """A number of tokens, from 0 to MOST_TOKENS; None when it is missing or is no such number.

    Some servers count in floats or in digits of a string.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, str) and len(value) <= _LONGEST_COUNT and value.isascii():
        value = int(value) if value.isdecimal() else None
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        return None
    return value


def usage_of(
    *, input_tokens: object, output_tokens: object, read: object, written: object
) -> TokenUsage:
    """Usage of whatever was counted. `input_tokens` are all, of which some were `read` from the
    cache and others `written` to it; what is no count counts nothing."""
    whole = count_of(input_tokens) or 0
    from_cache = min(count_of(read) or 0, whole)
    return TokenUsage(
        input_tokens=whole,
        output_tokens=count_of(output_tokens) or 0,
        cache_read_tokens=from_cache,
        cache_write_tokens=min(count_of(written) or 0, whole - from_cache),
    )
