"""What is Anthropic's own: thinking, cumulative usage, ends; the cache has its own suite."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.events import TokenUsage
from minara_core.messages import context_message, user_message
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import FailureKind, ModelFailure, ModelThinking, ModelUsage, StopReason
from support.wire.dialects import AnthropicDialect, Closable
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

DIALECT = AnthropicDialect()
SIGNATURE = "EqQBCgIYAhIM+/=="
ASKED = (context_message("[signal]"), user_message("price of BTC?"))


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


@pytest.fixture
async def model(wire: WireServer) -> AsyncGenerator[Closable]:
    made = DIALECT.model(wire)
    yield made
    await made.aclose()


def thinking(index: int = 0) -> bytes:
    return DIALECT.block(
        {"type": "thinking", "thinking": "", "signature": ""},
        index,
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "think.\n"},
        {"type": "signature_delta", "signature": SIGNATURE},
    )


def a_call(index: int, name: str = "get_price") -> bytes:
    start: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"symbol":"BTC"}'}
    return DIALECT.block(start, index, delta)


def redacted(index: int) -> bytes:
    return DIALECT.block({"type": "redacted_thinking", "data": "b3BhcXVl"}, index)


def text(index: int, words: str) -> bytes:
    return DIALECT.block({"type": "text", "text": ""}, index, {"type": "text_delta", "text": words})


async def test_thinking_is_told_and_replayed_exactly_in_its_place(
    wire: WireServer, model: Closable
) -> None:
    stream = DIALECT.whole(thinking(), redacted(1), text(2, "Looking."), a_call(3), stop="tool_use")
    wire.answer(Reply(parts=(stream,)), Reply(parts=(DIALECT.stream("Done."),)))
    events = await ask(model, a_request())
    assert [e.text for e in events if isinstance(e, ModelThinking)] == ["Let me ", "think.\n"]
    reply = said(events)
    await ask(model, a_request(*ASKED, reply, results_of(reply)))
    assistant = wire.requests[1].json["messages"][2]
    assert assistant == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Let me think.\n", "signature": SIGNATURE},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "toolu_3", "name": "get_price", "input": {"symbol": "BTC"}},
        ],
    }


async def test_thinking_is_dropped_when_the_model_changes_and_call_ids_stay(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(
        Reply(parts=(DIALECT.whole(thinking(), a_call(1), stop="tool_use"),)),
        Reply(parts=(DIALECT.stream("Done."),)),
    )
    reply = said(await ask(model, a_request(*ASKED)))
    other = AnthropicModel(api_key="key", name="claude-haiku-4-5", base_url=wire.url)
    await ask(other, a_request(*ASKED, reply, results_of(reply)))
    await other.aclose()
    assert SIGNATURE.encode() not in wire.requests[1].body
    assert DIALECT.call_ids(wire.requests[1].json) == (["toolu_1"], ["toolu_1"])


async def test_what_the_model_can_is_asked_for_and_no_more(
    wire: WireServer, model: Closable
) -> None:
    other = AnthropicModel(api_key="key", name="claude-haiku-4-5", base_url=wire.url)
    wire.answer(*[Reply(parts=(DIALECT.stream("Hi."),))] * 2)
    await ask(model, a_request())
    await ask(other, a_request(max_output_tokens=1_000_000))
    await other.aclose()
    first, second = (seen.json for seen in wire.requests)
    assert first["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert first["max_tokens"] == 1_000
    assert "thinking" not in second
    assert second["max_tokens"] == 64_000
    assert "key" in wire.requests[0].headers["authorization"]


async def test_input_is_told_at_the_start_and_output_at_the_end_each_once(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    events = await ask(model, a_request())
    first, last = (event.usage for event in events if isinstance(event, ModelUsage))
    assert isinstance(events[0], ModelUsage)
    assert (first.input_tokens, first.output_tokens) == (1_000, 1)
    assert (last.input_tokens, last.output_tokens) == (0, 49)
    assert usage(events) == first.plus(last)


async def test_a_model_without_a_price_has_no_cost(wire: WireServer) -> None:
    model = AnthropicModel(api_key="key", name="claude-unheard-of", base_url=wire.url)
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    events = await ask(model, a_request())
    await model.aclose()
    assert usage(events) == TokenUsage(
        input_tokens=1_000, output_tokens=50, cache_read_tokens=800, cache_write_tokens=100
    )
    assert model.context_window == 128_000


async def test_missing_usage_counts_nothing(wire: WireServer, model: Closable) -> None:
    begun = DIALECT.event({"type": "message_start", "message": {"id": "m", "content": []}})
    delta = {"stop_reason": "end_turn"}
    end = DIALECT.event({"type": "message_delta", "delta": delta})
    wire.answer(Reply(parts=(begun, text(0, "Hi."), end)))
    events = await ask(model, a_request())
    assert texts(events) == ["Hi."]
    assert (usage(events).input_tokens, usage(events).output_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("refusal", StopReason.REFUSAL),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.END),
        ("pause_turn", StopReason.END),
    ],
)
async def test_every_end_has_its_reason(
    wire: WireServer, model: Closable, name: str, reason: StopReason
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hm.", stop=name),)))
    assert stop(await ask(model, a_request())).reason is reason


async def test_blocks_and_events_of_tomorrow_are_passed_over(
    wire: WireServer, model: Closable
) -> None:
    tomorrow = DIALECT.block({"type": "hologram", "data": 1}, 0, {"type": "hologram_delta"})
    event = DIALECT.event({"type": "weather_report"})
    wire.answer(Reply(parts=(DIALECT.whole(tomorrow, event, text(1, "Hi."), a_call(2)),)))
    events = await ask(model, a_request())
    assert texts(events) == ["Hi."]
    assert tool_calls(events) == [("get_price", '{"symbol":"BTC"}')]


async def test_a_delta_for_a_block_that_never_began_is_malformed(
    wire: WireServer, model: Closable
) -> None:
    stray = DIALECT.event(
        {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "x"}}
    )
    wire.answer(Reply(parts=(DIALECT.whole(stray),)))
    with pytest.raises(Exception, match="cannot be read"):
        await ask(model, a_request())


async def test_a_server_that_tells_all_arguments_at_once_is_heard(
    wire: WireServer, model: Closable
) -> None:
    start = {"type": "tool_use", "id": "a", "name": "get_price", "input": {"symbol": "以太"}}
    wire.answer(Reply(parts=(DIALECT.whole(DIALECT.block(start, 0), stop="tool_use"),)))
    assert tool_calls(await ask(model, a_request())) == [("get_price", '{"symbol":"以太"}')]


async def test_a_message_never_ends_with_a_thought(wire: WireServer, model: Closable) -> None:
    stream = DIALECT.whole(thinking(), text(1, "Well"), thinking(2), stop="max_tokens")
    wire.answer(Reply(parts=(stream,)), Reply(parts=(DIALECT.stream("Hi."),)))
    reply = said(await ask(model, a_request()))
    await ask(model, a_request(*ASKED, reply, user_message("go on")))
    content = wire.requests[1].json["messages"][2]["content"]
    assert [block["type"] for block in content] == ["thinking", "text"]


async def test_thoughts_that_are_known_no_more_are_left_out_and_nobody_sees_it(
    wire: WireServer, model: Closable
) -> None:
    stream = DIALECT.whole(thinking(), text(1, "Looking."), a_call(2), stop="tool_use")
    wire.answer(Reply(parts=(stream,)))
    reply = said(await ask(model, a_request()))
    wire.answer(
        DIALECT.error(
            400, "invalid_request_error", "messages.1: Invalid `signature` in `thinking`"
        ),
        Reply(parts=(DIALECT.stream("Done."),)),
    )
    history = (*ASKED, reply, results_of(reply))
    assert texts(await ask(model, a_request(*history))) == ["Done."]
    _, refused, taken = wire.requests
    assert SIGNATURE.encode() in refused.body
    assert SIGNATURE.encode() not in taken.body


def a_thoughtful_answer() -> Reply:
    stream = DIALECT.whole(thinking(), text(1, "Looking."), a_call(2), stop="tool_use")
    return Reply(parts=(stream,))


@pytest.mark.parametrize(
    "changes",
    [
        {"system": ()},
        {"tools": (a_tool("get_price"),)},
        {"messages": (user_message("a summary"),)},
    ],
    ids=["another system prompt", "other tools", "a compacted history"],
)
async def test_a_thought_goes_back_only_behind_what_it_was_thought_behind(
    wire: WireServer, model: Closable, changes: dict[str, Any]
) -> None:
    wire.answer(a_thoughtful_answer())
    old = said(await ask(model, a_request(*ASKED)))
    head = changes.get("messages", ASKED)
    more = {name: value for name, value in changes.items() if name != "messages"}
    wire.answer(a_thoughtful_answer(), Reply(parts=(DIALECT.stream("Done."),)))
    history = [*head, old, results_of(old)]
    new = said(await ask(model, a_request(*history, **more)), step=2)
    await ask(model, a_request(*history, new, results_of(new), **more))
    kinds = [
        [block["type"] for block in message["content"]]
        for message in wire.requests[2].json["messages"]
        if message["role"] == "assistant"
    ]
    assert kinds == [["text", "tool_use"], ["thinking", "text", "tool_use"]]


async def test_a_model_that_does_not_mind_gets_its_thoughts_back_behind_anything(
    wire: WireServer,
) -> None:
    model = AnthropicModel(api_key="key", name="claude-opus-5", base_url=wire.url)
    wire.answer(a_thoughtful_answer(), Reply(parts=(DIALECT.stream("Done."),)))
    reply = said(await ask(model, a_request(*ASKED)))
    await ask(model, a_request(user_message("a summary"), reply, results_of(reply)))
    await model.aclose()
    assert SIGNATURE.encode() in wire.requests[1].body


async def test_a_refusal_that_nothing_of_ours_explains_is_a_failure(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(DIALECT.error(400, "invalid_request_error", "tools.0: odd"))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is FailureKind.BAD_REQUEST
    assert len(wire.requests) == 1
