"""A transcript as every provider's rules want it, before it takes a provider's form.

Providers refuse a call without its result, a result without its call, and an empty text. A crash,
a compaction or another provider may leave any of them in a history; the session must go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.tooling import err, ok

LOST_RESULT = err("NO_RESULT: the call was interrupted; what came of it is not known here")
_NOTHING = ok(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What is sent as the result of one call."""

    envelope: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One assistant message, and what was said until the next.

    `reply` is None before the first one, and has text or calls otherwise; `place` is where it is
    in the transcript. `results` has one result per call of `reply`, in the order of the calls.
    `said` are the messages of the person and of ours, as they came.
    """

    place: int
    reply: Message | None
    results: tuple[CallResult, ...]
    said: tuple[Message, ...]


def stretches(messages: Sequence[Message]) -> list[Stretch]:
    """The transcript cut before every assistant message that says something.

    A result without a call in its stretch is dropped, a second one for a call too; a call without a
    result gets one that says so.
    """
    starts = [place for place, message in enumerate(messages) if _speaks(message)]
    cuts = [*starts, len(messages)]
    found: list[Stretch] = []
    if cuts[0]:
        found.append(_stretch(0, None, messages[: cuts[0]]))
    for start, end in pairwise(cuts):
        found.append(_stretch(start, messages[start], messages[start + 1 : end]))
    return found


def _speaks(message: Message) -> bool:
    return message.role is Role.ASSISTANT and bool(message.text.strip() or message.tool_calls)


def _stretch(place: int, reply: Message | None, rest: Sequence[Message]) -> Stretch:
    given: dict[str, CallResult] = {}
    for message in rest:
        for block in message.blocks:
            if isinstance(block, ToolResultBlock) and block.tool_call_id not in given:
                envelope = block.envelope if block.envelope.strip() else _NOTHING
                given[block.tool_call_id] = CallResult(envelope=envelope, is_error=block.is_error)
    lost = CallResult(envelope=LOST_RESULT, is_error=True)
    calls = reply.tool_calls if reply else ()
    return Stretch(
        place=place,
        reply=reply,
        results=tuple(given.get(call.tool_call_id, lost) for call in calls),
        said=tuple(message for message in rest if message.role in {Role.USER, Role.CONTEXT}),
    )
