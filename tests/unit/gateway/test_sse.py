"""Frames: name, sequence, one line of JSON that no reader can split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara.agent.v1 import event_pb2 as event_pb
from minara_gateway.sse import frame, last_event_id


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_one_frame(text: str) -> None:
    event = event_pb.TurnEvent(sequence=7, text_delta=event_pb.TextDelta(text=text))
    lines = frame(event).decode().splitlines()
    assert lines[0] == "event: text_delta"
    assert lines[1] == "id: 7"
    assert json.loads(lines[2].removeprefix("data: "))["text_delta"]["text"] == text
    assert lines[3:] == [""]


def test_zero_values_are_printed() -> None:
    event = event_pb.TurnEvent(sequence=1, turn_completed=event_pb.TurnCompleted())
    data = json.loads(frame(event).decode().splitlines()[2].removeprefix("data: "))
    assert data["turn_completed"]["finish_reason"] == "FINISH_REASON_UNSPECIFIED"
    assert data["turn_completed"]["pending_interjections"] == []


@pytest.mark.parametrize(
    ("header", "after", "start"),
    [
        (None, 3, 3),
        ("5", 3, 5),
        ("", 3, 0),
        ("-1", 3, 0),
        ("１", 3, 0),
        ("9" * 30, 0, 2**31 - 1),
        ("9" * 5_000, 0, 2**31 - 1),
    ],
)
def test_the_header_wins_and_nonsense_starts_at_the_beginning(
    header: str | None, after: int, start: int
) -> None:
    assert last_event_id(header, after) == start
