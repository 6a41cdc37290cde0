"""The prompt: declared blocks in a fixed order, and a transcript that only grows (turn.md §3).

Blocks 0 to 3 are the prefix: tool definitions, identity, catalog, memory. Blocks 4 to 8 travel in a
context message directly before the person's message and stay in the history as sent; 4 to 7 only
when they are new or changed, 8 every turn. When the history is replaced, what it no longer holds is
sent again.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from minara_core.messages import Message, Role, context_message, user_message
from minara_core.tooling import ToolDefinition, dump_json
from minara_llm.model import SystemBlock
from minara_orchestrator.domain.history import (
    Compaction,
    CompactionRecord,
    History,
    messages_of,
    repaired,
)

_TAGS = re.compile(r"<(?=/?block\b)")
_BLOCK = re.compile(r'<block name="(?P<name>[^"\n]*)">\n(?P<text>.*?)\n</block>', re.DOTALL)

NEVER_REFERRED_TO = frozenset({"signal", "decided_action", "action_outcome", "summary", "earlier"})
"""Blocks of one moment: they are sent whenever there is something to say, never by name alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlock:
    """One declared block. `key` is its name, made unique within its number (one per skill)."""

    number: int
    key: str
    text: str

    @property
    def shown(self) -> str:
        """The text as a message holds it: stripped, and unable to end its own block."""
        return _TAGS.sub("‹", self.text).strip()

    @property
    def mark(self) -> str:
        """`name@hash`: how the history remembers that exactly this text was sent."""
        return mark_of(self.key, self.shown)

    @property
    def is_prefix(self) -> bool:
        return self.number <= 3

    @property
    def is_sent_every_turn(self) -> bool:
        return self.number >= 8


def mark_of(name: str, shown: str) -> str:
    return f"{name}@{hashlib.sha256(shown.encode('utf-8', 'replace')).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What every request of the turn is made of: the history, the opening (a context message, and
    the person's message if there is one), and what follows.

    `turn_count` is how many recorded turns the history stands for. `sent_blocks` are the marks that
    the opening puts into it. `compaction` is set when the history was replaced in this turn.
    `overflows_met` counts the rungs that were taken because the provider refused this step's
    request as too long.
    """

    blocks: tuple[PromptBlock, ...]
    definitions: tuple[ToolDefinition, ...]
    history: History
    opening: tuple[Message, ...]
    following: tuple[Message, ...] = ()
    sent_blocks: tuple[str, ...]
    turn_id: str = ""
    turn_count: int = 0
    compaction: Compaction | None = None
    overflows_met: int = 0

    @property
    def system(self) -> tuple[SystemBlock, ...]:
        prefix = [block for block in self.blocks if 1 <= block.number <= 3 and block.text]
        return tuple(
            SystemBlock(name=block.key, text=block.text, ends_cached_part=block.number >= 2)
            for block in prefix
        )

    @property
    def transcript(self) -> tuple[Message, ...]:
        """What this turn adds to the history."""
        return self.opening + self.following

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a model is sent: every tool call with its one result, whatever was stored."""
        return repaired(messages_of(self.history) + self.transcript)

    def extended(self, messages: Iterable[Message]) -> "Prompt":
        """The prompt with more messages at its end; nothing before them changes."""
        return replace(self, following=(*self.following, *messages))

    def with_history(self, history: History) -> "Prompt":
        """The prompt over another history; blocks that it lacks stand in the opening again."""
        kept = marks_in(messages_of(history))
        context, sent = _context(self.blocks, frozenset(kept))
        records = self.compaction.records if self.compaction is not None else ()
        return replace(
            self,
            history=history,
            opening=(context, *self.opening[1:]),
            sent_blocks=sent,
            compaction=Compaction(
                history=history,
                through_turn_number=self.turn_count,
                sent_blocks=kept,
                records=records,
            ),
        )

    def noting(self, record: CompactionRecord) -> "Prompt":
        """The prompt whose compaction, if there is one, also tells of `record`."""
        if self.compaction is None:
            return self
        records = (*self.compaction.records, record)
        return replace(self, compaction=replace(self.compaction, records=records))


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
    history: History,
    already_sent: frozenset[str],
    text: str,
    turn_id: str = "",
    turn_count: int = 0,
) -> Prompt:
    """The prompt of a turn that starts with `text` (empty when a decision starts it)."""
    context, sent = _context(blocks, already_sent)
    return Prompt(
        blocks=blocks,
        definitions=definitions,
        history=history,
        opening=(context, user_message(text)) if text else (context,),
        sent_blocks=sent,
        turn_id=turn_id,
        turn_count=turn_count,
    )


def _context(
    blocks: Iterable[PromptBlock], already_sent: frozenset[str]
) -> tuple[Message, tuple[str, ...]]:
    """The context message that the history still lacks, and the marks it puts there."""
    fresh = [
        block
        for block in blocks
        if not block.is_prefix
        and block.text
        and (block.is_sent_every_turn or block.mark not in already_sent)
    ]
    marks = tuple(block.mark for block in fresh if not block.is_sent_every_turn)
    return context_message(render(fresh)), marks


def render(blocks: Iterable[PromptBlock]) -> str:
    """Blocks as one text, each between tags that name it."""
    return "\n".join(f'<block name="{block.key}">\n{block.shown}\n</block>' for block in blocks)


def blocks_in(text: str) -> list[tuple[str, str]]:
    """Name and text of each block that `render` put into `text`."""
    return [(found["name"], found["text"]) for found in _BLOCK.finditer(text)]


def marks_in(messages: Iterable[Message]) -> tuple[str, ...]:
    """The marks of the blocks that stand whole in these messages and may be referred to by name."""
    marks = [
        mark_of(name, text)
        for message in messages
        if message.role is Role.CONTEXT
        for name, text in blocks_in(message.text)
        if name not in NEVER_REFERRED_TO
    ]
    return tuple(dict.fromkeys(marks))
