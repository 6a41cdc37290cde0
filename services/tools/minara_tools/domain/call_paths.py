"""Ids of tool calls: `<step>.<index>` in the turn itself, a path of such pairs in a sub-agent."""

import re

from minara_core.ids import ToolCallId

DEEPEST = 2
"""Sub-agents inside of each other; the calls of one at this depth have ids of three pairs."""

_PAIR = r"(?:0|[1-9][0-9]{0,5})\.(?:0|[1-9][0-9]{0,5})"
_PATH = re.compile(rf"{_PAIR}(?:/{_PAIR}){{0,{DEEPEST}}}")


def is_call_path(text: str) -> bool:
    """Whether a caller may name a call so. One id has one spelling: no leading zeros."""
    return _PATH.fullmatch(text) is not None


def depth(call_id: ToolCallId) -> int:
    """0 for a call of the turn itself, 1 for its sub-agent's, 2 for that one's own sub-agent's."""
    return call_id.count("/")
