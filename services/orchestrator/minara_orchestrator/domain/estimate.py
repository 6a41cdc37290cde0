"""How many tokens a prompt has: estimated from UTF-8 bytes, corrected by what providers report."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from minara_core.messages import (
    Block,
    FileBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_orchestrator.domain.prompt import Prompt

ASCII_BYTES_PER_TOKEN = 3.6
OTHER_BYTES_PER_TOKEN = 3.0
"""Of text in other scripts: Chinese, Japanese and Korean characters are three bytes each."""

IMAGE_TOKENS = 1_600
FILE_TOKENS = 6_000
"""Of a document; its bytes are not at hand here, and the provider's report corrects the sum."""

_MESSAGE_TOKENS = 6
_BLOCK_BYTES = 32
"""Of a stored message's and block's own form."""

_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0
_WEIGHT_OF_NEWEST = 0.3


def text_tokens(text: str) -> int:
    """Estimated tokens of a text, before any correction."""
    return math.ceil(_text_tokens(text))


def _text_tokens(text: str) -> float:
    if text.isascii():
        return len(text) / ASCII_BYTES_PER_TOKEN
    in_ascii = len(text.encode("ascii", "ignore"))
    others = len(text.encode("utf-8", "replace")) - in_ascii
    return in_ascii / ASCII_BYTES_PER_TOKEN + others / OTHER_BYTES_PER_TOKEN


def byte_size(text: str) -> int:
    """Bytes of a text as it is stored."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def stored_bytes(messages: Iterable[Message]) -> int:
    """Bytes that messages have where they are stored, with what providers keep in them for
    themselves: that is no text, and no model counts it."""
    return sum(
        _BLOCK_BYTES
        + byte_size(message.provider_state)
        + sum(_BLOCK_BYTES + _block_bytes(block) for block in message.blocks)
        for message in messages
    )


def _block_bytes(block: Block) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return byte_size(block.text)
        case ToolCallBlock():
            return byte_size(block.call.name) + byte_size(block.call.arguments_json)
        case ToolResultBlock():
            return byte_size(block.envelope)
        case FileBlock():
            return byte_size(block.file_key)


def _block_tokens(block: Block) -> float:
    match block:
        case TextBlock() | ThinkingBlock():
            return _text_tokens(block.text)
        case ToolCallBlock():
            return _text_tokens(block.call.name) + _text_tokens(block.call.arguments_json)
        case ToolResultBlock():
            return _text_tokens(block.envelope)
        case FileBlock():
            return IMAGE_TOKENS if block.media_type.startswith("image/") else FILE_TOKENS


@dataclass(frozen=True, slots=True)
class Measure:
    """Estimates for one model; `factor` is what its reports have made of the plain estimate."""

    factor: float = 1.0

    def text(self, text: str) -> int:
        return math.ceil(_text_tokens(text) * self.factor)

    def messages(self, messages: Iterable[Message]) -> int:
        tokens = sum(
            _MESSAGE_TOKENS + sum(_block_tokens(block) for block in message.blocks)
            for message in messages
        )
        return math.ceil(tokens * self.factor)

    def prompt(self, prompt: Prompt) -> int:
        """Input tokens of the next request, tool definitions included."""
        return self.prefix(prompt) + self.messages(prompt.messages)

    def prefix(self, prompt: Prompt) -> int:
        """Of them, tools and system: what no compaction touches."""
        tokens = sum(_text_tokens(block.text) for block in prompt.system)
        tokens += sum(
            _text_tokens(definition.name)
            + _text_tokens(definition.description)
            + _text_tokens(definition.input_schema_json)
            for definition in prompt.definitions
        )
        return math.ceil(tokens * self.factor)


class TokenEstimator:
    """Learns from usage reports how far the plain estimate is off, model by model."""

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}

    def measure(self, model_name: str) -> Measure:
        return Measure(self._factors.get(model_name, 1.0))

    def learn(self, model_name: str, *, estimated: int, told: int) -> None:
        """Take in a report: `estimated` is what `measure` said, `told` what the provider counted.

        The factor is a moving average between 0.5 and 2; a report of nothing teaches nothing.
        """
        if estimated <= 0 or told <= 0:
            return
        factor = self._factors.get(model_name, 1.0)
        moved = factor + _WEIGHT_OF_NEWEST * (factor * told / estimated - factor)
        self._factors[model_name] = min(_MOST_FACTOR, max(_LEAST_FACTOR, moved))
