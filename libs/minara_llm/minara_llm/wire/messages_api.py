"""Answers as Anthropic's Messages API writes them."""

from collections.abc import Mapping, Sequence
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
    runs,
    texts_of,
)
from minara_llm.wire.tool_input import readable_input

STOPS = MappingProxyType(
    {
        StopReason.END: "end_turn",
        StopReason.TOOL_CALLS: "tool_use",
        StopReason.MAX_TOKENS: "max_tokens",
        StopReason.REFUSAL: "refusal",
    }
)


def messages_stream(telling: Telling) -> list[Frame]:
    """The answer as events."""
    blocks = [
        block_frames(start, index, *deltas)
        for index, (start, deltas) in enumerate(_blocks(telling))
    ]
    is_mixed = telling.shape is ArgumentShape.INTERLEAVED
    told = round_robin(blocks) if is_mixed else [frame for block in blocks for frame in block]
    return [
        event({"type": "message_start", "message": _begun(telling)}, FrameKind.OPEN),
        event({"type": "ping"}, FrameKind.OPEN),
        *told,
        *message_end(STOPS[telling.answer.reason], telling.output_tokens),
    ]


def messages_whole(telling: Telling) -> Body:
    """The answer as one body."""
    content = [_filled(start, deltas) for start, deltas in _blocks(telling)]
    return {
        **_begun(telling),
        "content": content,
        "stop_reason": STOPS[telling.answer.reason],
        "stop_details": _stop_details(telling.answer.reason),
        "usage": {**usage(telling.cache), "output_tokens": telling.output_tokens},
    }


def event(body: Mapping[str, Any], kind: FrameKind = FrameKind.OTHER) -> Frame:
    """One event, named by its type."""
    return Frame(kind=kind, body=dict(body), event=str(body["type"]))


def block_frames(start: Mapping[str, Any], index: int, *deltas: Mapping[str, Any]) -> list[Frame]:
    """One content block from its start to its stop."""
    return [
        event({"type": "content_block_start", "index": index, "content_block": dict(start)}),
        *(
            event(
                {"type": "content_block_delta", "index": index, "delta": dict(delta)},
                FrameKind.DELTA,
            )
            for delta in deltas
        ),
        event({"type": "content_block_stop", "index": index}),
    ]


def message_end(stop: str, output_tokens: int) -> list[Frame]:
    """Why it ended, and that it did."""
    reason = next((known for known, name in STOPS.items() if name == stop), None)
    delta: Body = {
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": _stop_details(reason),
    }
    return [
        event(
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output_tokens}},
            FrameKind.STOP,
        ),
        event({"type": "message_stop"}, FrameKind.LAST),
    ]


def usage(cache: CacheSeen) -> Body:
    """Input tokens, of which those read and written are named beside the rest, not within."""
    return {
        "input_tokens": cache.fresh_tokens,
        "cache_creation_input_tokens": cache.written_tokens,
        "cache_read_input_tokens": cache.read_tokens,
        "output_tokens": 1,
        "service_tier": "standard",
    }


def _begun(telling: Telling) -> Body:
    return {
        "id": telling.answer_id,
        "type": "message",
        "role": "assistant",
        "model": telling.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "diagnostics": telling.diagnostics,
        "usage": usage(telling.cache),
    }


def _stop_details(reason: StopReason | None) -> Body | None:
    if reason is not StopReason.REFUSAL:
        return None
    return {"type": "refusal", "category": None, "explanation": None}


def _blocks(telling: Telling) -> list[tuple[Body, list[Body]]]:
    """Each content block as its start and its deltas."""
    blocks: list[tuple[Body, list[Body]]] = []
    for run in runs(telling.answer.parts):
        match run[0]:
            case ModelThinking():
                if telling.thinks:
                    blocks.append(_thought(texts_of(run), telling))
            case ModelText():
                deltas: list[Body] = [
                    {"type": "text_delta", "text": text} for text in texts_of(run)
                ]
                blocks.append(({"type": "text", "text": ""}, deltas))
            case ModelToolCall(name=name, arguments_json=arguments):
                blocks.append(_call(name, arguments, telling))
    return blocks


def _thought(texts: Sequence[str], telling: Telling) -> tuple[Body, list[Body]]:
    shown = texts if telling.shows_thinking else ()
    deltas: list[Body] = [{"type": "thinking_delta", "thinking": text} for text in shown]
    signature = telling.signer.sign("".join(shown))
    deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _call(name: str, arguments: str, telling: Telling) -> tuple[Body, list[Body]]:
    start: Body = {
        "type": "tool_use",
        "id": telling.ids.next("toolu_01"),
        "name": name,
        "input": {},
    }
    pieces = ["", *pieces_of(arguments, telling)]
    return start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _filled(start: Body, deltas: Sequence[Body]) -> Body:
    def whole(name: str) -> str:
        return "".join(str(delta.get(name, "")) for delta in deltas)

    match start["type"]:
        case "text":
            return {**start, "text": whole("text")}
        case "thinking":
            return {**start, "thinking": whole("thinking"), "signature": whole("signature")}
        case _:
            return {**start, "input": readable_input(whole("partial_json"))}
