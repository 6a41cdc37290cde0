"""What is the Responses API's own: items, reasoning that comes sealed, and refusals of our form."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.messages import Message, Role, TextBlock, context_message, user_message
from minara_llm.model import FailureKind, ModelFailure, ModelThinking, StopReason
from minara_llm.responses import ResponsesModel
from support.wire.dialects import Closable
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
from support.wire.responses_dialect import ResponsesDialect
from support.wire.server import Reply, WireServer, a_wire_server

DIALECT = ResponsesDialect()
BTC, ETH = '{"symbol":"BTC"}', '{"symbol":"ETH"}'


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


@pytest.fixture
async def model(wire: WireServer) -> AsyncGenerator[Closable]:
    made = DIALECT.model(wire)
    yield made
    await made.aclose()


def hi() -> Reply:
    return Reply(parts=(DIALECT.stream("Hi."),))


def a_thoughtful_answer(sealed: str | None = "c2VjcmV0+/==") -> Reply:
    thought = DIALECT.reasoning("Let me think.", "Then look.", sealed=sealed)
    words = DIALECT.message("Looking.", phase="commentary")
    call = DIALECT.call(0, "get_price", BTC)
    items = (
        DIALECT.thought(thought, 0),
        DIALECT.said(words, 1, "Looking."),
        DIALECT.called(call, 2, BTC),
    )
    return Reply(parts=(DIALECT.whole(*items, output=[thought, words, call]),))


async def test_reasoning_and_items_go_back_exactly_as_they_came(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(a_thoughtful_answer(), hi())
    events = await ask(model, a_request())
    thoughts = [event.text for event in events if isinstance(event, ModelThinking)]
    assert thoughts == ["Let me think.", "\n\n", "Then look."]
    reply = said(events)
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    assert wire.requests[1].json["input"][2:] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "encrypted_content": "c2VjcmV0+/==",
            "summary": [
                {"type": "summary_text", "text": "Let me think."},
                {"type": "summary_text", "text": "Then look."},
            ],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_0",
            "call_id": "call_0",
            "name": "get_price",
            "arguments": BTC,
        },
        {"type": "function_call_output", "call_id": "call_0", "output": '{"data":1,"ok":true}'},
    ]


async def test_another_model_gets_words_and_calls_without_reasoning_and_its_ids(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(a_thoughtful_answer(), hi())
    reply = said(await ask(model, a_request()))
    other = ResponsesModel(
        provider="openai", api_key="key", name="gpt-6-luna", base_url=f"{wire.url}/v1"
    )
    await ask(other, a_request(user_message("hi"), reply, results_of(reply)))
    await other.aclose()
    items = wire.requests[1].json["input"][2:]
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output"]
    assert not any({"id", "phase", "status"} & set(item) for item in items)
    calls, answered = DIALECT.call_ids(wire.requests[1].json)
    assert calls == answered
    assert calls != ["call_0"]


async def test_reasoning_that_came_unsealed_is_left_out_with_the_ids_that_need_it(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(a_thoughtful_answer(sealed=None), hi())
    reply = said(await ask(model, a_request()))
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    items = wire.requests[1].json["input"][2:]
    assert "reasoning" not in [item["type"] for item in items]
    assert not any("id" in item for item in items)


async def test_reasoning_without_anything_behind_it_is_left_out(
    wire: WireServer, model: Closable
) -> None:
    thought, words = DIALECT.reasoning("Hm."), DIALECT.message("Well")
    items = (DIALECT.said(words, 0, "Well"), DIALECT.thought(thought, 1))
    stream = DIALECT.whole(*items, output=[words, thought], stop="max_output_tokens")
    wire.answer(Reply(parts=(stream,)), hi())
    events = await ask(model, a_request())
    assert stop(events).reason is StopReason.MAX_TOKENS
    await ask(model, a_request(user_message("hi"), said(events), user_message("go on")))
    kinds = [item["type"] for item in wire.requests[1].json["input"]]
    assert "reasoning" not in kinds


async def test_calls_are_told_in_order_though_the_second_is_done_first(
    wire: WireServer, model: Closable
) -> None:
    one, two = DIALECT.call(0, "get_price", BTC), DIALECT.call(1, "get_price", ETH)
    added = [
        DIALECT.event("response.output_item.added", output_index=n, item={**item, "arguments": ""})
        for n, item in enumerate([one, two])
    ]
    done = [
        DIALECT.event("response.output_item.done", output_index=n, item=item)
        for n, item in enumerate([one, two])
    ]
    wire.answer(Reply(parts=(DIALECT.whole(*added, *reversed(done), output=[one, two]),)))
    assert tool_calls(await ask(model, a_request())) == [("get_price", BTC), ("get_price", ETH)]


async def test_a_server_that_tells_everything_only_at_the_end_is_heard(
    wire: WireServer, model: Closable
) -> None:
    output = [DIALECT.message("Looking."), DIALECT.call(0, "get_price", BTC)]
    wire.answer(Reply(parts=(DIALECT.whole(output=output),)))
    events = await ask(model, a_request())
    assert texts(events) == ["Looking."]
    assert tool_calls(events) == [("get_price", BTC)]


async def test_a_call_that_is_never_done_is_malformed(wire: WireServer, model: Closable) -> None:
    call = DIALECT.call(0, "get_price", "")
    begun = DIALECT.event("response.output_item.added", output_index=0, item=call)
    wire.answer(Reply(parts=(DIALECT.whole(begun),)))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is FailureKind.MALFORMED_STREAM


async def test_the_whole_request_is_stateless_and_in_one_list(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(hi())
    await ask(model, a_request(context_message("[signal]"), user_message("hello")))
    body = wire.requests[0].json
    assert wire.requests[0].path == "/v1/responses"
    assert [item["role"] for item in body["input"]] == ["developer", "developer", "user"]
    assert [part["text"] for part in body["input"][0]["content"]] == [
        "You are Minara.",
        "# Skills",
        "# Memory",
    ]
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "auto"}
    assert body["prompt_cache_key"] == "session-1"
    assert body["max_output_tokens"] == 1_000
    assert [tool["strict"] for tool in body["tools"]] == [False, False]
    assert body["tool_choice"] == "auto"
    assert not {"instructions", "previous_response_id"} & set(body)


async def test_a_smaller_limit_than_the_api_takes_is_raised_to_it(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(hi())
    await ask(model, a_request(max_output_tokens=1))
    assert wire.requests[0].json["max_output_tokens"] == 16


async def test_it_may_be_held_to_the_callable_tools(wire: WireServer, model: Closable) -> None:
    tools = (a_tool("buy_token", "trade", 3), a_tool("get_price"), a_tool("write_file", "file", 2))
    wire.answer(hi(), hi())
    await ask(model, a_request(tools=tools, callable_tools=("write_file",)))
    await ask(model, a_request(tools=tools[:1], callable_tools=("other",)))
    some, none = (seen.json for seen in wire.requests)
    assert some["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [
            {"type": "function", "name": "get_price"},
            {"type": "function", "name": "write_file"},
        ],
    }
    assert len(some["tools"]) == 3
    assert none["tool_choice"] == "none"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("max_output_tokens", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("max_messages", StopReason.END),
    ],
)
async def test_every_end_has_its_reason(
    wire: WireServer, model: Closable, name: str, reason: StopReason
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hm.", stop=name),)))
    assert stop(await ask(model, a_request())).reason is reason


async def test_a_refusal_is_told_as_text_and_as_the_reason_and_goes_back_as_one(
    wire: WireServer, model: Closable
) -> None:
    part = {"type": "refusal", "refusal": "I cannot."}
    item = {**DIALECT.message(""), "content": [part]}
    delta = DIALECT.event(
        "response.refusal.delta",
        item_id="msg_1",
        output_index=0,
        content_index=0,
        delta="I cannot.",
    )
    stream = DIALECT.whole(DIALECT.between(item, item, 0, delta), output=[item])
    wire.answer(Reply(parts=(stream,)), hi())
    events = await ask(model, a_request())
    assert texts(events) == ["I cannot."]
    assert stop(events).reason is StopReason.REFUSAL
    await ask(model, a_request(user_message("hi"), said(events), user_message("why?")))
    assert wire.requests[1].json["input"][2]["content"] == [part]


async def test_missing_usage_counts_nothing(wire: WireServer, model: Closable) -> None:
    ended = {"id": "r", "status": "completed", "output": [DIALECT.message("Hi.")]}
    wire.answer(Reply(parts=(DIALECT.event("response.completed", response=ended),)))
    events = await ask(model, a_request())
    assert texts(events) == ["Hi."]
    assert (usage(events).input_tokens, usage(events).output_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "oops"}, FailureKind.OVERLOADED),
        ({"code": "rate_limit_exceeded", "message": "slow"}, FailureKind.RATE_LIMITED),
        ({"code": "invalid_prompt", "message": "no"}, FailureKind.BAD_REQUEST),
        ({"code": "image_too_large", "message": "no"}, FailureKind.BAD_REQUEST),
        ({"code": "context_length_exceeded", "message": "long"}, FailureKind.CONTEXT_OVERFLOW),
        (None, FailureKind.OVERLOADED),
    ],
)
async def test_a_failed_response_says_what_went_wrong(
    wire: WireServer, model: Closable, error: dict[str, Any] | None, kind: FailureKind
) -> None:
    failed: dict[str, Any] = {"id": "r", "status": "failed", "error": error, "output": []}
    wire.answer(Reply(parts=(DIALECT.event("response.failed", response=failed),)))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is kind


async def test_an_error_event_may_hold_its_error_inside(wire: WireServer, model: Closable) -> None:
    error = {"type": "server_error", "code": "rate_limit_exceeded", "message": "slow"}
    wire.answer(Reply(parts=(DIALECT.event("error", error=error),)))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is FailureKind.RATE_LIMITED


async def test_a_refusal_that_nothing_of_ours_explains_is_a_failure(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(DIALECT.error(400, "invalid_request_error", "tool_choice: odd, and so is input[3]"))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is FailureKind.BAD_REQUEST
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        ("Your organization must be verified to generate reasoning summaries.", "reasoning"),
        ("Unsupported parameter: 'reasoning.summary' is not supported", "reasoning"),
        ("Encrypted content is not supported with this model.", "include"),
    ],
)
async def test_what_a_model_does_not_take_is_left_out_ever_after(
    wire: WireServer, model: Closable, words: str, left_out: str
) -> None:
    wire.answer(DIALECT.error(400, "invalid_request_error", words), hi(), hi())
    for _ in range(2):
        assert texts(await ask(model, a_request())) == ["Hi."]
    assert [left_out in seen.json for seen in wire.requests] == [True, False, False]


async def test_a_server_without_allowed_tools_gets_the_whole_choice(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(DIALECT.error(400, "invalid_request_error", "Invalid value for tool_choice"), hi())
    request = a_request(callable_tools=("get_price",))
    assert texts(await ask(model, request)) == ["Hi."]
    assert [seen.json["tool_choice"] == "auto" for seen in wire.requests] == [False, True]


async def test_reasoning_that_is_known_no_more_is_left_out_of_that_request(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(a_thoughtful_answer())
    reply = said(await ask(model, a_request()))
    words = "The encrypted content c2Vj could not be verified."
    wire.answer(DIALECT.error(400, "invalid_request_error", words), hi(), hi())
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    sealed = ["encrypted_content" in str(seen.json["input"]) for seen in wire.requests]
    assert sealed == [False, True, False, True]


async def test_words_of_another_provider_are_plain_assistant_text(
    wire: WireServer, model: Closable
) -> None:
    foreign = Message(role=Role.ASSISTANT, blocks=(TextBlock("Hello."),))
    wire.answer(hi())
    await ask(model, a_request(user_message("hi"), foreign, user_message("more")))
    assert wire.requests[0].json["input"][2] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello."}],
    }
