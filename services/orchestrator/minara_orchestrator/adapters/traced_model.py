"""A chat model whose calls leave a `chat` span (OpenTelemetry GenAI conventions)."""

import json
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from opentelemetry.trace import Span, SpanKind
from opentelemetry.util.types import AttributeValue

from minara_core.events import TokenUsage
from minara_core.messages import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_llm.model import (
    ChatModel,
    ModelCacheMiss,
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelUsage,
    StopReason,
)
from minara_runtime import genai
from minara_runtime.logging import get_logger
from minara_runtime.redaction import redact
from minara_runtime.telemetry import Telemetry

MOST_CONTENT = 16_384
"""Characters of talk in one attribute, where spans may hold talk at all."""


class TracedModel:
    """Implements ChatModel around another one."""

    def __init__(self, model: ChatModel, telemetry: Telemetry) -> None:
        self._model = model
        self._telemetry = telemetry

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_window(self) -> int:
        return self._model.context_window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        name = f"{genai.CHAT} {self._model.name}"
        attributes = self._attributes(request)
        with self._telemetry.span(name, attributes, kind=SpanKind.CLIENT) as span:
            seen = _Seen(span, has_content=self._telemetry.has_content)
            log = get_logger(f"llm/{self._model.provider}")
            seen.ask(request)
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    seen.take(event)
                    if isinstance(event, ModelCacheMiss):
                        log.warning(
                            "cache_miss",
                            reason=event.reason,
                            input_tokens=event.input_tokens,
                            session_id=request.session_id,
                        )
                    yield event

    def _attributes(self, request: ModelRequest) -> dict[str, AttributeValue]:
        system = sum(len(block.text) for block in request.system)
        said = sum(_length(block) for message in request.messages for block in message.blocks)
        return {
            genai.OPERATION_NAME: genai.CHAT,
            genai.REQUEST_MODEL: self._model.name,
            genai.PROVIDER_NAME: self._model.provider,
            genai.SESSION: request.session_id,
            genai.REQUEST_MAX_TOKENS: request.max_output_tokens,
            genai.PROMPT_CHARACTERS: system + said,
            genai.PROMPT_SYSTEM_CHARACTERS: system,
            genai.PROMPT_MESSAGES: len(request.messages),
            genai.PROMPT_TOOLS: len(request.tools),
        }


class _Seen:
    """What a model's stream has said so far, put on the span as it comes."""

    def __init__(self, span: Span, *, has_content: bool) -> None:
        self._span = span
        self._has_content = has_content
        self._begin = time.perf_counter()
        self._is_first = True
        self._text: list[str] = []
        self._usage = TokenUsage()

    def ask(self, request: ModelRequest) -> None:
        if self._has_content and request.messages:
            self._span.set_attribute(genai.INPUT_MESSAGES, _told(request.messages[-1:]))

    def take(self, event: ModelEvent) -> None:
        span = self._span
        if self._is_first and not isinstance(event, ModelUsage):
            self._is_first = False
            span.set_attribute(genai.FIRST_CHUNK, time.perf_counter() - self._begin)
        match event:
            case ModelText() if self._has_content:
                self._text.append(event.text)
            case ModelUsage():
                self._take_usage(event)
            case ModelStop():
                span.set_attribute(genai.FINISH_REASONS, (_FINISH(event.reason),))
                if self._text:
                    said = TextBlock("".join(self._text))
                    span.set_attribute(genai.OUTPUT_MESSAGES, _told_blocks("assistant", [said]))
            case _:
                pass

    def _take_usage(self, event: ModelUsage) -> None:
        usage = self._usage = self._usage.plus(event.usage)
        self._span.set_attributes(
            {
                genai.INPUT_TOKENS: usage.input_tokens,
                genai.OUTPUT_TOKENS: usage.output_tokens,
                genai.CACHE_READ_TOKENS: usage.cache_read_tokens,
                genai.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
            }
        )
        if usage.cost_usd is not None:
            self._span.set_attribute(genai.COST_USD, str(usage.cost_usd))


_FINISH = {
    StopReason.END: "stop",
    StopReason.TOOL_CALLS: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSAL: "content_filter",
}.__getitem__


def _length(block: Block) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return len(block.text)
        case ToolCallBlock():
            return len(block.call.arguments_json)
        case ToolResultBlock():
            return len(block.envelope)
        case _:
            return 0


def _told(messages: Iterable[Message]) -> str:
    return "\n".join(_told_blocks(message.role.value, message.blocks) for message in messages)


def _told_blocks(role: str, blocks: Iterable[Block]) -> str:
    parts = [
        {"type": "text", "content": block.text} for block in blocks if isinstance(block, TextBlock)
    ]
    text = json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)
    return redact(text)[:MOST_CONTENT]
