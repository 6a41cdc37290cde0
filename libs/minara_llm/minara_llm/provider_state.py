"""What an adapter keeps with an assistant message, for itself alone.

It is opaque to everybody else, and dropped when another provider reads the transcript.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from minara_core.messages import Message
from minara_core.tooling import dump_json


def dump_state(provider: str, model: str, body: Mapping[str, Any]) -> str:
    """The state of a message that `model` of `provider` wrote."""
    return dump_json({"provider": provider, "model": model, **body})


def load_state(message: Message, provider: str) -> dict[str, Any] | None:
    """The state this provider kept; None for a foreign, missing or broken one."""
    if not message.provider_state:
        return None
    try:
        state: Any = json.loads(message.provider_state)
    except ValueError:
        return None
    if not isinstance(state, dict):
        return None
    known = cast("dict[str, Any]", state)
    return known if known.get("provider") == provider else None


def synthetic_id(place: int, index: int) -> str:
    """An id for a call another provider made: the same each time the transcript is sent."""
    return f"call_m{place}c{index}"
