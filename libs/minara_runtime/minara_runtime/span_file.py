"""Finished spans as JSON lines on disk, and one turn read back from them."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from typing_extensions import override

from minara_runtime.genai import TURN_ID

MAX_FILE_BYTES = 32 * 1024 * 1024
KEPT_FILES = 3


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
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


class FileSpanExporter(SpanExporter):
    """Appends to `path`, mode 0600; over `max_bytes` it becomes `<path>.1`, and so on.

    Several processes may share the file: each batch is one append under a lock.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_FILE_BYTES, kept: int = KEPT_FILES
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(_line(span) for span in spans).encode()
        try:
            self._append(lines)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    @override
    def shutdown(self) -> None:
        return

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def _append(self, lines: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
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


def read_trace(path: Path, turn_id: str) -> list[SpanRecord]:
    """All spans of the traces that touched a turn, oldest first; empty when it left none."""
    trace_ids = {
        record.trace_id for record in _records(path) if record.attributes.get(TURN_ID) == turn_id
    }
    if not trace_ids:
        return []
    spans = [record for record in _records(path) if record.trace_id in trace_ids]
    return sorted(spans, key=lambda record: record.start_ns)


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


def _line(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    parent = span.parent
    return (
        json.dumps(
            {
                "trace_id": f"{context.trace_id:032x}",
                "span_id": f"{context.span_id:016x}",
                "parent_id": "" if parent is None else f"{parent.span_id:016x}",
                "name": span.name,
                "service": str(span.resource.attributes.get("service.name", "")),
                "start_ns": span.start_time or 0,
                "end_ns": span.end_time or 0,
                "status": span.status.status_code.name,
                "attributes": dict(span.attributes or {}),
            },
            ensure_ascii=False,
        )
        + "\n"
    )


def _record(line: str) -> SpanRecord | None:
    try:
        return SpanRecord(**cast("dict[str, object]", json.loads(line)))  # pyright: ignore[reportArgumentType] - our own lines
    except (ValueError, TypeError):
        return None  # a line cut by a crash
