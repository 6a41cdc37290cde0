"""Answers as OpenAI's Chat Completions, and the many servers that follow it, write them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from minara_llm.model import ModelText, ModelThinking, ModelToolCall, StopReason
from minara_llm.wire.bodies import Body
from minara_llm.wire.cache import CacheSeen
from minara_llm.wire.frames import (
    ArgumentShape,
    Frame,
    FrameKind,
    Telling,
    pieces_of,
    round_robin,
)

STOPS = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.TOOL_CALLS: "tool_calls",
        StopReason.MAX_TOKENS: "length",
        StopReason.REFUSAL: "content_filter",
    }
)
DONE = Frame(kind=FrameKind.LAST, raw=b"data: [DONE]\n\n")


def chat_stream(telling: Telling) -> list[Frame]:
    """The answer as chunks, with usage behind the stop and `[DONE]` behind that."""
    calls = _numbered(telling)
    columns = [_call_deltas(call_id, n, call, telling) for n, (call_id, call) in enumerate(calls)]
    is_mixed = telling.shape is ArgumentShape.INTERLEAVED
    fragments = round_robin(columns) if is_mixed else [f for column in columns for f in column]
    frames = [
        chunk(telling, {"role": "assistant", "content": ""}, kind=FrameKind.OPEN),
        *_said(telling),
        *fragments,
        chunk(telling, {}, STOPS[telling.answer.reason], kind=FrameKind.STOP),
    ]
    if telling.has_usage_chunk:
        body: Body = {**_head(telling), "choices": [], "usage": _usage_of(telling)}
        frames.append(Frame(kind=FrameKind.USAGE, body=body))
    return [*frames, DONE]


def chat_whole(telling: Telling) -> Body:
    """The answer as one body."""
    is_refused = telling.answer.reason is StopReason.REFUSAL
    text = "".join(p.text for p in telling.answer.parts if isinstance(p, ModelText))
    message: Body = {
        "role": "assistant",
        "content": None if is_refused else (text or None),
        "refusal": text if is_refused else None,
    }
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_json},
        }
        for call_id, call in _numbered(telling)
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": STOPS[telling.answer.reason],
    }
    head = {**_head(telling), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": _usage_of(telling)}


def chunk(
    telling: Telling,
    delta: Mapping[str, Any],
    finish_reason: str | None = None,
    *,
    kind: FrameKind = FrameKind.DELTA,
) -> Frame:
    """One chunk with one choice."""
    choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish_reason}
    return Frame(kind=kind, body={**_head(telling), "choices": [choice], "usage": None})


def usage(cache: CacheSeen, output_tokens: int) -> Body:
    """Input tokens, of which some were read or written."""
    return {
        "prompt_tokens": cache.total_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": cache.total_tokens + output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": cache.read_tokens,
            "cache_write_tokens": cache.written_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _head(telling: Telling) -> Body:
    return {
        "id": telling.answer_id,
        "object": "chat.completion.chunk",
        "created": telling.created,
        "model": telling.model,
    }


def _usage_of(telling: Telling) -> Body:
    return usage(telling.cache, telling.output_tokens)


def _numbered(telling: Telling) -> list[tuple[str, ModelToolCall]]:
    return [(telling.ids.next("call_"), call) for call in telling.answer.tool_calls]


def _said(telling: Telling) -> list[Frame]:
    """Texts and, from servers that show it, thinking."""
    is_refused = telling.answer.reason is StopReason.REFUSAL
    frames: list[Frame] = []
    for part in telling.answer.parts:
        match part:
            case ModelText(text=text):
                frames.append(chunk(telling, {"refusal" if is_refused else "content": text}))
            case ModelThinking(text=text) if telling.shows_thinking:
                frames.append(chunk(telling, {"reasoning_content": text}))
            case _:
                pass
    return frames


def _call_deltas(call_id: str, index: int, call: ModelToolCall, telling: Telling) -> list[Frame]:
    """The fragments of one call, in the shape that is asked for."""
    shape = telling.shape
    pieces = pieces_of(call.arguments_json, telling)
    first, rest = "", pieces
    if shape is ArgumentShape.WHOLE:
        first, rest = call.arguments_json, []
    elif shape is ArgumentShape.FIRST_BRACE_WITH_NAME:
        first, rest = call.arguments_json[:1], [call.arguments_json[1:]]
    head: Body = {
        "index": index,
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": first},
    }
    if shape is ArgumentShape.NAME_ALONE:
        head["function"] = {"name": call.name}
    fragments = [head, *(_later(index, piece, shape) for piece in rest)]
    return [chunk(telling, {"tool_calls": [_indexed(each, shape)]}) for each in fragments]


def _later(index: int, piece: str, shape: ArgumentShape) -> Body:
    fragment: Body = {"index": index, "function": {"arguments": piece}}
    if shape is ArgumentShape.NULL_IDS:
        fragment |= {"id": None, "type": None, "function": {"name": None, "arguments": piece}}
    return fragment


def _indexed(fragment: Body, shape: ArgumentShape) -> Body:
    if shape is ArgumentShape.SAME_INDEX:
        return {**fragment, "index": 0}
    if shape is ArgumentShape.NO_INDEX:
        return {name: value for name, value in fragment.items() if name != "index"}
    return fragment
