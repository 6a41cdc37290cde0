"""A chat model whose calls leave a `chat` span (OpenTelemetry GenAI conventions)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from opentelemetry.trace import SpanKind

from minara_llm.model import ChatModel, ModelEvent, ModelRequest, ModelUsage
from minara_runtime import genai
from minara_runtime.telemetry import Telemetry


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
        attributes = {
            genai.OPERATION_NAME: "chat",
            genai.REQUEST_MODEL: self._model.name,
            genai.PROVIDER_NAME: self._model.provider,
            genai.SESSION_ID: request.session_id,
        }
        name = f"chat {self._model.name}"
        with self._telemetry.span(name, attributes, kind=SpanKind.CLIENT) as span:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, ModelUsage):
                        span.set_attribute(genai.INPUT_TOKENS, event.usage.input_tokens)
                        span.set_attribute(genai.OUTPUT_TOKENS, event.usage.output_tokens)
                    yield event
