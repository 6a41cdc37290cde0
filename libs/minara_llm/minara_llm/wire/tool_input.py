"""Arguments of a call as an object, for the APIs that carry one."""

import json
from typing import Any, cast

from minara_llm.wire.bodies import Body


def readable_input(arguments: str) -> Body:
    """The object the text stands for; an empty one for no text and for text that is none."""
    try:
        parsed: Any = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return cast("Body", parsed) if isinstance(parsed, dict) else {}
