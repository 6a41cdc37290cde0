"""One protocol for every chat model.

An adapter turns a neutral ModelRequest into its provider's wire form and yields ModelEvents. The
loop never sees a provider's types, ids or errors.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from minara_core.errors import MinaraError
from minara_core.events import TokenUsage
from minara_core.messages import Message
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolDefinition


class ToolChoice(StrEnum):
    """NONE forbids calls on this step; the tool list itself never changes within a session."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemBlock:
    """A part of the system prompt. `ends_cached_part` asks for a cache breakpoint after it."""

    name: str
    text: str
    ends_cached_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """An image or a document as it is sent to a provider: whole, by its sniffed type."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. Every request of a session extends the one before it: `tools`, then
    `system`, then `messages` only ever grow at the end.

    `callable_tools` names what may be called now besides what always may, for providers that can
    restrict tools without touching the list; None: all of `tools`. Assistant messages in `messages`
    carry call ids `<step>.<index>` that repeat from turn to turn; an adapter maps them to its own
    by position. `files` has what the FileBlocks in `messages` stand for, by file key; a block
    without content, or of a type that the model does not take, is sent as a line of text that names
    it.
    """

    model: str
    system: tuple[SystemBlock, ...]
    tools: tuple[ToolDefinition, ...]
    messages: tuple[Message, ...]
    max_output_tokens: int
    session_id: str
    tool_choice: ToolChoice = ToolChoice.AUTO
    callable_tools: tuple[str, ...] | None = None
    files: Mapping[str, FileContent] = field(default_factory=dict[str, FileContent])


class StopReason(StrEnum):
    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelThinking:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToolCall:
    """A complete call; `arguments_json` is byte for byte what the model wrote."""

    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    usage: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStop:
    """The last event. `provider_state` is stored with the message and handed back on replay."""

    reason: StopReason
    provider_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCacheMiss:
    """The provider says that the cached prefix could not be read, and why, in its own words."""

    reason: str
    input_tokens: int = 0


ModelEvent = ModelText | ModelThinking | ModelToolCall | ModelUsage | ModelCacheMiss | ModelStop


class ChatModel(Protocol):
    """Streams one model message.

    `stream` yields text and thinking as they come, tool calls once they count (never those of an
    answer that was refused, or that were cut), usage at least once, and ends with exactly one
    ModelStop. It raises only ModelFailure. Closing the
    iterator cancels the provider's call.
    """

    @property
    def provider(self) -> str:
        """Such as "anthropic"."""
        ...

    @property
    def name(self) -> str:
        """The provider's model id."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens of input and output together."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]: ...


class FailureKind(StrEnum):
    """What went wrong upstream. Most may be tried again or elsewhere."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CONTEXT_OVERFLOW = "context_overflow"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    MALFORMED_STREAM = "malformed_stream"


_RETRYABLE = frozenset(
    {
        FailureKind.RATE_LIMITED,
        FailureKind.OVERLOADED,
        FailureKind.TIMEOUT,
        FailureKind.CONNECTION,
        FailureKind.MALFORMED_STREAM,
    }
)


class ModelFailure(MinaraError):
    """A model call failed. `retry_after_seconds` repeats what the provider asked for, if it did."""

    default_reason = ErrorReason.MODEL_UNAVAILABLE

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind,
        retry_after_seconds: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        reason = (
            ErrorReason.CONTEXT_TOO_LARGE
            if kind is FailureKind.CONTEXT_OVERFLOW
            else ErrorReason.MODEL_UNAVAILABLE
        )
        super().__init__(message, reason=reason, metadata=metadata)
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds

    @property
    def is_retryable(self) -> bool:
        return self.kind in _RETRYABLE
