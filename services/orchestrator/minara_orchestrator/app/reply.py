"""What a model says in one call: streamed, told, and kept."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from minara_core.events import TextDelta, ThinkingDelta, TokenUsage
from minara_core.ids import tool_call_id
from minara_core.messages import Block, Message, Role, TextBlock, ThinkingBlock, ToolCallBlock
from minara_core.tooling import ToolCall
from minara_llm.model import (
    FailureKind,
    ModelCacheMiss,
    ModelEvent,
    ModelFailure,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.prices import cost_of
from minara_orchestrator.app.ports import Emit
from minara_orchestrator.app.stop_signal import StopSignal, TurnStopped

SILENCE_SECONDS = 120.0
"""How long a model may say nothing, whatever its connection does meanwhile."""

_MOST_CHARACTERS_PER_TOKEN = 16
_SPARE_CHARACTERS = 100_000


@dataclass(slots=True, kw_only=True)
class Reply:
    """What the model has said so far in this step; complete once `stop` is set. `is_stopped` when
    the turn was stopped meanwhile."""

    step: int
    parent: str = ""
    blocks: list[Block] = field(default_factory=list[Block])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: TokenUsage = field(default_factory=TokenUsage)
    stop: StopReason | None = None
    provider_state: str = ""
    failure: ModelFailure | None = None
    is_out_of_time: bool = False
    is_stopped: bool = False
    characters: int = 0

    def take(self, event: ModelEvent, emit: Emit) -> None:
        match event:
            case ModelText():
                self._append_text(event.text)
                emit(TextDelta(text=event.text))
            case ModelThinking():
                self._append_thinking(event.text)
                emit(ThinkingDelta(text=event.text))
            case ModelToolCall():
                call = ToolCall(
                    tool_call_id=tool_call_id(self.step, len(self.calls), self.parent),
                    name=event.name,
                    arguments_json=event.arguments_json,
                )
                self.calls.append(call)
                self.characters += len(event.arguments_json)
                self.blocks.append(ToolCallBlock(call))
            case ModelUsage():
                self.usage = self.usage.plus(event.usage)
            case ModelStop():
                self._end(event)
            case ModelCacheMiss():
                pass

    @property
    def has_spoken(self) -> bool:
        """Whether anything was told that another attempt would tell again."""
        return bool(self.blocks)

    def make_up_usage(self, model: str, *, input_tokens: int, output_tokens: int) -> None:
        """Charge what was estimated where the provider has reported nothing, or, of a reply that
        broke off, only how it began."""
        told = self.usage
        if told.input_tokens and (self.stop is not None or told.output_tokens >= output_tokens):
            return
        usage = replace(
            told,
            input_tokens=told.input_tokens or input_tokens,
            output_tokens=max(told.output_tokens, output_tokens),
        )
        self.usage = replace(usage, cost_usd=cost_of(model, usage))

    def stop_at(self, failure: ModelFailure) -> None:
        """The call broke off here."""
        self.failure, self.stop = failure, None

    def _end(self, stop: ModelStop) -> None:
        self.stop = stop.reason
        self.provider_state = stop.provider_state
        if stop.reason is StopReason.REFUSAL:
            # What a model called before it refused must not run.
            self.calls.clear()
            self.blocks = [each for each in self.blocks if not isinstance(each, ToolCallBlock)]

    def _append_text(self, text: str) -> None:
        self.characters += len(text)
        last = self.blocks[-1] if self.blocks else None
        if isinstance(last, TextBlock):
            self.blocks[-1] = TextBlock(last.text + text)
        else:
            self.blocks.append(TextBlock(text))

    def _append_thinking(self, text: str) -> None:
        self.characters += len(text)
        last = self.blocks[-1] if self.blocks else None
        if isinstance(last, ThinkingBlock):
            self.blocks[-1] = ThinkingBlock(last.text + text)
        else:
            self.blocks.append(ThinkingBlock(text))

    def message(self) -> Message | None:
        """The assistant message, or None when there is nothing to keep.

        Of a reply that broke off, only its text is kept: half a tool call must never run.
        """
        blocks = self.blocks
        if self.stop is None:
            blocks = [block for block in blocks if isinstance(block, TextBlock)]
        if not blocks:
            return None
        return Message(
            role=Role.ASSISTANT,
            blocks=tuple(blocks),
            provider_state=self.provider_state if self.stop else "",
            is_interrupted=self.stop is None,
        )


async def hear(
    events: AsyncGenerator[ModelEvent, None],
    step: int,
    emit: Emit,
    *,
    seconds: float,
    most_tokens: int,
    stop: StopSignal,
    parent: str = "",
    silence_seconds: float = SILENCE_SECONDS,
) -> Reply:
    """Listen to one model message to its end; a ModelFailure is part of the reply.

    It takes at most `seconds`, after which the reply `is_out_of_time`, and ends when the turn is to
    stop. A model that says nothing
    for `silence_seconds`, or far more than `most_tokens`, has failed.
    """
    reply = Reply(step=step, parent=parent)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    most_characters = most_tokens * _MOST_CHARACTERS_PER_TOKEN + _SPARE_CHARACTERS
    try:
        async with (
            stop.breaking(),
            asyncio.timeout(min(seconds, silence_seconds)) as limit,
            aclosing(events),
        ):
            async for event in events:
                reply.take(event, emit)
                if reply.characters > most_characters:
                    raise ModelFailure("the model does not stop", kind=FailureKind.MALFORMED_STREAM)
                limit.reschedule(min(end, loop.time() + silence_seconds))
    except ModelFailure as failure:
        reply.stop_at(failure)
    except TurnStopped:
        reply.is_stopped, reply.stop = True, None
    except TimeoutError:
        reply.stop_at(ModelFailure("the model did not answer in time", kind=FailureKind.TIMEOUT))
        reply.is_out_of_time = loop.time() >= end
    return reply
