"""HEARTBEAT.md: rewritten at each turn's end, except for the person's own `## Schedule`.

The schedule is carried as raw bytes from its heading to the next heading of the same level, or to
the end; whatever stands in it survives byte for byte. Headings inside code fences are no headings.
"""

import re
from dataclasses import dataclass
from datetime import datetime

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_SCHEDULE = re.compile(rb"## Schedule[ \t]*\r?\n?")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})([^\n]*)")

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
    page = page.removeprefix(_BOM)
    start, fence = -1, b""
    for line in _LINE.finditer(page):
        was_fenced = bool(fence)
        fence = _fence_after(line.group(), fence)
        if was_fenced or fence:
            continue
        if start < 0 and _is_heading(line.group()):
            start = line.start()
        elif start >= 0 and line.group().startswith(b"## "):
            return page[start : line.start()]
    if start < 0 and fence:
        # Somebody left a fence open: better to find a heading in it than to lose their schedule.
        heading = next((one for one in _LINE.finditer(page) if _is_heading(one.group())), None)
        return schedule_raw(page[heading.start() :]) if heading else DEFAULT_SCHEDULE
    return page[start:] if start >= 0 else DEFAULT_SCHEDULE


def _is_heading(line: bytes) -> bool:
    return _SCHEDULE.fullmatch(line) is not None


def _fence_after(line: bytes, fence: bytes) -> bytes:
    """The fence that is open behind a line, given the one open before it; empty for none."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if fence:
        return b"" if mark[1].startswith(fence) and not mark[2].strip() else fence
    return b"" if mark[1].startswith(b"`") and b"`" in mark[2] else mark[1]


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
