"""Our JSON of events and protobuf's own are the same bytes, whatever the event says."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from minara.agent.v1 import event_pb2 as event_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara_gateway.event_json import message_json

KINDS = [field.name for field in event_pb.TurnEvent.DESCRIPTOR.oneofs_by_name["event"].fields]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_BOUNDS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_DEEPEST = 6


def protobufs_own(message: Message) -> str:
    return json_format.MessageToJson(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
        indent=None,
        ensure_ascii=False,
    )


def fill_value(field: FieldDescriptor, draw: Callable[..., Any]) -> Any:
    if field.enum_type is not None:
        known = [*field.enum_type.values_by_number, 1_000]
        return draw(st.sampled_from(known))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(st.binary(max_size=20))
    if field.type == FieldDescriptor.TYPE_STRING:
        return draw(_TEXT)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return draw(st.booleans())
    if field.cpp_type in _BOUNDS:
        return draw(st.integers(*_BOUNDS[field.cpp_type]))
    return draw(st.floats(width=32))


def fill(message: Any, draw: Callable[..., Any], depth: int = 0) -> None:
    """Set what is drawn of a message's fields, and of those of the messages in it."""
    kind: Descriptor = message.DESCRIPTOR
    if kind.full_name in {"google.protobuf.Timestamp", "google.protobuf.Duration"}:
        message.seconds = draw(st.integers(0, 4_000_000_000))
        message.nanos = draw(st.integers(0, 999_999_999))
        return
    for field in kind.fields:
        if depth >= _DEEPEST or not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        value = getattr(message, field.name)
        if field.is_repeated and field.message_type is not None:
            fill(value.add(), draw, depth + 1)
        elif field.is_repeated:
            value.append(fill_value(field, draw))
        elif field.message_type is not None:
            value.SetInParent()
            fill(value, draw, depth + 1)
        else:
            setattr(message, field.name, fill_value(field, draw))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_an_event_is_written_as_protobuf_writes_it(kind: str, data: st.DataObject) -> None:
    event = event_pb.TurnEvent(sequence=data.draw(st.integers(0, 2**31 - 1)))
    fill(event.time, data.draw)
    payload = getattr(event, kind)
    payload.SetInParent()
    fill(payload, data.draw)
    assert message_json(event) == protobufs_own(event)


def test_an_event_of_no_kind_is_written_too() -> None:
    assert message_json(event_pb.TurnEvent()) == protobufs_own(event_pb.TurnEvent())


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_messages_with_other_fields_are_left_to_protobuf(data: st.DataObject) -> None:
    response = tools_pb.ExecuteToolsResponse()
    fill(response, data.draw)
    assert message_json(response) == protobufs_own(response)
