"""The prompt a message would produce, without any side effect (`--dump-prompt`)."""

from minara_orchestrator.app.open_turn import TurnOpening
from minara_orchestrator.domain.prompt import PromptBlock, tools_block
from minara_orchestrator.domain.turn import Turn, input_text


class PromptRenderer:
    def __init__(self, opening: TurnOpening) -> None:
        self._opening = opening

    async def render(self, turn: Turn) -> tuple[PromptBlock, ...]:
        """All blocks in their declared order, then the message; empty ones are left out.

        Raises as opening a turn.
        """
        opened = await self._opening.open(turn, validate_only=True)
        message = PromptBlock(number=9, key="message", text=input_text(turn.input))
        blocks = (tools_block(opened.catalog.definitions), *opened.prompt.blocks, message)
        return tuple(block for block in blocks if block.text)
