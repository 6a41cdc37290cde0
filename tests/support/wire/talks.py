"""One question through the unmodified SDKs, streamed or whole, and all that was heard of it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from minara_llm.wire.bodies import Api
from minara_llm.wire.provider import Provider
from support.wire.provider import anthropic_sdk, openai_sdk

TOOL_NAME = "get_price"
_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"symbol": {"type": "string"}}}


@dataclass(slots=True)
class Heard:
    """`calls` are names and arguments by the key that the API tells calls apart by."""

    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    calls: dict[Any, list[str]] = field(default_factory=dict[Any, list[str]])
    kinds: list[str] = field(default_factory=list[str])
    stop: str | None = None
    usage: Any = None
    answer: Any = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """The calls with their arguments in one piece."""
        return [(name, "".join(pieces)) for name, *pieces in self.calls.values()]


class Talk(Protocol):
    """How one API is asked."""

    api: Api
    body: Mapping[str, Any]

    async def listen(self, provider: Provider, heard: Heard) -> None:
        """Ask for a stream and hear it into `heard`, until it ends or the SDK raises."""
        ...

    async def ask(self, provider: Provider) -> Heard:
        """Ask for a whole answer."""
        ...


class MessagesTalk:
    api = Api.MESSAGES
    body: Mapping[str, Any] = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1_000,
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": TOOL_NAME, "description": "", "input_schema": _SCHEMA}],
    }

    async def listen(self, provider: Provider, heard: Heard) -> None:
        sdk: Any
        async with anthropic_sdk(provider) as sdk:
            events: Any
            async with await sdk.messages.create(**self.body, stream=True) as events:
                await _each(events, heard, self._take)

    async def ask(self, provider: Provider) -> Heard:
        sdk: Any
        async with anthropic_sdk(provider) as sdk:
            answer: Any = await sdk.messages.create(**self.body)
        heard = Heard(stop=answer.stop_reason, usage=answer.usage, answer=answer)
        heard.texts = [block.text for block in answer.content if block.type == "text"]
        heard.thoughts = [block.thinking for block in answer.content if block.type == "thinking"]
        return heard

    def _take(self, event: Any, heard: Heard) -> None:
        heard.kinds.append(event.type)
        match event.type:
            case "message_start":
                heard.answer = event.message
                heard.usage = event.message.usage
            case "content_block_start" if event.content_block.type == "tool_use":
                heard.calls[event.index] = [event.content_block.name]
            case "content_block_delta":
                self._grow(event, heard)
            case "message_delta":
                heard.stop = event.delta.stop_reason
            case _:
                pass

    def _grow(self, event: Any, heard: Heard) -> None:
        match event.delta.type:
            case "text_delta":
                heard.texts.append(event.delta.text)
            case "thinking_delta":
                heard.thoughts.append(event.delta.thinking)
            case "input_json_delta":
                heard.calls[event.index].append(event.delta.partial_json)
            case _:
                pass


class ChatTalk:
    api = Api.CHAT
    body: Mapping[str, Any] = {
        "model": "gpt-5.4",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": TOOL_NAME, "parameters": _SCHEMA}}],
    }

    async def listen(self, provider: Provider, heard: Heard) -> None:
        sdk: Any
        async with openai_sdk(provider) as sdk:
            chunks: Any
            options: Any = {"include_usage": True}
            async with await sdk.chat.completions.create(
                **self.body, stream=True, stream_options=options
            ) as chunks:
                await _each(chunks, heard, self._take)

    async def ask(self, provider: Provider) -> Heard:
        sdk: Any
        async with openai_sdk(provider) as sdk:
            answer: Any = await sdk.chat.completions.create(**self.body)
        choice = answer.choices[0]
        heard = Heard(stop=choice.finish_reason, usage=answer.usage, answer=answer)
        heard.texts = [choice.message.content or choice.message.refusal or ""]
        return heard

    def _take(self, chunk: Any, heard: Heard) -> None:
        heard.usage = chunk.usage or heard.usage
        heard.answer = heard.answer or chunk
        for choice in chunk.choices:
            heard.stop = choice.finish_reason or heard.stop
            heard.texts += [t for t in (choice.delta.content, choice.delta.refusal) if t]
            thought = getattr(choice.delta, "reasoning_content", None)
            heard.thoughts += [thought] if thought else []
            for fragment in choice.delta.tool_calls or ():
                self._grow(fragment, heard)

    def _grow(self, fragment: Any, heard: Heard) -> None:
        """By id where one is given, else to the newest call of that index."""
        if fragment.id is not None:
            heard.calls[fragment.id] = [fragment.function.name]
            heard.kinds.append(f"{fragment.index}:{fragment.id}")
        index = getattr(fragment, "index", None)
        key = next(k for k in reversed(heard.kinds) if k.startswith(f"{index}:")).split(":")[1]
        heard.calls[key].append(fragment.function.arguments or "")


class ResponsesTalk:
    api = Api.RESPONSES
    body: Mapping[str, Any] = {
        "model": "gpt-6-sol",
        "input": "hi",
        "store": False,
        "reasoning": {"summary": "auto"},
        "tools": [{"type": "function", "name": TOOL_NAME, "parameters": _SCHEMA, "strict": False}],
    }

    async def listen(self, provider: Provider, heard: Heard) -> None:
        sdk: Any
        async with openai_sdk(provider) as sdk:
            events: Any
            async with await sdk.responses.create(**self.body, stream=True) as events:
                await _each(events, heard, self._take)

    async def ask(self, provider: Provider) -> Heard:
        sdk: Any
        async with openai_sdk(provider) as sdk:
            answer: Any = await sdk.responses.create(**self.body)
        heard = Heard(stop=answer.status, usage=answer.usage, answer=answer)
        heard.texts = [answer.output_text]
        return heard

    def _take(self, event: Any, heard: Heard) -> None:
        heard.kinds.append(event.type)
        match event.type.removeprefix("response."):
            case "output_text.delta" | "refusal.delta":
                heard.texts.append(event.delta)
            case "reasoning_summary_text.delta":
                heard.thoughts.append(event.delta)
            case "output_item.added" if event.item.type == "function_call":
                heard.calls[event.output_index] = [event.item.name]
            case "output_item.done" if event.item.type == "function_call":
                heard.calls[event.output_index].append(event.item.arguments)
            case "completed" | "incomplete" | "failed":
                heard.answer = event.response
                heard.usage = event.response.usage
                details = event.response.incomplete_details
                heard.stop = details.reason if details else event.response.status
            case _:
                pass


async def _each(events: AsyncIterator[Any], heard: Heard, take: Any) -> None:
    async for event in events:
        take(event, heard)


TALKS: Mapping[str, Talk] = {
    "messages": MessagesTalk(),
    "chat": ChatTalk(),
    "responses": ResponsesTalk(),
}
