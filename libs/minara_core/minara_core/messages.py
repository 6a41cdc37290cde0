"""The transcript, neutral of providers: what PrepareTurn returns and CommitTurn stores."""

from dataclasses import dataclass
from enum import StrEnum

from minara_core.ids import ToolCallId
from minara_core.tooling import ToolCall


class Role(StrEnum):
    """CONTEXT is ours: prompt blocks and decided actions, sent directly before a user message."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallBlock:
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBlock:
    tool_call_id: ToolCallId
    envelope: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBlock:
    """A file by its key; bytes never enter a transcript."""

    file_key: str
    media_type: str


Block = TextBlock | ThinkingBlock | ToolCallBlock | ToolResultBlock | FileBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `provider_state` is opaque JSON of the provider that wrote it (signatures, its
    own call ids), dropped when another provider takes over."""

    role: Role
    blocks: tuple[Block, ...]
    provider_state: str = ""
    is_interrupted: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(block.call for block in self.blocks if isinstance(block, ToolCallBlock))


def user_message(text: str) -> Message:
    return Message(role=Role.USER, blocks=(TextBlock(text),))


def context_message(text: str) -> Message:
    return Message(role=Role.CONTEXT, blocks=(TextBlock(text),))
