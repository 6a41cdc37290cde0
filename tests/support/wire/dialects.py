"""The two wire formats, as servers of the providers speak them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ChatModel
from minara_llm.openai import OpenAIModel
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


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class AnthropicDialect:
    """Messages."""

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
        blocks: list[bytes] = []
        if texts:
            blocks.append(self.block({"type": "text", "text": ""}, 0, *map(_text_delta, texts)))
        for n, (name, arguments) in enumerate(calls):
            start: dict[str, Any] = {
                "type": "tool_use",
                "id": f"toolu_{n}",
                "name": name,
                "input": {},
            }
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in ["", *_cut(arguments, fragment)]
            ]
            blocks.append(self.block(start, len(blocks), *deltas))
        return self.whole(
            *blocks, stop=stop or ("tool_use" if calls else "end_turn"), has_end=stop is not None
        )

    def whole(self, *blocks: bytes, stop: str = "end_turn", has_end: bool = True) -> bytes:
        usage = {
            "input_tokens": 100,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 100,
            "output_tokens": 1,
        }
        message: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "claude-sonnet-5-5",
            "stop_reason": None,
            "usage": usage,
        }
        parts = [
            self.event({"type": "message_start", "message": message}),
            self.event({"type": "ping"}),
            *blocks,
        ]
        if has_end:
            delta = {"stop_reason": stop, "stop_sequence": None}
            parts += [
                self.event(
                    {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 50}}
                ),
                self.event({"type": "message_stop"}),
            ]
        return b"".join(parts)

    def block(self, start: Mapping[str, Any], index: int, *deltas: Mapping[str, Any]) -> bytes:
        return b"".join(
            [
                self.event({"type": "content_block_start", "index": index, "content_block": start}),
                *(
                    self.event({"type": "content_block_delta", "index": index, "delta": delta})
                    for delta in deltas
                ),
                self.event({"type": "content_block_stop", "index": index}),
            ]
        )

    def event(self, value: Mapping[str, Any]) -> bytes:
        return f"event: {value['type']}\ndata: {_dump(value)}\n\n".encode()

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply:
        body = {"type": "error", "error": {"type": name, "message": message}}
        return Reply(
            status=status,
            headers={"content-type": "application/json", **_dashed(headers)},
            parts=(_dump(body).encode(),),
        )

    def error_event(self, name: str, message: str) -> bytes:
        return self.event({"type": "error", "error": {"type": name, "message": message}})

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
        parts = [self.chunk({"role": "assistant", "content": ""})]
        parts += [self.chunk({"content": text}) for text in texts]
        for n, (name, arguments) in enumerate(calls):
            first = {
                "index": n,
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
            parts.append(self.chunk({"tool_calls": [first]}))
            parts += [
                self.chunk({"tool_calls": [{"index": n, "function": {"arguments": part}}]})
                for part in _cut(arguments, fragment)
            ]
        if stop is None:
            return b"".join(parts)
        usage = {
            "prompt_tokens": 1_000,
            "completion_tokens": 50,
            "total_tokens": 1_050,
            "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 100},
        }
        parts += [
            self.chunk({}, stop or ("tool_calls" if calls else "stop")),
            self.data(
                {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage}
            ),
            b"data: [DONE]\n\n",
        ]
        return b"".join(parts)

    def chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self.data(
            {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-6-sol",
             "choices": [choice]}
        )  # fmt: skip

    def data(self, value: Mapping[str, Any]) -> bytes:
        return f"data: {_dump(value)}\n\n".encode()

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply:
        body = {"error": {"message": message, "type": name, "code": None, "param": None}}
        return Reply(
            status=status,
            headers={"content-type": "application/json", **_dashed(headers)},
            parts=(_dump(body).encode(),),
        )

    def error_event(self, name: str, message: str) -> bytes:
        return self.data({"error": {"message": message, "type": name, "code": name}})

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


def _text_delta(text: str) -> dict[str, str]:
    return {"type": "text_delta", "text": text}


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _without_marks(part: Any) -> Any:
    if isinstance(part, tuple):
        role, block = cast("tuple[str, dict[str, Any]]", part)
        return [role, _without_marks(block)]
    return {name: value for name, value in part.items() if name != "cache_control"}
