"""Messages as proto3 JSON, quickly: what `json_format.MessageToJson` says, byte for byte.

It asks descriptors about every field of every message; here a type is asked once. Types with fields
that events do not have, such as maps and floats, are left to it.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

_Writer: TypeAlias = Callable[[Any], Any]

_TIMES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
_STRINGS = frozenset(
    {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
)
_PLAIN = frozenset(
    {
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BOOL,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_SFIXED32,
    }
)

_encode = json.JSONEncoder(ensure_ascii=False).encode


def message_json(message: Message) -> str:
    """A message as one line of proto3 JSON with original field names, zero values included."""
    return _encode(_written(message))


@dataclass(frozen=True, slots=True)
class _Plan:
    """`fields` are name and writer by number; `zeros` what fields say that cannot be absent, a list
    being made anew each time."""

    fields: dict[int, tuple[str, _Writer]]
    zeros: tuple[tuple[str, Any], ...]


def _written(message: Message) -> Any:
    plan = _plan(message.DESCRIPTOR)
    if plan is None:
        return _left_alone(message)
    written: dict[str, Any] = {}
    for field, value in message.ListFields():
        name, write = plan.fields[field.number]
        written[name] = write(value)
    for name, zero in plan.zeros:
        if name not in written:
            written[name] = [] if zero is None else zero
    return written


@cache
def _plan(kind: Descriptor) -> _Plan | None:
    """How to write messages of a type; None for one to leave alone."""
    if kind.full_name.startswith("google.protobuf."):
        return None
    fields: dict[int, tuple[str, _Writer]] = {}
    zeros: list[tuple[str, Any]] = []
    for field in kind.fields:
        write = _writer(field)
        if write is None:
            return None
        fields[field.number] = (field.name, _each(write) if field.is_repeated else write)
        if field.is_repeated:
            zeros.append((field.name, None))
        elif not field.has_presence:
            zeros.append((field.name, write(field.default_value)))
    return _Plan(fields, tuple(zeros))


def _writer(field: FieldDescriptor) -> _Writer | None:
    """What writes one value of a field; None when nothing here does."""
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            return None
        return _time if field.message_type.full_name in _TIMES else _written
    if field.enum_type is not None:
        return _namer(field.enum_type)
    if field.type in _PLAIN:
        return _same
    if field.type in _STRINGS:
        return str
    return _base64 if field.type == FieldDescriptor.TYPE_BYTES else None


def _namer(enum: EnumDescriptor) -> _Writer:
    """A value's name; one that is not known here stays a number."""
    names = {number: value.name for number, value in enum.values_by_number.items()}
    return lambda number: names.get(number, number)


def _each(write: _Writer) -> _Writer:
    def write_all(values: Iterable[Any]) -> list[Any]:
        return [write(value) for value in values]

    return write_all


def _time(value: Any) -> str:
    return value.ToJsonString()


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _same(value: Any) -> Any:
    return value


def _left_alone(message: Message) -> Any:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
