"""What the offline model reads of a conversation: the newest message, and what came of it since."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.tooling import ToolCall
from minara_core.untrusted import unwrap
from minara_llm.offline.steps import PlannedCall

_DECIDED = re.compile(r'<block name="decided_action">(.*?)</block>', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A tool call with its result. `is_told`: a later message of the model speaks already."""

    name: str
    arguments: Mapping[str, Any]
    envelope: str
    is_told: bool

    def answers(self, planned: PlannedCall) -> bool:
        """Whether it is the planned call, whatever else its arguments say."""
        return self.name == planned.name and all(
            str(self.arguments.get(key, "")).casefold() == str(value).casefold()
            for key, value in planned.arguments.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineTurn:
    """What the newest user message began. `decided` is the text of a decided action, if one is to
    be told; `has_spoken`: the model has said something to it."""

    text: str
    made: tuple[MadeCall, ...]
    decided: str
    has_spoken: bool


def read_turn(messages: Sequence[Message]) -> OfflineTurn:
    """The turn that the newest user message began; an empty one where nobody said anything."""
    start = _last_user(messages)
    since = messages[start + 1 :]
    spoken = [
        index
        for index, message in enumerate(since)
        if message.role is Role.ASSISTANT and message.text.strip()
    ]
    last = max(spoken, default=-1)
    return OfflineTurn(
        text=messages[start].text if start >= 0 else "",
        made=tuple(_made(since, last)),
        decided=_decided(since),
        has_spoken=bool(spoken),
    )


def _last_user(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.USER:
            return index
    return -1


def _made(since: Sequence[Message], last_spoken: int) -> Iterator[MadeCall]:
    calls: dict[str, ToolCall] = {}
    for index, message in enumerate(since):
        calls |= {call.tool_call_id: call for call in message.tool_calls}
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                call = calls.get(block.tool_call_id)
                yield MadeCall(
                    name=call.name if call else "tool",
                    arguments=_arguments(call.arguments_json) if call else {},
                    envelope=unwrap(block.envelope),
                    is_told=index < last_spoken,
                )


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", loaded) if isinstance(loaded, dict) else {}


def _decided(messages: Sequence[Message]) -> str:
    """The newest decided_action block; only context messages, which are ours, can hold one."""
    for message in reversed(messages):
        found = _DECIDED.findall(message.text) if message.role is Role.CONTEXT else []
        if found:
            return found[-1]
    return ""
