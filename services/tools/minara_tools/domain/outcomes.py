"""Exceptions inside tools; the dispatcher turns each into a tool result."""

from collections.abc import Mapping

from minara_core.reasons import DenialReason


class ToolCallBlockedError(Exception):
    """A gate refused the call: becomes a denial, and nothing runs."""

    def __init__(
        self,
        reason: DenialReason,
        *,
        gate: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.gate = gate
        self.message = message
        self.metadata = dict(metadata or {})


class ToolFailed(Exception):
    """The tool could not do it; `reason` is a code, `message` a sentence the model adapts to."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SandboxEscapeError(ToolFailed):
    """A path leads out of the user's folder."""

    def __init__(self, path: str) -> None:
        super().__init__("SANDBOX_ESCAPE", f"{path[:200]!r} is outside your folder")
