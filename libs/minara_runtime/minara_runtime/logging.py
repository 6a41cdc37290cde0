"""NDJSON logs, to standard error and to a rotated file: facts and ids, no secrets, no talk."""

import logging
import logging.handlers
import os
import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import structlog
from opentelemetry import trace
from structlog.typing import FilteringBoundLogger, Processor
from typing_extensions import override

from minara_runtime.redaction import redact
from minara_runtime.settings import Settings

LOG_FILE = "logs/minara.ndjson"
"""Under `data_dir`."""

MAX_FILE_BYTES = 16 * 1024 * 1024
KEPT_FILES = 5

_CONTENT = frozenset(
    {"text", "message", "content", "prompt", "reply", "arguments", "arguments_json", "response"}
)
_CREDENTIALS = frozenset({"grant", "token", "jwt", "traceback_locals"})
_HIDDEN = "[content]"


class _PrivateFile(logging.handlers.RotatingFileHandler):
    @override
    def _open(self) -> Any:
        opened = super()._open()
        os.chmod(self.baseFilename, 0o600)
        return opened


def configure(settings: Settings, *, console: bool) -> None:
    """Log to `data_dir`, and to standard error when `console` (never beside a REPL).

    Message text and the text of exceptions are left out unless `log_content` is set. A second call
    replaces the first.
    """
    shared = _processors(log_content=settings.log_content)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_foreign, *shared],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render],
    )
    root = logging.getLogger()
    close()
    for handler in _handlers(settings.data_dir / LOG_FILE, console=console):
        handler.setFormatter(formatter)
        handler.set_name("minara")
        root.addHandler(handler)
    root.setLevel(settings.log_level.upper())


def close() -> None:
    """Take our handlers off and close the file."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.get_name() == "minara"]:
        root.removeHandler(handler)
        handler.close()


def get_logger(category: str) -> FilteringBoundLogger:
    """A logger whose lines carry `category`; `log.info("turn_opened", turn_id=...)`."""
    return cast("FilteringBoundLogger", structlog.stdlib.get_logger("minara", category=category))


def bind(**fields: str) -> None:
    """Add fields such as `turn_id` to every line of this context; empty ones are left out."""
    structlog.contextvars.bind_contextvars(
        **{name: value for name, value in fields.items() if value}
    )


def bound(name: str) -> str:
    """A field bound in this context; empty when there is none."""
    return str(structlog.contextvars.get_contextvars().get(name, ""))


def _handlers(path: Path, *, console: bool) -> list[logging.Handler]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handlers: list[logging.Handler] = [
        _PrivateFile(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8")
    ]
    if console:
        handlers.append(logging.StreamHandler(sys.stderr))
    return handlers


def _processors(*, log_content: bool) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _trace_ids,
        _Exceptions(with_text=log_content),
    ]
    return processors if log_content else [*processors, _hide_content]


def _foreign(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record = event.get("_record")
    event["category"] = record.name if isinstance(record, logging.LogRecord) else "foreign"
    return event


def _trace_ids(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = f"{context.trace_id:032x}"
    return event


def _hide_content(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in _CONTENT.intersection(event):
        event[name] = _HIDDEN
    return event


def _render(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    for name in _CREDENTIALS.intersection(event):
        event[name] = "[redacted]"
    return redact(_dumped(event))


def _dumped(event: MutableMapping[str, Any]) -> str:
    return str(structlog.processors.JSONRenderer(ensure_ascii=False)(None, "", event))


class _Exceptions:
    """Exceptions as their types and frames; their text too when it may be logged."""

    def __init__(self, *, with_text: bool) -> None:
        self._with_text = with_text

    def __call__(
        self, _: Any, __: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        found = event.pop("exc_info", None)
        error = _error_in(found)
        if error is not None:
            event["exception"] = self._described(error)
        return event

    def _described(self, error: BaseException) -> str:
        if self._with_text:
            return "".join(traceback.format_exception(error)).rstrip()
        chain = [*_frames(error.__traceback__), type(error).__name__]
        cause = error.__cause__ or error.__context__
        return "\n".join([*chain, "from:", self._described(cause)] if cause else chain)


def _error_in(found: object) -> BaseException | None:
    if found is True:
        return sys.exc_info()[1]
    if isinstance(found, tuple):
        found = cast("tuple[object, ...]", found)[1]
    return found if isinstance(found, BaseException) else None


def _frames(start: TracebackType | None) -> list[str]:
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(start)
    ]
