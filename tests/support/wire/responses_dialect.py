"""OpenAI's Responses API, as its server streams it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from minara_llm.responses import ResponsesModel
from support.wire.dialects import Calls, Closable
from support.wire.server import Reply, WireServer

Item = Mapping[str, Any]


class ResponsesDialect:
    """What the contract suite needs of the Responses API."""

    def model(self, wire: WireServer, *, timeout_seconds: float = 5.0) -> Closable:
        return ResponsesModel(
            provider="openai",
            api_key="key",
            name="gpt-6-sol",
            base_url=f"{wire.url}/v1",
            timeout_seconds=timeout_seconds,
        )

    def stream(
        self, *texts: str, calls: Calls = (), stop: str | None = "", fragment: int = 7
    ) -> bytes:
        items: list[bytes] = []
        output: list[Item] = []
        if texts:
            item = self.message("".join(texts))
            output.append(item)
            items.append(self.said(item, 0, *texts))
        for n, (name, arguments) in enumerate(calls):
            item = self.call(n, name, arguments)
            parts = [
                arguments[start : start + fragment] for start in range(0, len(arguments), fragment)
            ]
            items.append(self.called(item, len(output), *parts))
            output.append(item)
        return self.whole(*items, output=output, stop=stop)

    def whole(self, *items: bytes, output: Sequence[Item] = (), stop: str | None = "") -> bytes:
        """Items between a beginning and an end; `stop` is why the response is incomplete."""
        begun: dict[str, Any] = {
            "id": "resp_1",
            "object": "response",
            "status": "in_progress",
            "output": [],
        }
        parts = [self.event("response.created", response=begun), *items]
        if stop is None:
            return b"".join(parts)
        usage = {
            "input_tokens": 1_000,
            "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 100},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1_050,
        }
        state = "incomplete" if stop else "completed"
        details = {"reason": stop} if stop else None
        ended = {
            **begun,
            "status": state,
            "output": list(output),
            "usage": usage,
            "incomplete_details": details,
        }
        return b"".join([*parts, self.event(f"response.{state}", response=ended)])

    def message(self, text: str, **more: Any) -> Item:
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        return {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [part],
            **more,
        }

    def call(self, number: int, name: str, arguments: str) -> Item:
        return {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }

    def reasoning(self, *summaries: str, sealed: str | None = "c2VjcmV0+/==") -> Item:
        return {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": text} for text in summaries],
            "encrypted_content": sealed,
        }

    def said(self, item: Item, index: int, *deltas: str) -> bytes:
        parts = [
            self.event(
                "response.output_text.delta",
                item_id=item["id"],
                output_index=index,
                content_index=0,
                delta=delta,
                logprobs=[],
            )
            for delta in deltas
        ]
        return self.between({**item, "content": []}, item, index, *parts)

    def called(self, item: Item, index: int, *deltas: str) -> bytes:
        parts = [
            self.event(
                "response.function_call_arguments.delta",
                item_id=item["id"],
                output_index=index,
                delta=delta,
            )
            for delta in deltas
        ]
        return self.between({**item, "arguments": ""}, item, index, *parts)

    def thought(self, item: Item, index: int) -> bytes:
        where = {"item_id": item["id"], "output_index": index}
        parts: list[bytes] = []
        for n, part in enumerate(item["summary"]):
            place = {**where, "summary_index": n}
            empty = {"type": "summary_text", "text": ""}
            parts += [
                self.event("response.reasoning_summary_part.added", **place, part=empty),
                self.event("response.reasoning_summary_text.delta", **place, delta=part["text"]),
                self.event("response.reasoning_summary_text.done", **place, text=part["text"]),
            ]
        begun: Item = {**item, "summary": [], "encrypted_content": None}
        return self.between(begun, item, index, *parts)

    def between(self, begun: Item, done: Item, index: int, *parts: bytes) -> bytes:
        return b"".join(
            [
                self.event("response.output_item.added", output_index=index, item=begun),
                *parts,
                self.event("response.output_item.done", output_index=index, item=done),
            ]
        )

    def event(self, name: str, **body: Any) -> bytes:
        value = {"type": name, "sequence_number": 0, **body}
        return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()

    def error(self, status: int, name: str, message: str, **headers: str) -> Reply:
        body = {"error": {"message": message, "type": name, "code": None, "param": None}}
        dashed = {key.replace("_", "-"): value for key, value in headers.items()}
        return Reply(
            status=status,
            headers={"content-type": "application/json", **dashed},
            parts=(json.dumps(body).encode(),),
        )

    def error_event(self, name: str, message: str) -> bytes:
        return self.event("error", code=name, message=message, param=None)

    def flattened(self, body: Mapping[str, Any]) -> list[str]:
        return [json.dumps(part, ensure_ascii=False) for part in (*body["tools"], *body["input"])]

    def call_ids(self, body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        def ids(kind: str) -> list[str]:
            return [item["call_id"] for item in body["input"] if item["type"] == kind]

        return ids("function_call"), ids("function_call_output")
