"""HEARTBEAT.md: rewritten at each turn's end, except for the person's own `## Schedule`.

The schedule is carried as raw bytes from its heading to the next heading of the same level, or to
the end; whatever stands in it survives byte for byte.
"""

import re
from dataclasses import dataclass
from datetime import datetime

_SCHEDULE = re.compile(rb"^## Schedule[ \t]*\r?$", re.MULTILINE)
_NEXT_SECTION = re.compile(rb"^## ", re.MULTILINE)
_FENCE = re.compile(rb"^[ \t]*(```|~~~)", re.MULTILINE)

DEFAULT_SCHEDULE = b"## Schedule\n\n<!-- Yours: Minara keeps every byte of this section. -->\n"
OPEN_LOOPS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What one turn leaves for the next session. `open_loops` are newest first."""

    last_seen: datetime
    session_id: str
    surface: str
    turn_count: int
    open_loops: tuple[str, ...]


def schedule_raw(page: bytes) -> bytes:
    """The raw `## Schedule` section of a page, or the default one when it has none."""
    start = _SCHEDULE.search(page)
    if start is None:
        return DEFAULT_SCHEDULE
    for section in _NEXT_SECTION.finditer(page, start.end()):
        if not _is_fenced(page, start.end(), section.start()):
            return page[start.start() : section.start()]
    return page[start.start() :]


def _is_fenced(page: bytes, start: int, end: int) -> bool:
    """Whether `end` lies inside a code fence that opens after `start`."""
    return len(_FENCE.findall(page, start, end)) % 2 == 1


def render(heartbeat: Heartbeat, schedule: bytes) -> bytes:
    """The whole page: our facts, then the schedule as it is, always last."""
    loops = [_one_line(loop) for loop in heartbeat.open_loops[:OPEN_LOOPS_SHOWN]]
    lines = [
        "# Heartbeat",
        "",
        f"- last_seen: {heartbeat.last_seen:%Y-%m-%dT%H:%M:%SZ}",
        f"- session_id: {heartbeat.session_id}",
        f"- surface: {heartbeat.surface}",
        f"- turn_count: {heartbeat.turn_count}",
        "",
        "## Open loops",
        "",
        *([f"- {loop}" for loop in loops] or ["- none"]),
        "",
    ]
    return "\n".join(lines).encode() + b"\n" + schedule


def _one_line(text: str) -> str:
    """A loop can neither end the list nor begin a section."""
    return " ".join(text.split()).replace("#", "")[:200]
