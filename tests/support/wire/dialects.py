"""The wire formats as prepared bytes, for answers that no honest provider gives."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ChatModel, ModelText, ModelToolCall
from minara_llm.openai import OpenAIModel
from minara_llm.wire import chat_api, messages_api
from minara_llm.wire.bodies import Api, Refusal, error_body
from minara_llm.wire.brain import Answer
from minara_llm.wire.cache import CacheSeen
from minara_llm.wire.faults import OddStopFault, error_frame
from minara_llm.wire.frames import Frame, FrameKind, Ids, Telling, frames_sent
from minara_llm.wire.signatures import Signer
from support.wire.server import Reply, WireServer

Calls = Sequence[tuple[str, str]]
"""Names and arguments, as the model writes them."""


class Closable(ChatModel, Protocol):
    async def aclose(self) -> None: ...


class Dialect(Protocol):
    """What the contract suite needs of a provider's wire format."""

    def model(self, wire: WireServer, *, timeout_seconds: float = 5.0) -> Closable: ...

    def stream(
        self, *texts: str, calls: Calls = (), stop: str | None = "", fragment: int = 7
    ) -> bytes:
        """A whole answer: texts, then calls whose arguments come in fragments of that many
        characters. `stop` None leaves the end out, "" is the usual one."""
        ...

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply: ...

    def error_event(self, name: str, message: str) -> bytes: ...

    def flattened(self, body: Mapping[str, Any]) -> list[str]:
        """What is cached of a request, in order: system, tools, then each block said."""
        ...

    def call_ids(self, body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Ids of calls, and ids that results answer."""
        ...


class AnthropicDialect:
    """Messages."""

    def __init__(self) -> None:
        self._ids = Ids("anthropic")

    def model(self, wire: WireServer, *, timeout_seconds: float = 5.0) -> Closable:
        return AnthropicModel(
            api_key="key",
            name="claude-sonnet-5-5",
            base_url=wire.url,
            timeout_seconds=timeout_seconds,
        )

    def stream(
        self, *texts: str, calls: Calls = (), stop: str | None = "", fragment: int = 7
    ) -> bytes:
        telling = a_telling("claude-sonnet-5-5", self._ids, texts, calls, fragment)
        return frames_sent(ended(Api.MESSAGES, messages_api.messages_stream(telling), stop))

    def whole(self, *blocks: bytes, stop: str = "end_turn", has_end: bool = True) -> bytes:
        """A stream of these blocks."""
        head, _, end = self.stream(stop=stop).partition(b"event: message_delta")
        return b"".join([head, *blocks, *([b"event: message_delta", end] if has_end else [])])

    def block(self, start: Mapping[str, Any], index: int, *deltas: Mapping[str, Any]) -> bytes:
        return frames_sent(messages_api.block_frames(start, index, *deltas))

    def event(self, value: Mapping[str, Any]) -> bytes:
        return messages_api.event(value).sent

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply:
        return an_error(Api.MESSAGES, status, name, message, headers)

    def error_event(self, name: str, message: str) -> bytes:
        return error_frame(Api.MESSAGES, name, message).sent

    def flattened(self, body: Mapping[str, Any]) -> list[str]:
        said = [
            (message["role"], block) for message in body["messages"] for block in message["content"]
        ]
        parts = [*body["tools"], *body["system"], *said]
        return [_dump(_without_marks(part)) for part in parts]

    def call_ids(self, body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return (
            [block["id"] for block in blocks if block["type"] == "tool_use"],
            [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
        )


class ChatDialect:
    """Chat Completions; OpenAI's own, or that of a compatible server."""

    def __init__(self, *, is_native: bool) -> None:
        self._is_native = is_native
        self._ids = Ids("openai" if is_native else "compatible")

    def model(self, wire: WireServer, *, timeout_seconds: float = 5.0) -> Closable:
        return OpenAIModel(
            provider="openai" if self._is_native else "ollama",
            api_key="key",
            name="gpt-6-sol",
            base_url=f"{wire.url}/v1",
            is_native=self._is_native,
            timeout_seconds=timeout_seconds,
        )

    def stream(
        self, *texts: str, calls: Calls = (), stop: str | None = "", fragment: int = 7
    ) -> bytes:
        telling = a_telling("gpt-6-sol", self._ids, texts, calls, fragment)
        return frames_sent(ended(Api.CHAT, chat_api.chat_stream(telling), stop))

    def chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        telling = a_telling("gpt-6-sol", self._ids, (), (), 7)
        return chat_api.chunk(telling, delta, finish_reason).sent

    def data(self, value: Mapping[str, Any]) -> bytes:
        return Frame(kind=FrameKind.OTHER, body=dict(value)).sent

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply:
        return an_error(Api.CHAT, status, name, message, headers)

    def error_event(self, name: str, message: str) -> bytes:
        return error_frame(Api.CHAT, name, message).sent

    def flattened(self, body: Mapping[str, Any]) -> list[str]:
        return [_dump(part) for part in (*body["tools"], *body["messages"])]

    def call_ids(self, body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        calls = [
            call["id"] for message in body["messages"] for call in message.get("tool_calls", ())
        ]
        return (
            calls,
            [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"],
        )


def a_telling(model: str, ids: Ids, texts: Sequence[str], calls: Calls, fragment: int) -> Telling:
    """Of 1,000 input tokens 800 were read and 100 written; 50 come out."""
    parts = [ModelText(text=text) for text in texts]
    asked = [ModelToolCall(name=name, arguments_json=arguments) for name, arguments in calls]
    return Telling(
        answer=Answer(parts=(*parts, *asked)),
        model=model,
        answer_id="msg_1",
        ids=ids,
        signer=Signer(b"dialect"),
        cache=CacheSeen(read_tokens=800, written_tokens=100, fresh_tokens=100, total_tokens=1_000),
        output_tokens=50,
        created=1,
        piece=fragment,
    )


def ended(api: Api, frames: Sequence[Frame], stop: str | None) -> Sequence[Frame]:
    """With this stop; "" is the one it has, None cuts the end off."""
    if stop is None:
        ends = {FrameKind.STOP, FrameKind.USAGE, FrameKind.LAST}
        return [frame for frame in frames if frame.kind not in ends]
    return OddStopFault(reason=stop).told(api, frames) if stop else frames


def an_error(api: Api, status: int, name: str, message: str, headers: Mapping[str, str]) -> Reply:
    """An HTTP error; underscores in names of headers are dashes."""
    refusal = Refusal(status=status, kind=name, message=message)
    dashed = {header.replace("_", "-"): value for header, value in headers.items()}
    return Reply(
        status=status,
        headers={"content-type": "application/json", **dashed},
        parts=(_dump(error_body(api, refusal)).encode(),),
    )


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _without_marks(part: Any) -> Any:
    if isinstance(part, tuple):
        role, block = cast("tuple[str, dict[str, Any]]", part)
        return [role, _without_marks(block)]
    return {name: value for name, value in part.items() if name != "cache_control"}
