"""Text that any provider, wire and store can take: Unicode without surrogates and without NUL.

JSON can write both, a model or a tool result may hold either, and one of them in a request would
break its encoding, or the session that replays it.
"""

import json
import math
import re
from typing import Any, cast

_BROKEN = re.compile("[\x00\ud800-\udfff]")
_DEEPEST = 64
"""How far values may lie inside of each other; encoders give up far beyond it."""

_UNSAFE_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def cleaned(text: str) -> str:
    """The text with surrogate pairs joined; a lone surrogate or a NUL becomes U+FFFD."""
    # Most text is plain, and a file's is long: this is far quicker than to search it.
    if text.isascii() and "\0" not in text:
        return text
    if not _BROKEN.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", "\ufffd")


def cleaned_json(value: Any) -> Any:
    """The same for every text and every name inside of a JSON value."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, list):
        return [cleaned_json(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {cleaned(name): cleaned_json(each) for name, each in fields.items()}
    return value


def parsed_object(arguments_json: str) -> dict[str, Any] | None:
    """A call's arguments as an object that can be sent; None when they are no such thing."""
    try:
        value: Any = json.loads(arguments_json, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not _is_shallow(value):
        return None
    return cast("dict[str, Any]", cleaned_json(value))


def is_json(text: str) -> bool:
    """Whether the text is one whole JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def wire_name(tool: str) -> str:
    """A tool's name as every provider takes it: a model may have called what does not exist."""
    return _UNSAFE_NAME.sub("_", tool)[:_LONGEST_NAME] or "_"


class PairJoiner:
    """Cleans a text that comes in parts: a surrogate pair may be cut in two."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, part: str) -> str:
        """What may be told now; half a pair at the end waits for its other half."""
        text = self._held + part
        is_half = bool(text) and "\ud800" <= text[-1] <= "\udbff"
        self._held = text[-1] if is_half else ""
        return cleaned(text[:-1] if is_half else text)

    def rest(self) -> str:
        """What still waits when no part follows."""
        held, self._held = self._held, ""
        return cleaned(held)


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(number)
    return value


def _is_shallow(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return True
    return False


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
