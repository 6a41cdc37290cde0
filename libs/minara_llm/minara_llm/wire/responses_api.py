"""Answers as OpenAI's Responses API writes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

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
    runs,
    texts_of,
)

_INCOMPLETE = MappingProxyType(
    {StopReason.MAX_TOKENS: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
)
_SENT_BACK = (
    "instructions",
    "max_output_tokens",
    "parallel_tool_calls",
    "prompt_cache_key",
    "store",
    "temperature",
    "tool_choice",
    "tools",
)


@dataclass(frozen=True, slots=True)
class OutputItem:
    """A finished item, and the deltas by which its text came."""

    body: Body
    deltas: tuple[str, ...]


def responses_stream(telling: Telling) -> list[Frame]:
    """The answer as events, numbered in order."""
    items = items_of(telling)
    columns = [_item_frames(item, n) for n, item in enumerate(items)]
    is_mixed = telling.shape is ArgumentShape.INTERLEAVED
    told = round_robin(columns) if is_mixed else [f for column in columns for f in column]
    begun = _response(telling, [], "in_progress")
    end = responses_body(telling, items)
    frames = [
        _event("response.created", {"response": begun}, FrameKind.OPEN),
        _event("response.in_progress", {"response": begun}, FrameKind.OPEN),
        *told,
        _event(f"response.{end['status']}", {"response": end}, FrameKind.LAST),
    ]
    return numbered(frames)


def responses_whole(telling: Telling) -> Body:
    """The answer as one body."""
    return responses_body(telling, items_of(telling))


def responses_body(telling: Telling, items: Sequence[OutputItem]) -> Body:
    """The finished response of these items."""
    reason = _INCOMPLETE.get(telling.answer.reason)
    is_filtered = telling.answer.reason is StopReason.REFUSAL
    has_ended = reason is None or is_filtered
    return {
        **_response(
            telling, [item.body for item in items], "completed" if has_ended else "incomplete"
        ),
        "incomplete_details": None if has_ended else {"reason": reason},
        "usage": usage(telling.cache, telling.output_tokens),
    }


def usage(cache: CacheSeen, output_tokens: int) -> Body:
    """Input tokens, of which some were read or written."""
    return {
        "input_tokens": cache.total_tokens,
        "input_tokens_details": {
            "cached_tokens": cache.read_tokens,
            "cache_write_tokens": cache.written_tokens,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": cache.total_tokens + output_tokens,
    }


def numbered(frames: Sequence[Frame]) -> list[Frame]:
    """With their sequence numbers."""
    return [
        Frame(
            kind=frame.kind,
            event=frame.event,
            body={"type": frame.event, "sequence_number": n, **frame.body},
        )
        for n, frame in enumerate(frames)
    ]


def _event(event: str, body: Body, kind: FrameKind = FrameKind.OTHER) -> Frame:
    return Frame(kind=kind, event=event, body=body)


def _response(telling: Telling, items: Sequence[Body], state: str) -> Body:
    asked = {name: telling.asked[name] for name in _SENT_BACK if name in telling.asked}
    return {
        "id": telling.answer_id,
        "object": "response",
        "created_at": telling.created,
        "status": state,
        "error": None,
        "incomplete_details": None,
        "model": telling.model,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **asked,
    }


def items_of(telling: Telling) -> list[OutputItem]:
    """What is said, as output items: one for each thought, text and call."""
    items: list[OutputItem] = []
    for run in runs(telling.answer.parts):
        match run[0]:
            case ModelThinking():
                if telling.thinks:
                    items.append(_thought(texts_of(run), telling))
            case ModelText():
                items.append(_message(texts_of(run), telling))
            case ModelToolCall(name=name, arguments_json=arguments):
                items.append(_call(name, arguments, telling))
    return items


def _thought(texts: Sequence[str], telling: Telling) -> OutputItem:
    thought, item_id = "".join(texts), telling.ids.next("rs_")
    shown = telling.shows_thinking
    body = {
        "type": "reasoning",
        "id": item_id,
        "summary": [{"type": "summary_text", "text": thought}] if shown else [],
        "encrypted_content": telling.signer.seal(f"{item_id}\n{thought}"),
    }
    return OutputItem(body, tuple(texts) if shown else ())


def _message(texts: Sequence[str], telling: Telling) -> OutputItem:
    is_refused = telling.answer.reason is StopReason.REFUSAL
    body = {
        "type": "message",
        "id": telling.ids.next("msg_"),
        "role": "assistant",
        "status": "completed",
        "content": [_content("".join(texts), is_refused=is_refused)],
    }
    return OutputItem(body, tuple(texts))


def _call(name: str, arguments: str, telling: Telling) -> OutputItem:
    body = {
        "type": "function_call",
        "id": telling.ids.next("fc_"),
        "call_id": telling.ids.next("call_"),
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }
    pieces = () if telling.shape is ArgumentShape.WHOLE else pieces_of(arguments, telling)
    return OutputItem(body, tuple(pieces))


def _content(text: str, *, is_refused: bool) -> Body:
    if is_refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_frames(item: OutputItem, index: int) -> list[Frame]:
    body = item.body
    match body["type"]:
        case "message":
            begun, told = _message_frames(item, index)
        case "reasoning":
            begun, told = _thought_frames(item, index)
        case _:
            begun, told = _call_frames(item, index)
    begun = {**begun, "status": "in_progress"} if "status" in body else begun
    return [
        _event("response.output_item.added", {"output_index": index, "item": begun}),
        *told,
        _event("response.output_item.done", {"output_index": index, "item": body}),
    ]


def _message_frames(item: OutputItem, index: int) -> tuple[Body, list[Frame]]:
    part = item.body["content"][0]
    is_refused = part["type"] == "refusal"
    kind, text = ("refusal", "refusal") if is_refused else ("output_text", "text")
    where: Body = {"item_id": item.body["id"], "output_index": index, "content_index": 0}
    empty = _content("", is_refused=is_refused)
    logs: Body = {} if is_refused else {"logprobs": []}
    told = [
        _event("response.content_part.added", {**where, "part": empty}),
        *(
            _event(f"response.{kind}.delta", {**where, "delta": delta, **logs}, FrameKind.DELTA)
            for delta in item.deltas
        ),
        _event(f"response.{kind}.done", {**where, text: part[text], **logs}),
        _event("response.content_part.done", {**where, "part": part}),
    ]
    return {**item.body, "content": []}, told


def _thought_frames(item: OutputItem, index: int) -> tuple[Body, list[Frame]]:
    begun: Body = {**item.body, "summary": [], "encrypted_content": None}
    if not item.body["summary"]:
        return begun, []
    text = item.body["summary"][0]["text"]
    where: Body = {"item_id": item.body["id"], "output_index": index, "summary_index": 0}
    name = "response.reasoning_summary"
    told = [
        _event(f"{name}_part.added", {**where, "part": {"type": "summary_text", "text": ""}}),
        *(
            _event(f"{name}_text.delta", {**where, "delta": delta}, FrameKind.DELTA)
            for delta in item.deltas
        ),
        _event(f"{name}_text.done", {**where, "text": text}),
        _event(f"{name}_part.done", {**where, "part": item.body["summary"][0]}),
    ]
    return begun, told


def _call_frames(item: OutputItem, index: int) -> tuple[Body, list[Frame]]:
    where: Body = {"item_id": item.body["id"], "output_index": index}
    name = "response.function_call_arguments"
    arguments = item.body["arguments"]
    told = [
        *(
            _event(f"{name}.delta", {**where, "delta": piece}, FrameKind.DELTA)
            for piece in item.deltas
        ),
        _event(f"{name}.done", {**where, "arguments": arguments, "name": item.body["name"]}),
    ]
    return {**item.body, "arguments": ""}, told
