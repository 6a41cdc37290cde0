"""What an adapter keeps with an assistant message, for itself alone.

It is opaque to everybody else, and dropped when another provider reads the transcript.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from minara_core.messages import Message
from minara_core.tooling import dump_json
from minara_llm.clean_text import cleaned_json

_SYNTHETIC = re.compile(r"call_m\d+c\d+")


def dump_state(provider: str, model: str, body: Mapping[str, Any]) -> str:
    """The state of a message that `model` of `provider` wrote, in text that every store takes."""
    return dump_json(cleaned_json({"provider": provider, "model": model, **body}))


def load_state(message: Message, provider: str) -> dict[str, Any] | None:
    """The state this provider kept; None for a foreign, missing or broken one."""
    if not message.provider_state:
        return None
    try:
        state: Any = json.loads(message.provider_state)
    except (ValueError, RecursionError):
        return None
    if not isinstance(state, dict):
        return None
    known = cast("dict[str, Any]", state)
    return known if known.get("provider") == provider else None


def synthetic_id(place: int, index: int) -> str:
    """An id for a call another provider made: the same each time the transcript is sent."""
    return f"call_m{place}c{index}"


class UsedIds:
    """The ids that one request has used so far, taken message by message in their order: so that
    what an earlier message has does not change when later ones follow."""

    def __init__(self, form: re.Pattern[str]) -> None:
        self._form = form
        self._used: set[str] = set()

    def keeps(self, own: Sequence[object]) -> bool:
        """Whether a message may be sent with these ids of its provider's: the API takes each of
        them, and none came before. If so, they are used."""
        found = {each for each in own if isinstance(each, str) and self._is_good(each)}
        is_good = len(found) == len(own) and self._used.isdisjoint(found)
        if is_good:
            self._used |= found
        return is_good

    def _is_good(self, own: str) -> bool:
        return bool(self._form.fullmatch(own)) and not _SYNTHETIC.fullmatch(own)
