"""What is Chat Completions' own: fragments in every shape, and how far each server goes."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.messages import context_message, user_message
from minara_llm.model import FailureKind, ModelFailure, ModelThinking, StopReason
from minara_llm.openai import OpenAIModel
from support.wire.dialects import ChatDialect, Closable
from support.wire.requests import (
    a_request,
    a_tool,
    ask,
    results_of,
    said,
    stop,
    texts,
    tool_calls,
    usage,
)
from support.wire.server import Reply, WireServer, a_wire_server

NATIVE = ChatDialect(is_native=True)
COMPATIBLE = ChatDialect(is_native=False)
DONE = b"data: [DONE]\n\n"


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


@pytest.fixture
async def model(wire: WireServer) -> AsyncGenerator[Closable]:
    made = NATIVE.model(wire)
    yield made
    await made.aclose()


def fragments(*parts: dict[str, Any], end: str = "tool_calls") -> bytes:
    chunks = [NATIVE.chunk({"tool_calls": [part]}) for part in parts]
    return b"".join([*chunks, NATIVE.chunk({}, end), DONE])


def a_fragment(
    index: int | None, call_id: str | None, name: str | None, arguments: str | None
) -> dict[str, Any]:
    part: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": call_id}
    return part if index is None else {"index": index, **part}


BTC, ETH = '{"symbol":"BTC"}', '{"symbol":"ETH"}'


@pytest.mark.parametrize(
    "parts",
    [
        # Whole in one; name first, then arguments with a null id; interleaved; the name repeated.
        [a_fragment(0, "a", "get_price", BTC), a_fragment(1, "b", "get_price", ETH)],
        [
            a_fragment(0, "a", "get_price", None),
            a_fragment(0, None, None, BTC),
            a_fragment(1, "b", "get_price", ""),
            a_fragment(1, None, None, ETH[:5]),
            a_fragment(1, None, "", ETH[5:]),
        ],
        [
            a_fragment(0, "a", "get_price", BTC[:3]),
            a_fragment(1, "b", "get_price", ETH[:3]),
            a_fragment(0, None, None, BTC[3:]),
            a_fragment(1, None, None, ETH[3:]),
        ],
        [
            a_fragment(0, "a", "get_price", BTC[:3]),
            a_fragment(0, "a", "get_price", BTC[3:]),
            a_fragment(1, "b", "get_price", ETH),
        ],
        # The same index for every call, or no index at all: a new id begins a new call.
        [
            a_fragment(0, "a", "get_price", BTC),
            a_fragment(0, "b", "get_price", ETH[:4]),
            a_fragment(0, "b", None, ETH[4:]),
        ],
        # No ids: a name and arguments behind whole ones begin a new call.
        [
            a_fragment(0, None, "get_price", BTC[:4]),
            a_fragment(0, None, None, BTC[4:]),
            a_fragment(0, None, "get_price", ETH),
        ],
        # The name alone, at every index, then arguments that begin with the name's fragment.
        [
            a_fragment(0, "a", "get_price", None),
            a_fragment(1, "b", "get_price", None),
            a_fragment(0, "a", "get_price", BTC[:1]),
            a_fragment(0, None, None, BTC[1:]),
            a_fragment(1, "b", None, ETH),
        ],
        [
            a_fragment(None, "a", "get_price", BTC[:4]),
            a_fragment(None, None, None, BTC[4:]),
            a_fragment(None, "b", "get_price", ETH),
        ],
    ],
)
async def test_fragments_make_calls_in_whatever_shape_they_come(
    wire: WireServer, model: Closable, parts: list[dict[str, Any]]
) -> None:
    wire.answer(Reply(parts=(fragments(*parts),)))
    events = await ask(model, a_request())
    assert tool_calls(events) == [("get_price", BTC), ("get_price", ETH)]
    wire.answer(Reply(parts=(NATIVE.stream("Done."),)))
    reply = said(events)
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    calls, answered = NATIVE.call_ids(wire.requests[1].json)
    has_ids = any(part["id"] for part in parts)
    assert calls == answered
    assert len(set(calls)) == 2
    assert not has_ids or calls == ["a", "b"]


async def test_calls_without_telling_ids_get_ids_of_ours(wire: WireServer, model: Closable) -> None:
    wire.answer(
        Reply(
            parts=(
                fragments(
                    a_fragment(0, None, "get_price", BTC), a_fragment(1, None, "get_price", ETH)
                ),
            )
        ),
        Reply(parts=(NATIVE.stream("Done."),)),
    )
    reply = said(await ask(model, a_request()))
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    calls, answered = NATIVE.call_ids(wire.requests[1].json)
    assert calls == answered
    assert len(set(calls)) == 2


async def test_arguments_go_back_byte_for_byte(wire: WireServer, model: Closable) -> None:
    odd = '{ "amount" : 0.10,\t"symbol":"以太" }'
    wire.answer(
        Reply(parts=(fragments(a_fragment(0, "a", "buy_token", odd)),)),
        Reply(parts=(NATIVE.stream("Done."),)),
    )
    reply = said(await ask(model, a_request()))
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    (message,) = [m for m in wire.requests[1].json["messages"] if m["role"] == "assistant"]
    assert message["tool_calls"][0]["function"]["arguments"] == odd
    assert "content" not in message


async def test_two_calls_that_cannot_be_told_apart_never_run_as_one(
    wire: WireServer, model: Closable
) -> None:
    glued = (a_fragment(0, None, "get_price", BTC), a_fragment(0, None, None, ETH))
    wire.answer(Reply(parts=(fragments(*glued),)))
    assert tool_calls(await ask(model, a_request())) == [("get_price", BTC + ETH)]


async def test_arguments_that_come_as_an_object_are_its_text(wire: WireServer) -> None:
    model = COMPATIBLE.model(wire)
    part = a_fragment(0, "a", "get_price", None)
    part["function"]["arguments"] = {"symbol": "以太"}
    wire.answer(Reply(parts=(fragments(part),)))
    assert tool_calls(await ask(model, a_request())) == [("get_price", '{"symbol":"以太"}')]
    await model.aclose()


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (fragments(a_fragment(0, "a", None, BTC)), FailureKind.MALFORMED_STREAM),
        (NATIVE.stream("Hel", stop="error"), FailureKind.OVERLOADED),
    ],
    ids=["a call without a name", "an end that is an error"],
)
async def test_what_must_not_run_is_a_failure(
    wire: WireServer, model: Closable, stream: bytes, kind: FailureKind
) -> None:
    wire.answer(Reply(parts=(stream,)))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is kind


async def test_a_stop_with_calls_means_calls(wire: WireServer, model: Closable) -> None:
    wire.answer(Reply(parts=(fragments(a_fragment(0, "a", "get_price", BTC), end="stop"),)))
    events = await ask(model, a_request())
    assert stop(events).reason is StopReason.TOOL_CALLS


async def test_missing_usage_is_unknown_and_not_a_failure(
    wire: WireServer, model: Closable
) -> None:
    stream = NATIVE.chunk({"content": "Hi."}) + NATIVE.chunk({}, "stop") + DONE
    wire.answer(Reply(parts=(stream,)))
    events = await ask(model, a_request())
    assert texts(events) == ["Hi."]
    assert (usage(events).input_tokens, usage(events).output_tokens) == (0, 0)


async def test_a_refusal_is_told_as_text_and_as_the_reason(
    wire: WireServer, model: Closable
) -> None:
    stream = NATIVE.chunk({"refusal": "I cannot."}) + NATIVE.chunk({}, "stop") + DONE
    wire.answer(Reply(parts=(stream,)))
    events = await ask(model, a_request())
    assert texts(events) == ["I cannot."]
    assert stop(events).reason is StopReason.REFUSAL


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("stop", StopReason.END),
    ],
)
async def test_every_end_has_its_reason(
    wire: WireServer, model: Closable, name: str, reason: StopReason
) -> None:
    wire.answer(Reply(parts=(NATIVE.stream("Hm.", stop=name),)))
    assert stop(await ask(model, a_request())).reason is reason


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_thinking_of_compatible_servers_is_told(wire: WireServer, field: str) -> None:
    model = COMPATIBLE.model(wire)
    stream = COMPATIBLE.chunk({field: "Hmm. "}) + COMPATIBLE.stream("Hi.")
    wire.answer(Reply(parts=(stream,)))
    events = await ask(model, a_request())
    await model.aclose()
    assert [event.text for event in events if isinstance(event, ModelThinking)] == ["Hmm. "]
    assert texts(events) == ["Hi."]


async def test_openai_is_asked_for_all_it_can(wire: WireServer, model: Closable) -> None:
    wire.answer(Reply(parts=(NATIVE.stream("Hi."),)))
    await ask(model, a_request(context_message("[signal]"), user_message("hello")))
    body = wire.requests[0].json
    assert [m["role"] for m in body["messages"]] == ["system", "developer", "user"]
    assert body["messages"][0]["content"] == "You are Minara.\n\n# Skills\n\n# Memory"
    assert body["prompt_cache_key"] == "session-1"
    assert body["max_completion_tokens"] == 1_000
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "none"
    assert body["tool_choice"] == "auto"
    assert wire.requests[0].path == "/v1/chat/completions"
    assert wire.requests[0].headers["authorization"] == "Bearer key"


async def test_compatible_servers_are_asked_only_for_what_they_all_take(wire: WireServer) -> None:
    model = COMPATIBLE.model(wire)
    wire.answer(Reply(parts=(COMPATIBLE.stream("Hi."),)))
    request = a_request(context_message("[s]"), user_message("hello"), callable_tools=("x",))
    await ask(model, request)
    await model.aclose()
    body = wire.requests[0].json
    assert [m["role"] for m in body["messages"]] == ["system", "system", "user"]
    assert body["max_tokens"] == 1_000
    assert body["tool_choice"] == "auto"
    assert not {"prompt_cache_key", "max_completion_tokens", "reasoning_effort"} & set(body)


async def test_openai_may_be_held_to_the_callable_tools(wire: WireServer, model: Closable) -> None:
    tools = (
        a_tool("activate_skills", "turn"),
        a_tool("buy_token", "trade", 3),
        a_tool("get_price", "read"),
        a_tool("read_file", "file"),
        a_tool("write_file", "file", 2),
    )
    wire.answer(Reply(parts=(NATIVE.stream("Hi."),)))
    await ask(model, a_request(tools=tools, callable_tools=("read_file", "unknown")))
    choice = wire.requests[0].json["tool_choice"]
    assert choice["type"] == "allowed_tools"
    assert choice["allowed_tools"]["mode"] == "auto"
    assert [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]] == [
        "activate_skills",
        "get_price",
        "read_file",
    ]
    assert len(wire.requests[0].json["tools"]) == 5


async def test_another_path_is_used_when_it_is_set(wire: WireServer) -> None:
    model = OpenAIModel(
        provider="openai", api_key="key", name="m", base_url=wire.url, chat_path="/api/v9/talk"
    )
    wire.answer(Reply(parts=(NATIVE.stream("Hi."),)))
    assert texts(await ask(model, a_request())) == ["Hi."]
    await model.aclose()
    assert wire.requests[0].path == "/api/v9/talk"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "context_length_exceeded", "message": "long"}, FailureKind.CONTEXT_OVERFLOW),
        ({"code": "insufficient_quota", "message": "pay"}, FailureKind.AUTHENTICATION),
        ({"code": 502, "message": "upstream"}, FailureKind.OVERLOADED),
        ({"code": 429, "message": "slow"}, FailureKind.RATE_LIMITED),
        ({"message": "?"}, FailureKind.OVERLOADED),
    ],
)
async def test_codes_inside_a_stream_say_what_went_wrong(
    wire: WireServer, model: Closable, error: dict[str, Any], kind: FailureKind
) -> None:
    wire.answer(Reply(parts=(NATIVE.data({"error": error}),)))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is kind
