"""Where Anthropic's cache breakpoints go in a request.

They are not part of what is cached and may move from request to request. The provider looks at each
marked block, and at some 20 before it, for the end of a request that it has read before.
"""

from collections.abc import Sequence
from typing import Any

from minara_llm.model import SystemBlock

_MOST_BREAKPOINTS = 4
_LOOK_BACK = 15
"""Blocks from one breakpoint to the next."""

_FARTHEST = 2 * _LOOK_BACK
"""As far as one more breakpoint, that many blocks before the last, surely reaches."""

_CACHEABLE = frozenset({"text", "tool_use", "tool_result", "image", "document"})
"""Blocks that may carry a breakpoint; thinking may not."""

Body = dict[str, Any]


def system_blocks(told: Sequence[SystemBlock]) -> tuple[list[Body], list[Body]]:
    """The system prompt without its empty blocks, and the ends of its cached parts."""
    sent: list[Body] = []
    ends: list[Body] = []
    for block in told:
        if block.text.strip():
            sent.append({"type": "text", "text": block.text})
        if block.ends_cached_part and sent and not (ends and ends[-1] is sent[-1]):
            ends.append(sent[-1])
    return sent, ends


def set_breakpoints(ends: Sequence[Body], messages: Sequence[Body]) -> None:
    """Mark the parts of the prefix, the request's end, and one block in between when more was added
    since the request before than the provider looks back: 15 before the end, or that request's own
    end when even this is too far."""
    flat: list[Body] = [block for message in messages for block in message["content"]]
    added = _added(messages)
    marks = _last_cacheable(flat)
    if added > _FARTHEST:
        marks += _last_cacheable(flat[:-added])
    elif added > _LOOK_BACK:
        marks += _last_cacheable(flat[:-_LOOK_BACK])
    for block in [*ends[-(_MOST_BREAKPOINTS - len(marks)) :], *marks]:
        block["cache_control"] = {"type": "ephemeral"}


def _added(messages: Sequence[Body]) -> int:
    """How many blocks stand behind the end of the request before: the reply, and what followed."""
    count = 0
    for message in reversed(messages):
        count += len(message["content"])
        if message["role"] == "assistant":
            return count
    return 0


def _last_cacheable(blocks: Sequence[Body]) -> list[Body]:
    found = next((block for block in reversed(blocks) if block["type"] in _CACHEABLE), None)
    return [] if found is None else [found]
