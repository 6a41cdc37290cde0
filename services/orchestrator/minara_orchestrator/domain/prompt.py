"""The prompt: declared blocks in a fixed order, and a transcript that only grows (turn.md §3).

Blocks 0 to 3 are the prefix: tool definitions, identity, catalog, memory. Blocks 4 to 8 travel in a
context message directly before the person's message and stay in the history as sent; 4 to 7 only
when they are new or changed, 8 every turn.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from minara_core.messages import Message, context_message, user_message
from minara_core.tooling import ToolDefinition, dump_json
from minara_llm.model import SystemBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlock:
    """One declared block. `key` is its name, made unique within its number (one per skill)."""

    number: int
    key: str
    text: str

    @property
    def mark(self) -> str:
        """`name@hash`: how the history remembers that exactly this text was sent."""
        return f"{self.key}@{hashlib.sha256(self.text.encode()).hexdigest()[:16]}"

    @property
    def is_prefix(self) -> bool:
        return self.number <= 3

    @property
    def is_sent_every_turn(self) -> bool:
        return self.number >= 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What every request of the turn is made of. `transcript` is what this turn adds."""

    blocks: tuple[PromptBlock, ...]
    definitions: tuple[ToolDefinition, ...]
    history: tuple[Message, ...]
    transcript: tuple[Message, ...]
    sent_blocks: tuple[str, ...]

    @property
    def system(self) -> tuple[SystemBlock, ...]:
        prefix = [block for block in self.blocks if 1 <= block.number <= 3 and block.text]
        return tuple(
            SystemBlock(name=block.key, text=block.text, ends_cached_part=block.number >= 2)
            for block in prefix
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.history + self.transcript

    def extended(self, messages: Iterable[Message]) -> "Prompt":
        """The prompt with more messages at its end; nothing before them changes."""
        return replace(self, transcript=(*self.transcript, *messages))


def tools_block(definitions: tuple[ToolDefinition, ...]) -> PromptBlock:
    """Block 0 as people read it; providers are given the definitions themselves."""
    listing = [
        {
            "name": definition.name,
            "description": definition.description,
            "input_schema_json": definition.input_schema_json,
        }
        for definition in definitions
    ]
    return PromptBlock(number=0, key="tools", text=dump_json(listing))


def assemble(
    *,
    blocks: tuple[PromptBlock, ...],
    definitions: tuple[ToolDefinition, ...],
    history: tuple[Message, ...],
    already_sent: frozenset[str],
    text: str,
) -> Prompt:
    """The prompt of a turn that starts with `text` (empty when a decision starts it)."""
    fresh = [
        block
        for block in blocks
        if not block.is_prefix
        and block.text
        and (block.is_sent_every_turn or block.mark not in already_sent)
    ]
    opening = [context_message(render(fresh))]
    if text:
        opening.append(user_message(text))
    return Prompt(
        blocks=blocks,
        definitions=definitions,
        history=history,
        transcript=tuple(opening),
        sent_blocks=tuple(block.mark for block in fresh if not block.is_sent_every_turn),
    )


def render(blocks: Iterable[PromptBlock]) -> str:
    """Blocks as one text, each between tags that name it."""
    return "\n".join(
        f'<block name="{block.key}">\n{block.text.strip()}\n</block>' for block in blocks
    )
