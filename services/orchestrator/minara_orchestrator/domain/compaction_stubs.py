"""Tool results as one line each: what was called, what came of it, where the whole lies."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from minara_core.ids import ToolCallId, TurnId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import Executor, ToolCall, ToolDefinition, err, ok, result_uri
from minara_core.untrusted import unwrap
from minara_orchestrator.domain.history import OLDER_TURNS, History

_STUB = ok({"stub": "…"}).partition("…")[0]
_MOST_ARGUMENTS = 80
_MOST_VALUE = 40


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
    """What stubs need to know of tools: which only read, and which results are kept elsewhere."""

    reading: frozenset[str]
    local: frozenset[str]

    @classmethod
    def of(cls, definitions: Iterable[ToolDefinition]) -> "ToolFacts":
        known = list(definitions)
        return cls(
            reading=frozenset(
                each.name for each in known if each.permission_tier is PermissionTier.READ_ONLY
            ),
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
            is_shorter = len(stub.envelope.encode()) < len(result.envelope.encode())
            if not is_shorter or is_stub(result) or _names(result, protected):
                continue
            repeated = call.name in facts.reading and newest[_same(call)] != place
            yield Stubbable(place=place, result=result, stub=stub, is_repeated=repeated)


def stubbed(history: History, chosen: Iterable[Stubbable]) -> History:
    """The history with lines in place of the chosen results."""
    by_message: dict[tuple[int, int], dict[int, ToolResultBlock]] = {}
    for each in chosen:
        place = each.place
        by_message.setdefault((place.turn, place.message), {})[place.block] = each.stub
    return tuple(
        replace(
            turn,
            messages=tuple(
                _with(message, by_message.get((turn_place, message_place), {}))
                for message_place, message in enumerate(turn.messages)
            ),
        )
        if any(touched == turn_place for touched, _ in by_message)
        else turn
        for turn_place, turn in enumerate(history)
    )


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
    arguments = _object(call.arguments_json)
    if arguments is None:
        return call.name, call.arguments_json
    return call.name, json.dumps(arguments, sort_keys=True)


def _names(result: ToolResultBlock, ids: Collection[str]) -> bool:
    return any(each in result.envelope for each in ids)


def _stub(
    turn_id: str, call: ToolCall, result: ToolResultBlock, facts: ToolFacts
) -> ToolResultBlock:
    is_kept = call.name not in facts.local and turn_id not in {"", OLDER_TURNS}
    where = f"; whole at {result_uri(TurnId(turn_id), call.tool_call_id)}" if is_kept else ""
    what = f"{call.name}{_key_arguments(call)}"
    if result.is_error:
        envelope = err(f"{_code(result)}: {what}: failed{where}")
    else:
        envelope = ok({"stub": f"{what}: {_outcome(result)}{where}"})
    return replace(result, envelope=envelope)


def _key_arguments(call: ToolCall) -> str:
    arguments = _object(call.arguments_json) or {}
    texts = [
        f"{name}={str(value)[:_MOST_VALUE]}"
        for name, value in arguments.items()
        if isinstance(value, str | int | bool) and name != "intent"
    ]
    shown = " ".join(" ".join(texts).split())
    return f" {shown[:_MOST_ARGUMENTS]}" if shown else ""


def _outcome(result: ToolResultBlock) -> str:
    """`success`, or for a call that was parked its action's id."""
    envelope = _object(unwrap(result.envelope)) or {}
    data = envelope.get("data")
    if isinstance(data, dict):
        action = cast("dict[str, Any]", data).get("pending_action_id")
        if isinstance(action, str):
            return f"parked as {action[:_MOST_ARGUMENTS]}"
    return "success"


def _code(result: ToolResultBlock) -> str:
    error = (_object(unwrap(result.envelope)) or {}).get("error")
    code = error.partition(":")[0] if isinstance(error, str) else ""
    return code if code.isidentifier() else "FAILED"


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
