"""How use cases are watched: spans of calls, and reports of what must not happen."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from minara_core.tooling import ToolCall

ReportBug = Callable[[Exception, str], str]
"""Log an unforeseen exception at a place; returns the reference id to tell."""


GATES = "gates"
STAGES = "stages"
SEND = "send"
PASSED = "passed"


class CallSpan(Protocol):
    def tell(self, outcome: str, reason: str = "", gate: str = "") -> None:
        """Say what came of it; `gate` is the one that refused."""
        ...


class Tracing(Protocol):
    def tool_call(self, call: ToolCall, *, is_known: bool) -> AbstractContextManager[CallSpan]:
        """A call of a tool; one that is not known may be named anything."""
        ...

    def part(self, name: str) -> AbstractContextManager[CallSpan]:
        """A part of what is being done: GATES, STAGES or SEND."""
        ...

    def trace_id(self) -> str:
        """The current trace, as 32 hex digits; empty outside of one."""
        ...
