"""How use cases are watched: spans of calls, and reports of what must not happen."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from minara_core.ids import ToolCallId

ReportBug = Callable[[Exception, str], str]
"""Log an unforeseen exception at a place; returns the reference id to tell."""


class CallSpan(Protocol):
    def tell(self, outcome: str, reason: str) -> None:
        """Say what came of the call."""
        ...


class Tracing(Protocol):
    def tool_call(self, name: str, call_id: ToolCallId) -> AbstractContextManager[CallSpan]: ...

    def trace_id(self) -> str:
        """The current trace, as 32 hex digits; empty outside of one."""
        ...
