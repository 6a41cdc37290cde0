"""Scripts of a wire server as JSON, for people who want to see a certain answer or fault.

A script is a list of answers. Each may have `thinking` and `texts` (strings, or lists of deltas),
`calls` (objects of `name` and `arguments`), `stop` (end, tool_calls, max_tokens, refusal) and
`faults` (names, or objects of `fault` and its fields), which are met before the answer is given.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, cast

from minara_core.errors import InvalidRequest
from minara_llm.model import ModelText, ModelThinking, ModelToolCall, StopReason
from minara_llm.wire import faults as known
from minara_llm.wire.bodies import Body, dump
from minara_llm.wire.brain import Answer, AnswerPart
from minara_llm.wire.faults import Fault
from minara_llm.wire.frames import ArgumentShape

FAULTS: Mapping[str, type[Fault]] = MappingProxyType(
    {
        "status": known.StatusFault,
        "overflow": known.OverflowFault,
        "error_event": known.ErrorEventFault,
        "hang_up": known.HangUpFault,
        "silence": known.SilenceFault,
        "slow": known.SlowFault,
        "chunks": known.ChunksFault,
        "split_characters": known.SplitCharactersFault,
        "odd_arguments": known.OddArgumentsFault,
        "no_usage": known.NoUsageFault,
        "odd_stop": known.OddStopFault,
        "broken_json": known.BrokenJsonFault,
        "noise": known.NoiseFault,
        "no_end": known.NoEndFault,
        "twice_ended": known.TwiceEndedFault,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer of a script, and what goes wrong with it."""

    answer: Answer
    faults: tuple[Fault, ...] = ()


def read_script(text: str) -> list[Line]:
    """Raises InvalidRequest, with the place, for what is no script."""
    try:
        parsed: Any = json.loads(text)
    except ValueError as error:
        raise _wrong(f"the script is not JSON: {error}") from None
    if not isinstance(parsed, list):
        raise _wrong("a script is a list of answers")
    return [_line(item, f"answer {n}") for n, item in enumerate(cast("list[Any]", parsed), start=1)]


def _line(item: Any, place: str) -> Line:
    body = _object(item, place)
    extra = sorted(set(body) - {"thinking", "texts", "calls", "stop", "faults"})
    if extra:
        raise _wrong(f"{place} has no '{extra[0]}'")
    parts: list[AnswerPart] = [
        *(ModelThinking(text=text) for text in _texts(body.get("thinking"), f"{place}, thinking")),
        *(ModelText(text=text) for text in _texts(body.get("texts"), f"{place}, texts")),
        *(_call(call, f"{place}, calls") for call in _list(body.get("calls"), f"{place}, calls")),
    ]
    stop = body.get("stop")
    if stop is not None and stop not in set(StopReason):
        raise _wrong(f"{place}, stop: one of {', '.join(StopReason)}")
    answer = Answer(parts=tuple(parts), stop=StopReason(stop) if stop else None)
    given = _list(body.get("faults"), f"{place}, faults")
    return Line(answer=answer, faults=tuple(_fault(fault, f"{place}, faults") for fault in given))


def _call(item: Any, place: str) -> ModelToolCall:
    body = _object(item, place)
    name, arguments = body.get("name"), body.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise _wrong(f"{place}: a call has a name")
    text = arguments if isinstance(arguments, str) else dump(arguments)
    return ModelToolCall(name=name, arguments_json=text)


def _fault(item: Any, place: str) -> Fault:
    body = {"fault": item} if isinstance(item, str) else dict(_object(item, place))
    name = body.pop("fault", None)
    kind = FAULTS.get(str(name))
    if kind is None:
        raise _wrong(f"{place}: '{name}' is none of {', '.join(FAULTS)}")
    if body.get("shape") in set(ArgumentShape):
        body["shape"] = ArgumentShape(body["shape"])
    types: dict[str, Any] = {field.name: field.type for field in fields(kind)}
    try:
        fault: Fault = cast(Any, kind)(**body)
    except TypeError:
        raise _wrong(f"{place}: '{name}' has the fields {', '.join(types)}") from None
    for key, value in body.items():
        if not isinstance(value, float | int if types[key] is float else types[key]):
            raise _wrong(f"{place}: '{name}' cannot have {value!r} as its {key}")
    return fault


def _texts(value: Any, place: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    texts = _list(value, place)
    if not all(isinstance(text, str) for text in texts):
        raise _wrong(f"{place}: a text or a list of texts")
    return texts


def _list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(f"{place}: a list")
    return cast("list[Any]", value)


def _object(value: Any, place: str) -> Body:
    if not isinstance(value, dict):
        raise _wrong(f"{place}: an object")
    return cast("Body", value)


def _wrong(message: str) -> InvalidRequest:
    return InvalidRequest(message)
