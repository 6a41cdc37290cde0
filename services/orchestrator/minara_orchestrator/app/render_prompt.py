"""The prompt a message would produce, without any side effect (`--dump-prompt`)."""

from collections.abc import Iterator

from minara_core.messages import (
    Block,
    FileBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_orchestrator.app.open_turn import TurnOpening
from minara_orchestrator.domain.history import History, repaired
from minara_orchestrator.domain.prompt import PromptBlock, tools_block
from minara_orchestrator.domain.turn import Turn, input_text


class PromptRenderer:
    def __init__(self, opening: TurnOpening) -> None:
        self._opening = opening

    async def render(self, turn: Turn) -> tuple[PromptBlock, ...]:
        """All blocks in their declared order, the history behind the frozen ones, and the message
        at the end; empty ones are left out. The history is what is stored: a turn may cut it more.

        Raises as opening a turn.
        """
        opened = await self._opening.open(turn, validate_only=True)
        prompt = opened.prompt
        blocks = (
            tools_block(opened.catalog.definitions),
            *(block for block in prompt.blocks if block.is_prefix),
            PromptBlock(number=3, key="history", text="\n".join(_lines(prompt.history))),
            *(block for block in prompt.blocks if not block.is_prefix),
            PromptBlock(number=9, key="message", text=input_text(turn.input)),
        )
        return tuple(block for block in blocks if block.text)


def _lines(history: History) -> Iterator[str]:
    """Every message of the history as a model is sent it, under its role."""
    for turn in history:
        yield f"--- {'boundary note' if turn.is_note else f'turn {turn.turn_id}'}"
        for message in repaired(turn.messages):
            for block in message.blocks:
                yield f"[{message.role.value}] {_text(block)}"


def _text(block: Block) -> str:
    match block:
        case TextBlock() | ThinkingBlock():
            return block.text
        case ToolCallBlock():
            return f"calls {block.call.name} {block.call.arguments_json}"
        case ToolResultBlock():
            return block.envelope
        case FileBlock():
            return f"file {block.file_key}, {block.media_type}"
