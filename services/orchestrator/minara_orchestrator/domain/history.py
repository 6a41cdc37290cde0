"""What was said before this turn, turn by turn, and how it is kept valid for every provider."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from minara_core.ids import ToolCallId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.reasons import ErrorReason
from minara_core.tooling import err

OLDER_TURNS = "older"
"""Stands for the ids of turns that were recorded before their ids were kept with them."""

_LOST = err(f"{ErrorReason.INTERNAL}: the result of this call was lost; call again if you need it")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTurn:
    """The messages of one finished turn, or, without a turn's id, a boundary note: it tells what
    was said before it."""

    turn_id: str
    messages: tuple[Message, ...]

    @property
    def is_note(self) -> bool:
        return not self.turn_id


History = tuple[HistoryTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """What one rung of the ladder did, in estimated input tokens of the whole request."""

    rung: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A history that replaces the one before it, for this turn and all later ones.

    `through_turn_number` is how many turns of the session it stands for, `sent_blocks` which prompt
    blocks stand in it whole.
    """

    history: History
    through_turn_number: int
    sent_blocks: tuple[str, ...]
    records: tuple[CompactionRecord, ...] = ()


def messages_of(history: Iterable[HistoryTurn]) -> tuple[Message, ...]:
    return tuple(message for turn in history for message in turn.messages)


def history_of(messages: Sequence[Message], parts: Iterable[tuple[str, int]]) -> History:
    """The turns of a history whose `parts` name id and number of messages, oldest first.

    Messages before those that the parts cover are taken for one older turn; so are all of them when
    the parts speak of more than there are.
    """
    sizes = list(parts)
    place = len(messages) - sum(count for _, count in sizes)
    if place < 0:
        sizes, place = [], len(messages)
    older = messages[:place]
    turns = [HistoryTurn(turn_id=OLDER_TURNS, messages=tuple(older))] if older else []
    for turn_id, count in sizes:
        turns.append(HistoryTurn(turn_id=turn_id, messages=tuple(messages[place : place + count])))
        place += count
    return tuple(turn for turn in turns if turn.messages)


def repaired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with exactly one result for each tool call, directly after it.

    A call without a result gets one that says so; a result without a call, or a second one, is left
    out. Messages with nothing wrong are returned as they are.
    """
    return tuple(_paired(messages))


def _paired(messages: Sequence[Message]) -> Iterator[Message]:
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message.role is Role.TOOL:
            continue
        yield message
        results: list[Message] = []
        while place < len(messages) and messages[place].role is Role.TOOL:
            results.append(messages[place])
            place += 1
        calls = [call.tool_call_id for call in message.tool_calls]
        if results or calls:
            yield from results if _is_whole(calls, results) else _answered(calls, results)


def _is_whole(calls: Sequence[ToolCallId], results: Sequence[Message]) -> bool:
    """Whether one message answers each call once, in order: almost always, and quick to see."""
    if len(results) != 1 or len(set(calls)) != len(calls):
        return False
    blocks = results[0].blocks
    answered = [block.tool_call_id for block in blocks if isinstance(block, ToolResultBlock)]
    return answered == calls and len(blocks) == len(calls)


def _answered(calls: Sequence[ToolCallId], results: Sequence[Message]) -> Iterator[Message]:
    open_calls = Counter(calls)
    kept = [answer for each in results if (answer := _expected(each, open_calls)).blocks]
    missing = tuple(
        ToolResultBlock(tool_call_id=call, envelope=_LOST, is_error=True)
        for call in open_calls.elements()
    )
    if missing and kept:
        kept[-1] = replace(kept[-1], blocks=kept[-1].blocks + missing)
    elif missing:
        kept = [Message(role=Role.TOOL, blocks=missing)]
    yield from kept


def _expected(message: Message, open_calls: Counter[ToolCallId]) -> Message:
    """The message with those of its results that a call still waits for."""
    blocks = tuple(
        block
        for block in message.blocks
        if isinstance(block, ToolResultBlock) and _take(open_calls, block.tool_call_id)
    )
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _take(open_calls: Counter[ToolCallId], call: ToolCallId) -> bool:
    if open_calls[call] <= 0:
        return False
    open_calls[call] -= 1
    return True
