"""Whether a request fits the model's window. Tokens are estimated from UTF-8 bytes (turn.md §4)."""

from minara_core.errors import LimitExceeded
from minara_core.messages import (
    Block,
    FileBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_core.reasons import ErrorReason
from minara_orchestrator.domain.prompt import Prompt

BYTES_PER_TOKEN = 3.6
RESERVED_OUTPUT_TOKENS = 8_192
SAFETY_MARGIN = 0.04
_MESSAGE_OVERHEAD_BYTES = 24


def _block_bytes(block: Block) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return len(block.text.encode())
        case ToolCallBlock():
            return len(block.call.name) + len(block.call.arguments_json.encode())
        case ToolResultBlock():
            return len(block.envelope.encode())
        case FileBlock():
            return 4_096


def _message_bytes(message: Message) -> int:
    return _MESSAGE_OVERHEAD_BYTES + sum(_block_bytes(block) for block in message.blocks)


def estimate_tokens(prompt: Prompt) -> int:
    """Input tokens the next request of this prompt would have, tool definitions included."""
    size = sum(len(block.text.encode()) for block in prompt.system)
    size += sum(
        len(definition.description.encode()) + len(definition.input_schema_json)
        for definition in prompt.definitions
    )
    size += sum(_message_bytes(message) for message in prompt.messages)
    return int(size / BYTES_PER_TOKEN) + 1


def available_tokens(context_window: int) -> int:
    """What input may take of a window, after reserved output and the safety margin."""
    return context_window - RESERVED_OUTPUT_TOKENS - int(context_window * SAFETY_MARGIN)


def fit(prompt: Prompt, context_window: int) -> Prompt:
    """`prompt` itself when it fits; raises LimitExceeded (CONTEXT_TOO_LARGE) when it cannot."""
    needed, available = estimate_tokens(prompt), available_tokens(context_window)
    if needed > available:
        raise LimitExceeded(
            "the conversation is too long for this model; start a new session",
            reason=ErrorReason.CONTEXT_TOO_LARGE,
            metadata={"tokens": str(needed), "available": str(available)},
        )
    return prompt
