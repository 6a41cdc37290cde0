"""Tool arguments: the exact JSON text a model wrote, as a validated model of the tool."""

import json
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, NoReturn, Protocol, TypeGuard, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from minara_core.money import AMOUNT_PATTERN
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry

GATE = "arguments"
MAX_BYTES = 64 * 1024
MAX_DEPTH = 32


class WrittenInteger(int):
    """An integer literal that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "WrittenInteger":
        made = super().__new__(cls, text)
        made.text = text
        return made


class WrittenDecimal(Decimal):
    """A fractional literal that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "WrittenDecimal":
        made = super().__new__(cls, text)
        made.text = text
        return made


def _amount_text(value: object) -> object:
    match value:
        case WrittenInteger() | WrittenDecimal():
            return value.text
        case str():
            return value
        case _:
            raise ValueError("an amount is text of plain digits, such as 50 or 0.25")


AmountText = Annotated[
    str,
    BeforeValidator(_amount_text, json_schema_input_type=str),
    Field(pattern=AMOUNT_PATTERN, max_length=40),
]
"""An amount of money: text of `money.AMOUNT_PATTERN`. A JSON integer or plain decimal literal is
taken by its exact text; floats, booleans, signs, exponents and other digits are refused."""


class StatedIntent(Protocol):
    """What the arguments of all money tools that a model may call have: `intent`, one sentence."""

    intent: str


class MoveArguments(Protocol):
    """The arguments of a tool that only buys or sells. `amount_unit` is "quote", "base", or "all",
    and then `amount` is None."""

    symbol: str
    amount: str | None
    amount_unit: str
    intent: str


def states_intent(arguments: BaseModel) -> TypeGuard[StatedIntent]:
    """Whether a tool's arguments have the fields of StatedIntent."""
    return _has_fields(type(arguments), ("intent",))


def is_move(arguments: BaseModel) -> TypeGuard[MoveArguments]:
    """Whether a tool's arguments have the fields of MoveArguments."""
    return _has_fields(type(arguments), ("symbol", "amount", "amount_unit", "intent"))


@cache
def _has_fields(kind: type[BaseModel], names: tuple[str, ...]) -> bool:
    """A fact of the type; asking a runtime protocol of each call takes as long as a gate."""
    return kind.model_fields.keys() >= {*names}


def validated(entry: ToolEntry, arguments_json: str) -> BaseModel:
    """The tool's own arguments model. Raises ToolCallBlockedError (ARGUMENTS_INVALID)."""
    try:
        return entry.arguments.model_validate(read_object(arguments_json))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise blocked(f"{field or 'arguments'}: {first['msg']}", field) from None


def read_object(arguments_json: str) -> dict[str, Any]:
    """A JSON object whose numbers are exact. Raises ToolCallBlockedError (ARGUMENTS_INVALID)."""
    if len(arguments_json.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise blocked(f"the arguments are larger than {MAX_BYTES} bytes")
    if _depth(arguments_json) > MAX_DEPTH:
        raise blocked(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(
            arguments_json or "{}",
            parse_int=WrittenInteger,
            parse_float=WrittenDecimal,
            parse_constant=_no_constant,
            object_pairs_hook=_distinct,
        )
    except (ValueError, ArithmeticError):
        raise blocked("the arguments are no valid JSON object") from None
    if not isinstance(value, dict):
        raise blocked("the arguments are a JSON object")
    if not _is_text(cast("object", value)):
        raise blocked("the arguments hold half of a character pair")
    return cast("dict[str, Any]", value)


def blocked(message: str, field: str = "") -> ToolCallBlockedError:
    """The refusal of arguments; `field` is the path of the first wrong one."""
    return ToolCallBlockedError(
        DenialReason.ARGUMENTS_INVALID,
        gate=GATE,
        message=message[:300],
        metadata={"field": field[:100]} if field else {},
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _is_text(value: object) -> bool:
    """Whether every string in it is Unicode text: JSON can write surrogates that nothing stores."""
    match value:
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return all(_is_text(name) and _is_text(item) for name, item in pairs)
        case list():
            return all(_is_text(item) for item in cast("list[object]", value))
        case _:
            return True


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest
