"""Finished spans as JSON lines on disk, and one turn read back from them."""

import fcntl
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from opentelemetry.sdk.resources import Resource

from minara_runtime import genai
from minara_runtime.spans import RecordedSpan

MAX_FILE_BYTES = 32 * 1024 * 1024
KEPT_FILES = 3

_LOCK_ATTEMPTS = 50
_LOCK_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A finished span: ids in hex, times in nanoseconds since 1970, no `parent_id` at a root."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    start_ns: int
    end_ns: int
    status: str
    instance: str = ""
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def has_failed(self) -> bool:
        return self.status == "ERROR"

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


class FileSpans:
    """Implements SpanTaker: appends to `path`, mode 0600; over `max_bytes` it becomes `<path>.1`,
    and so on.

    Several processes may share the file: each batch is one append under a lock. A batch that cannot
    be written is dropped.
    """

    def __init__(
        self,
        path: Path,
        resource: Resource,
        *,
        max_bytes: int = MAX_FILE_BYTES,
        kept: int = KEPT_FILES,
    ) -> None:
        self._path = path
        self._service = str(resource.attributes.get(genai.SERVICE_NAME, ""))
        self._instance = str(resource.attributes.get(genai.SERVICE_INSTANCE, ""))
        self._max_bytes = max_bytes
        self._kept = kept
        self._lines: list[str] = []

    def take(self, spans: Sequence[RecordedSpan]) -> None:
        self._lines += [self._line(span) for span in spans]

    def flush(self) -> None:
        lines, self._lines = "".join(self._lines).encode("utf-8", "replace"), []
        if lines:
            with suppress(OSError):
                self._append(lines)

    def close(self) -> None:
        self.flush()

    def _append(self, lines: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(lock)
            if self._path.exists() and self._path.stat().st_size + len(lines) > self._max_bytes:
                self._rotate()
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "ab") as out:
                out.write(lines)
        finally:
            os.close(lock)

    def _rotate(self) -> None:
        for number in range(self._kept, 0, -1):
            older = _numbered(self._path, number - 1)
            if older.exists():
                older.replace(_numbered(self._path, number))

    def _line(self, span: RecordedSpan) -> str:
        context, parent = span.context, span.parent
        fields = {
            "trace_id": f"{context.trace_id:032x}",
            "span_id": f"{context.span_id:016x}",
            "parent_id": "" if parent is None else f"{parent.span_id:016x}",
            "name": span.name,
            "service": self._service,
            "instance": self._instance,
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "status": "ERROR" if span.has_failed else "UNSET",
            "attributes": span.attributes,
        }
        return json.dumps(fields, ensure_ascii=False) + "\n"


def _lock(file: int) -> None:
    """Take the file's lock. Raises BlockingIOError when another process sits on it: spans are not
    worth waiting for one that was stopped."""
    for _ in range(_LOCK_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_SECONDS)
    raise BlockingIOError("the span file is locked")


def read_trace(path: Path, turn_id: str) -> list[SpanRecord]:
    """All spans of a turn and of what asked for it, oldest first; empty when it did not run here.

    A caller may put many requests into one trace: what belongs to others of its turns is left out,
    and so is whoever only watched this one later.
    """
    trace_ids = {
        record.trace_id
        for record in _records(path)
        if record.attributes.get(genai.TURN_ID) == turn_id
    }
    if not trace_ids:
        return []
    spans = [record for record in _records(path) if record.trace_id in trace_ids]
    return sorted(_about(turn_id, spans), key=lambda record: record.start_ns)


def _about(turn_id: str, spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """The trees that a turn's spans stand in, without the branches of other turns."""
    by_id = {span.span_id: span for span in spans}
    below: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        below[span.parent_id].append(span)
    waiting = {
        top.span_id: top
        for top in (
            _top(span, by_id)
            for span in spans
            if span.name.startswith(genai.INVOKE_AGENT) and _turn(span) == turn_id
        )
    }
    found: dict[str, SpanRecord] = {}
    while waiting:
        span_id, span = waiting.popitem()
        if span_id not in found and _turn(span) in {"", turn_id}:
            found[span_id] = span
            waiting.update({child.span_id: child for child in below[span_id]})
    return list(found.values())


def _top(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> SpanRecord:
    seen = {span.span_id}
    while span.parent_id in by_id and span.parent_id not in seen:
        seen.add(span.parent_id)
        span = by_id[span.parent_id]
    return span


def _turn(span: SpanRecord) -> str:
    return str(span.attributes.get(genai.TURN_ID, ""))


def _records(path: Path) -> Iterator[SpanRecord]:
    number = 0
    files: list[Path] = []
    while (file := _numbered(path, number)).exists():
        files.append(file)
        number += 1
    for file in reversed(files):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                record = _record(line)
                if record is not None:
                    yield record


def _numbered(path: Path, number: int) -> Path:
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def _record(line: str) -> SpanRecord | None:
    try:
        return SpanRecord(**cast("dict[str, object]", json.loads(line)))  # pyright: ignore[reportArgumentType] - our own lines
    except (ValueError, TypeError):
        return None  # a line cut by a crash
