"""HEARTBEAT.md: ours is rewritten, theirs survives byte for byte."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_workspace.domain.heartbeat import (
    DEFAULT_SCHEDULE,
    OPEN_LOOPS_SHOWN,
    Heartbeat,
    render,
    schedule_raw,
)

HEADING = b"## Schedule\n"


def a_heartbeat(number: int = 1, *open_loops: str) -> Heartbeat:
    return Heartbeat(
        last_seen=datetime(2026, 11, 30, 12, number % 60, tzinfo=UTC),
        session_id=f"session-{number}",
        surface="repl",
        turn_count=number,
        open_loops=open_loops,
    )


def rewritten(page: bytes, times: int = 50) -> bytes:
    for number in range(times):
        page = render(a_heartbeat(number, "a ## loop", "```", "~~~"), schedule_raw(page))
    return page


line = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b"```", b"~~~", b"````", b"   ```py", b"    ```", b"``` a`b", b"# one", b"### three",
         b"##", b"##x", b"- [ ] daily: look", b"<!-- mine", b"-->", b"\xef\xbb\xbf", b"\xff\xfe"]
    ),
)  # fmt: skip
newline = st.sampled_from([b"\n", b"\r\n", b"\r"])
body = st.lists(st.tuples(line, newline), max_size=12).map(
    lambda lines: b"".join(part for pair in lines for part in pair)
)


@given(body=body, ends_with_newline=st.booleans())
def test_a_schedule_of_any_bytes_survives_fifty_rewrites(
    body: bytes, ends_with_newline: bool
) -> None:
    # A level-2 heading would be the person's own end of the section.
    body = re.sub(rb"^## ", b"##_", body, flags=re.MULTILINE)
    schedule = HEADING + (body if ends_with_newline else body.rstrip(b"\r\n"))
    page = rewritten(b"# Heartbeat\n\n- last_seen: never\n\n" + schedule)
    assert page.endswith(schedule)
    assert schedule_raw(page) == schedule


@given(page=st.one_of(st.binary(max_size=80), body, body.map(lambda text: text + HEADING + text)))
def test_what_is_carried_once_is_carried_for_ever(page: bytes) -> None:
    raw = schedule_raw(page)
    assert schedule_raw(rewritten(page, 3)) == raw


@pytest.mark.parametrize(
    ("page", "schedule"),
    [
        (b"", DEFAULT_SCHEDULE),
        (b"# Heartbeat\n", DEFAULT_SCHEDULE),
        (b"### Schedule\nx\n", DEFAULT_SCHEDULE),
        (b"## Schedules\nx\n", DEFAULT_SCHEDULE),
        (b"## Schedule", b"## Schedule"),
        (b"## Schedule \t\r\n- a: b\r\n", b"## Schedule \t\r\n- a: b\r\n"),
        (b"\xef\xbb\xbf## Schedule\nx", b"## Schedule\nx"),
        (b"## Schedule\nx\n## Notes\ny\n", b"## Schedule\nx\n"),
        (b"## Schedule\n```\n## no end\n```\ny", b"## Schedule\n```\n## no end\n```\ny"),
        (b"## Schedule\n~~~\n```\n## no end\n~~~\n", b"## Schedule\n~~~\n```\n## no end\n~~~\n"),
        (b"## Schedule\n```\n## never closed\n", b"## Schedule\n```\n## never closed\n"),
        (b"```\n## Schedule\nan example\n```\n## Schedule\nmine\n", b"## Schedule\nmine\n"),
        (b"```\nleft open\n## Schedule\nmine\n", b"## Schedule\nmine\n"),
    ],
)
def test_the_section_is_found_where_a_reader_of_markdown_finds_it(
    page: bytes, schedule: bytes
) -> None:
    assert schedule_raw(page) == schedule


def test_the_facts_of_the_turn_are_told() -> None:
    page = render(a_heartbeat(7, "confirm action-1"), DEFAULT_SCHEDULE).decode()
    assert "- last_seen: 2026-11-30T12:07:00Z\n" in page
    assert "- session_id: session-7\n" in page
    assert "- surface: repl\n" in page
    assert "- turn_count: 7\n" in page
    assert "## Open loops\n\n- confirm action-1\n" in page


def test_open_loops_are_bounded_and_can_open_no_section() -> None:
    loops = ["line\n## Schedule\nstolen", *(f"loop {number}" for number in range(20))]
    page = render(a_heartbeat(1, *loops), DEFAULT_SCHEDULE)
    told = page.partition(b"## Open loops")[2].partition(b"## Schedule")[0]
    assert told.count(b"\n- ") == OPEN_LOOPS_SHOWN
    assert schedule_raw(page) == DEFAULT_SCHEDULE


def test_no_open_loop_is_told_as_none() -> None:
    assert b"## Open loops\n\n- none\n" in render(a_heartbeat(), DEFAULT_SCHEDULE)
