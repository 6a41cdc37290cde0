"""Whatever JSON a server puts into events of the right outer shape, only ModelFailure comes out,
and what was kept of the answer can be sent back."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minara_core.messages import Message, user_message
from minara_llm.anthropic_reply import AnthropicReply
from minara_llm.anthropic_request import MessagesDialect, messages_request
from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.openai_reply import ChatReply
from minara_llm.openai_request import ChatDialect, chat_body
from minara_llm.prices import facts_of
from minara_llm.responses_reply import ResponsesReply
from minara_llm.responses_request import ResponsesDialect, responses_body
from minara_llm.wire.chat_checks import check_chat
from minara_llm.wire.memory import Memory
from minara_llm.wire.messages_checks import check_messages
from minara_llm.wire.models import WIRE_MODELS, model_named
from minara_llm.wire.responses_checks import check_responses
from minara_llm.wire.signatures import Signer
from support.wire.requests import a_request, results_of, said

CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "get_price", "input": {}}
ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "redacted_thinking", "data": "x"},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": CALL},
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    },
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 2},
    },
]
FRAGMENT = {"index": 0, "id": "call_1", "function": {"name": "get_price", "arguments": "{}"}}
CHAT: list[Any] = [
    {
        "choices": [
            {
                "index": 0,
                "finish_reason": None,
                "delta": {"content": "Hi", "reasoning": "hm", "tool_calls": None},
            }
        ]
    },
    {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "delta": {"content": None, "refusal": None, "tool_calls": [FRAGMENT]},
            }
        ]
    },
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
    },
]
ITEMS: list[Any] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "x",
        "summary": [{"type": "summary_text", "text": "hm"}],
    },
    {
        "type": "message",
        "id": "msg_1",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Hi"}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "get_price",
        "arguments": "{}",
    },
]
RESPONSES: list[Any] = [
    *[
        {"type": f"response.output_item.{event}", "output_index": n, "item": item}
        for n, item in enumerate(ITEMS)
        for event in ("added", "done")
    ],
    {
        "type": "response.completed",
        "response": {
            "output": ITEMS,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "incomplete_details": None,
        },
    },
]


ODD: list[Any] = [
    *(None, True, 0, 5, -1, 1.5, float("nan"), [], [1], [None], {}, {"a": 1}, {"type": 5}),
    *("", "\ud800", "a\udfffb", "\0", "x" * 200, "call_m0c0", "msg_1", "get_price"),
    *("refusal", "max_tokens", "length", "content_filter", "tool_use", "message"),
]

odd = st.one_of(
    st.sampled_from(ODD),
    st.integers(),
    st.floats(),
    st.recursive(
        st.one_of(st.none(), st.text(max_size=2)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(st.sampled_from(["type", "id", "text"]), inner, max_size=2),
        ),
        max_leaves=4,
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside of a JSON value."""
    for key, inner in _inside(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def spoilt(events: list[Any]) -> st.SearchStrategy[list[Any]]:
    """The events with other values at up to three places."""
    wheres = st.lists(st.sampled_from(list(places(events))), max_size=3)
    return st.tuples(wheres, st.lists(odd, min_size=3, max_size=3)).map(
        lambda drawn: with_values(events, *drawn)
    )


def with_values(
    events: list[Any], wheres: Sequence[tuple[Any, ...]], values: Sequence[Any]
) -> list[Any]:
    made = copy.deepcopy(events)
    for (*path, last), value in zip(wheres, values, strict=False):
        place: Any = made
        for key in path:
            place = place[key] if _has(place, key) else None
        if _has(place, last):
            place[last] = value
    return made


def _has(place: Any, key: Any) -> bool:
    return isinstance(place, dict | list) and any(key == each for each, _ in _inside(place))


def _inside(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).items())
    return list(enumerate(cast("list[Any]", value)))


def as_parts(value: Any) -> Any:
    """JSON as the SDKs hand it on: objects with fields, unchecked."""
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): as_parts(inner) for key, inner in _inside(value)})
    return [as_parts(inner) for _, inner in _inside(value)] if isinstance(value, list) else value


def heard(reply: Any, events: list[Any]) -> Message | None:
    """The message that the loop keeps; None when the stream is a failure."""
    told: list[ModelEvent] = []
    try:
        for event in events:
            told += reply.take(as_parts(event))
        told += reply.finish()
    except ModelFailure:
        return None
    message = said(told)
    kept = json.dumps([message.text, message.provider_state], ensure_ascii=False)
    kept += "".join(call.name + call.arguments_json for call in message.tool_calls)
    kept.encode("utf-8", "strict")
    return message


def replayed(model: str, message: Message) -> ModelRequest:
    again = (message, results_of(message)) if message.tool_calls else (message,)
    return a_request(
        user_message("hi"), *again, user_message("and?"), *again, user_message("so?"), model=model
    )


def check_messages_replay(events: list[Any]) -> None:
    model = "claude-sonnet-5-5"
    message = heard(AnthropicReply(model=model), events)
    if message is not None:
        # What the server could have signed is another matter.
        dialect = MessagesDialect(replays_thinking=False)
        body = messages_request(replayed(model, message), dialect, facts_of(model)).body
        check(model, body, check_messages, Memory(Signer(b"k")))


def check_chat_replay(events: list[Any]) -> None:
    model = "gpt-6-sol"
    message = heard(ChatReply(provider="openai", model=model), events)
    if message is not None:
        dialect = ChatDialect(provider="openai", is_native=True)
        check(model, chat_body(replayed(model, message), dialect, facts_of(model)), check_chat)


def check_responses_replay(events: list[Any]) -> None:
    model = "gpt-6-sol"
    message = heard(ResponsesReply(provider="openai", model=model), events)
    if message is not None:
        dialect = ResponsesDialect(provider="openai", replays_reasoning=False)
        body = responses_body(replayed(model, message), dialect, facts_of(model))
        check(model, body, check_responses, Memory(Signer(b"k")))


def check(model: str, body: dict[str, Any], rules: Callable[..., None], *memory: Memory) -> None:
    known = model_named(WIRE_MODELS, model)
    assert known is not None
    sent = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "strict")
    rules(json.loads(sent), known, *memory)


STREAMS = [
    pytest.param(check_messages_replay, ANTHROPIC, id="messages"),
    pytest.param(check_chat_replay, CHAT, id="chat"),
    pytest.param(check_responses_replay, RESPONSES, id="responses"),
]


@pytest.mark.parametrize(("replay", "events"), STREAMS)
def test_a_stream_with_one_odd_value_is_an_answer_or_a_failure(
    replay: Callable[[list[Any]], None], events: list[Any]
) -> None:
    for where in places(events):
        for value in ODD:
            replay(with_values(events, [where], [value]))


@settings(max_examples=300, deadline=None)
@given(spoilt(ANTHROPIC))
def test_any_messages_stream_is_an_answer_or_a_failure(events: list[Any]) -> None:
    check_messages_replay(events)


@settings(max_examples=300, deadline=None)
@given(spoilt(CHAT))
def test_any_chat_stream_is_an_answer_or_a_failure(events: list[Any]) -> None:
    check_chat_replay(events)


@settings(max_examples=300, deadline=None)
@given(spoilt(RESPONSES))
def test_any_responses_stream_is_an_answer_or_a_failure(events: list[Any]) -> None:
    check_responses_replay(events)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_arguments_too_deep_to_be_read_are_a_malformed_stream() -> None:
    block = SimpleNamespace(type="tool_use", id="toolu_1", name="get_price", input=nested(20_000))
    reply = AnthropicReply(model="m")
    with pytest.raises(ModelFailure) as caught:
        reply.take(SimpleNamespace(type="content_block_start", index=0, content_block=block))
    assert caught.value.kind is FailureKind.MALFORMED_STREAM
