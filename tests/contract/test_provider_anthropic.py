"""What is Anthropic's own: thinking, cache breakpoints, cumulative usage."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.events import TokenUsage
from minara_core.messages import Message, context_message, user_message
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ModelThinking, ModelUsage, StopReason, SystemBlock
from support.wire.dialects import AnthropicDialect, Closable
from support.wire.requests import a_request, ask, results_of, said, stop, texts, tool_calls, usage
from support.wire.server import Reply, WireServer, a_wire_server

DIALECT = AnthropicDialect()
SIGNATURE = "EqQBCgIYAhIM+/=="


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


def marks(body: dict[str, Any]) -> list[str]:
    """Which blocks carry a cache breakpoint, by what they say."""
    blocks = [*body["system"], *(b for m in body["messages"] for b in m["content"])]
    return [
        str(block.get("text") or block.get("content") or block.get("name"))
        for block in blocks
        if "cache_control" in block
    ]


async def test_thinking_is_told_and_replayed_exactly_in_its_place(
    wire: WireServer, model: Closable
) -> None:
    stream = DIALECT.whole(thinking(), redacted(1), text(2, "Looking."), a_call(3), stop="tool_use")
    wire.answer(Reply(parts=(stream,)), Reply(parts=(DIALECT.stream("Done."),)))
    events = await ask(model, a_request())
    assert [e.text for e in events if isinstance(e, ModelThinking)] == ["Let me ", "think.\n"]
    reply = said(events)
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    assistant = wire.requests[1].json["messages"][1]
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
    reply = said(await ask(model, a_request()))
    other = AnthropicModel(api_key="key", name="claude-haiku-4-5", base_url=wire.url)
    await ask(other, a_request(user_message("hi"), reply, results_of(reply)))
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


async def test_breakpoints_stand_behind_the_prefix_and_at_the_end(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    await ask(model, a_request())
    assert marks(wire.requests[0].json) == ["# Skills", "# Memory", "price of BTC?"]


async def test_a_long_step_gets_a_breakpoint_in_between(wire: WireServer, model: Closable) -> None:
    calls = [("get_price", "{}")] * 12
    wire.answer(Reply(parts=(DIALECT.stream("Look.", calls=calls),)))
    reply = said(await ask(model, a_request()))
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    await ask(model, a_request(user_message("hi"), reply, results_of(reply)))
    body = wire.requests[1].json
    assert len(marks(body)) == 4
    flat = [block for message in body["messages"] for block in message["content"]]
    places = [n for n, block in enumerate(flat) if "cache_control" in block]
    assert places == [len(flat) - 16, len(flat) - 1]


async def test_there_are_never_more_than_four_breakpoints(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    system = tuple(
        SystemBlock(name=str(number), text=f"part {number}", ends_cached_part=True)
        for number in range(6)
    )
    await ask(model, a_request(system=system))
    assert marks(wire.requests[0].json) == ["part 3", "part 4", "part 5", "price of BTC?"]


async def test_context_is_a_tagged_text_before_the_persons_words(
    wire: WireServer, model: Closable
) -> None:
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    await ask(model, a_request(context_message("[signal]"), user_message("hello")))
    (message,) = wire.requests[0].json["messages"]
    assert message["role"] == "user"
    assert [block["text"] for block in message["content"]] == [
        "<context>\n[signal]\n</context>",
        "hello",
    ]


async def test_a_note_after_results_stands_behind_them(wire: WireServer, model: Closable) -> None:
    wire.answer(Reply(parts=(DIALECT.stream(calls=[("get_price", "{}")]),)))
    reply = said(await ask(model, a_request()))
    wire.answer(Reply(parts=(DIALECT.stream("Hi."),)))
    history: list[Message] = [user_message("hi"), reply, results_of(reply)]
    await ask(model, a_request(*history, context_message("conclude")))
    last = wire.requests[1].json["messages"][-1]
    assert [block["type"] for block in last["content"]] == ["tool_result", "text"]


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
