"""What was decided in a turn, read out of its messages: a decision it told, previews it left."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from minara_core.ids import SessionId, TurnId, UserId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_workspace.domain.session import TurnRecord

MESSAGE_LENGTH = 500
SUMMARY_LENGTH = 300
MOST_TOOLS = 60
_NAME_LENGTH = 100

# As the prompt holds what came of the decided action: one line of JSON in a block of its own.
_DECIDED = re.compile(
    r'^<block name="decided_action">\n(?P<facts>\{[^\n]*\})\n</block>$', re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A turn that told what came of `decided_action_id`, or parked actions for a person to decide.

    `tool_names` are the tools it called, each once, in order; `message` the beginning of what the
    person said, empty in a turn that only tells; `summary` is one line.
    """

    turn_id: TurnId
    session_id: SessionId
    user_id: UserId
    decided_action_id: str
    parked_action_ids: tuple[str, ...]
    tool_names: tuple[str, ...]
    message: str
    summary: str


def decision_of(record: TurnRecord) -> Decision | None:
    """None for a turn in which nothing was decided or left to decide. Never raises."""
    parked = tuple(_parked(record.messages))
    if not record.decided_action_id and not parked:
        return None
    told = _told(record.messages) if record.decided_action_id else ""
    names = (call.name for message in record.messages for call in message.tool_calls)
    return Decision(
        turn_id=record.turn_id,
        session_id=record.session_id,
        user_id=record.user_id,
        decided_action_id=record.decided_action_id,
        parked_action_ids=tuple(action_id for action_id, _ in parked),
        tool_names=_each_once(_line(name, _NAME_LENGTH) for name in names)[:MOST_TOOLS],
        message=_storable(record.message)[:MESSAGE_LENGTH],
        summary=_line(
            "; ".join(line for line in (told, *(line for _, line in parked)) if line),
            SUMMARY_LENGTH,
        ),
    )


def _parked(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Ids of the actions that wait, each with its line. Text from outside stands between markers
    and is no JSON, so that no page makes a decision of its own."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.tool_call_id: call.name for call in message.tool_calls}
        for block in message.blocks:
            if isinstance(block, ToolResultBlock) and not block.is_error:
                data = _field(_object(block.envelope), "data")
                action_id = data.get("pending_action_id")
                if data.get("state") == "pending_confirmation" and isinstance(action_id, str):
                    name = names.get(block.tool_call_id, "")
                    yield _line(action_id, _NAME_LENGTH), _waits(name, _field(data, "preview"))


def _waits(tool: str, preview: Mapping[str, Any]) -> str:
    facts = [tool, *(str(preview.get(key, "")) for key in ("side", "quantity", "instrument"))]
    return f"{' '.join(fact for fact in facts if fact)}: waits for the person"


def _told(messages: Iterable[Message]) -> str:
    for message in messages:
        found = _DECIDED.search(message.text) if message.role is Role.CONTEXT else None
        if found is not None:
            return _outcome(_object(found["facts"]))
    return ""


def _outcome(facts: Mapping[str, Any]) -> str:
    def told(key: str) -> str:
        return str(facts.get(key, ""))

    what = " ".join(filter(None, (told("tool"), told("side"), told("instrument"))))
    filled = told("filled_quantity")
    more = [f"filled {filled} {told('filled_asset')}"] if filled not in {"", "0"} else []
    more += [told("reason")] if told("reason") else []
    return f"{what}: {', '.join([told('state'), *more])}"


def _object(text: str) -> Mapping[str, Any]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _field(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _line(text: str, length: int) -> str:
    return " ".join(_storable(text).split())[:length]


def _storable(text: str) -> str:
    """Without what no database stores: JSON can name half a character, and NUL."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
