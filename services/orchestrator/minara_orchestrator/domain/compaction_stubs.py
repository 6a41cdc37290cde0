"""Tool results as one line each: what was called, what came of it, where the whole lies."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from minara_core.ids import ToolCallId, TurnId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import Executor, ToolCall, ToolDefinition, err, ok, result_uri
from minara_core.untrusted import harmless, unwrap
from minara_llm.clean_text import cleaned
from minara_orchestrator.domain.estimate import byte_size
from minara_orchestrator.domain.history import OLDER_TURNS, History

_STUB = ok({"stub": "…"}).partition("…")[0]
_MOST_NAME = 64
_MOST_ARGUMENTS = 80
_MOST_VALUE = 40
_CODES = frozenset({*ErrorReason, *DenialReason})
_OUR_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tool result stands: turn, message and block, counted from 0."""

    turn: int
    message: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubbable:
    """A result, the line that can stand for it, and whether a later call read the same thing."""

    place: Place
    result: ToolResultBlock
    stub: ToolResultBlock
    is_repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What stubs need to know of tools: which only read, which move money and which do not, and
    whose results are kept nowhere else."""

    reading: frozenset[str]
    moving: frozenset[str]
    unmoving: frozenset[str]
    local: frozenset[str]

    @classmethod
    def of(cls, definitions: Iterable[ToolDefinition]) -> "ToolFacts":
        known = list(definitions)
        return cls(
            reading=frozenset(
                each.name for each in known if each.permission_tier is PermissionTier.READ_ONLY
            ),
            moving=frozenset(each.name for each in known if each.is_fund_moving),
            unmoving=frozenset(each.name for each in known if not each.is_fund_moving),
            local=frozenset(each.name for each in known if each.executor is Executor.ORCHESTRATOR),
        )


def is_stub(result: ToolResultBlock) -> bool:
    return result.envelope.startswith(_STUB)


def stubbable(
    history: History, facts: ToolFacts, *, protected: Collection[str]
) -> Iterator[Stubbable]:
    """Every result that a shorter line can stand for, oldest first.

    Results that name one of the `protected` ids stay as they are.
    """
    newest = _newest_reads(history, facts)
    for turn_place, turn in enumerate(history):
        for message_place, call, block_place, result in _answered(turn.messages):
            place = Place(turn=turn_place, message=message_place, block=block_place)
            stub = _stub(turn.turn_id, call, result, facts)
            is_shorter = byte_size(stub.envelope) < byte_size(result.envelope)
            if not is_shorter or is_stub(result) or _names(result, protected):
                continue
            repeated = call.name in facts.reading and newest[_same(call)] != place
            yield Stubbable(place=place, result=result, stub=stub, is_repeated=repeated)


def stubbed(history: History, chosen: Iterable[Stubbable]) -> History:
    """The history with lines in place of the chosen results."""
    by_turn: dict[int, dict[int, dict[int, ToolResultBlock]]] = {}
    for each in chosen:
        place = each.place
        by_message = by_turn.setdefault(place.turn, {})
        by_message.setdefault(place.message, {})[place.block] = each.stub
    turns = list(history)
    for turn_place, by_message in by_turn.items():
        turn = turns[turn_place]
        messages = tuple(
            _with(message, by_message.get(message_place, {}))
            for message_place, message in enumerate(turn.messages)
        )
        turns[turn_place] = replace(turn, messages=messages)
    return tuple(turns)


def _with(message: Message, stubs: dict[int, ToolResultBlock]) -> Message:
    if not stubs:
        return message
    blocks = (stubs.get(place, block) for place, block in enumerate(message.blocks))
    return replace(message, blocks=tuple(blocks))


def _answered(
    messages: Sequence[Message],
) -> Iterator[tuple[int, ToolCall, int, ToolResultBlock]]:
    """Each result with the call before it, which is looked for in the nearest message that calls:
    ids repeat from turn to turn."""
    calls: dict[ToolCallId, ToolCall] = {}
    for message_place, message in enumerate(messages):
        if message.role is not Role.TOOL:
            calls = {call.tool_call_id: call for call in message.tool_calls}
            continue
        for block_place, block in enumerate(message.blocks):
            if isinstance(block, ToolResultBlock) and block.tool_call_id in calls:
                yield message_place, calls[block.tool_call_id], block_place, block


def _newest_reads(history: History, facts: ToolFacts) -> dict[tuple[str, str], Place]:
    return {
        _same(call): Place(turn=turn_place, message=message_place, block=block_place)
        for turn_place, turn in enumerate(history)
        for message_place, call, block_place, _ in _answered(turn.messages)
        if call.name in facts.reading
    }


def _same(call: ToolCall) -> tuple[str, str]:
    """Equal for calls that ask for the same thing, however their arguments are written."""
    try:
        return call.name, json.dumps(json.loads(call.arguments_json), sort_keys=True)
    except (ValueError, RecursionError):
        return call.name, call.arguments_json


def _names(result: ToolResultBlock, ids: Collection[str]) -> bool:
    return any(each in result.envelope for each in ids)


def _stub(
    turn_id: str, call: ToolCall, result: ToolResultBlock, facts: ToolFacts
) -> ToolResultBlock:
    """Of the result nothing is said but its outcome: what it holds may be from outside, and a line
    of ours must not carry it."""
    is_kept = call.name not in facts.local and turn_id not in {"", OLDER_TURNS}
    where = f"; whole at {result_uri(TurnId(turn_id), call.tool_call_id)}" if is_kept else ""
    what = f"{_shown(call.name, _MOST_NAME)}{_key_arguments(call)}"
    if result.is_error:
        envelope = err(f"{_code(result)}: {what}: failed{where}")
    else:
        envelope = ok({"stub": f"{what}: {_outcome(call, result, facts)}{where}"})
    return replace(result, envelope=envelope)


def _key_arguments(call: ToolCall) -> str:
    arguments = _object(call.arguments_json) or {}
    texts = [
        f"{name}={str(value)[:_MOST_VALUE]}"
        for name, value in arguments.items()
        if isinstance(value, str | int | bool) and name != "intent"
    ]
    shown = _shown(" ".join(texts), _MOST_ARGUMENTS)
    return f" {shown}" if shown else ""


def _shown(text: str, most: int) -> str:
    """What a model wrote, in one line that any store takes, without tags and template tokens."""
    line = " ".join(harmless(cleaned(text)).replace("<", "‹").split())
    return line[:most]


def _outcome(call: ToolCall, result: ToolResultBlock, facts: ToolFacts) -> str:
    """For a call that was parked its action's id. What else came of a tool that moves money, or of
    one that is not known, must be read where it lies whole."""
    if call.name in facts.unmoving:
        return "success"
    action = _parked(result) if call.name in facts.moving else None
    return "answered" if action is None else f"parked as {action}"


def _parked(result: ToolResultBlock) -> str | None:
    """The id of the action that waits, if it is one that we can have made."""
    data = (_object(unwrap(result.envelope)) or {}).get("data")
    action = cast("dict[str, Any]", data).get("pending_action_id") if isinstance(data, dict) else ""
    return action if isinstance(action, str) and _OUR_ID.fullmatch(action) else None


def _code(result: ToolResultBlock) -> str:
    error = (_object(unwrap(result.envelope)) or {}).get("error")
    code = error.partition(":")[0] if isinstance(error, str) else ""
    return code if code in _CODES else "FAILED"


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


SizeOf = Callable[[ToolResultBlock], int]


def cheapest(candidates: Iterable[Stubbable], *, excess: int, size_of: SizeOf) -> list[Stubbable]:
    """As many as are needed to save `excess` tokens, or all: repeated reads first, then the oldest.

    `size_of` says how many tokens a result takes.
    """
    chosen: list[Stubbable] = []
    saved = 0
    for each in sorted(candidates, key=lambda one: not one.is_repeated):
        if saved >= excess:
            break
        chosen.append(each)
        saved += size_of(each.result) - size_of(each.stub)
    return chosen
