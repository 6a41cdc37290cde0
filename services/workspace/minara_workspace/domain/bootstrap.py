"""First run: two turns that fill USER.md, then the page is put aside."""

from datetime import datetime

DONE_TOKEN = "BOOTSTRAP_DONE"  # noqa: S105 - a marker in a reply


def is_done(assistant_text: str) -> bool:
    """Whether the token stands alone on a line of the assistant's own text."""
    return any(line.strip() == DONE_TOKEN for line in assistant_text.splitlines())


def done_name(name: str, now: datetime) -> str:
    """What the page is renamed to; kept as a trace of when it ended."""
    return f"{name}.done.{now:%Y%m%dT%H%M%SZ}"
