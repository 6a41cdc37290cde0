"""Anthropic's thinking when a thought is lost in the middle of a turn, as after a compaction."""

from collections.abc import AsyncGenerator

import pytest

from minara_core.messages import Message, context_message, user_message
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ModelText, ModelThinking, ModelToolCall
from minara_llm.wire.brain import Answer
from support.wire.dialects import AnthropicDialect, Closable
from support.wire.provider import a_provider
from support.wire.requests import a_request, a_tool, ask, results_of, said, texts
from support.wire.server import Reply, WireServer, a_wire_server

DIALECT = AnthropicDialect()
ASKED = (context_message("[signal]"), user_message("price of BTC?"))
CALL = ModelToolCall(name="get_price", arguments_json="{}")
WANTS_THINKING = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
)


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


@pytest.fixture
async def model(wire: WireServer) -> AsyncGenerator[Closable]:
    made = DIALECT.model(wire)
    yield made
    await made.aclose()


async def thoughtful_calls() -> list[Message]:
    """Two messages of the model that call after a thought, as the loop keeps them."""
    async with a_provider(*[Answer(parts=(ModelThinking(text="Hm."), CALL))] * 2) as provider:
        model = AnthropicModel(api_key="k", name="claude-sonnet-5-5", base_url=provider.url)
        first = said(await ask(model, a_request(*ASKED)), 1)
        second = said(await ask(model, a_request(*ASKED, first, results_of(first))), 2)
        await model.aclose()
    return [first, second]


async def asks_for_thinking(wire: WireServer, model: Closable, *history: Message) -> bool:
    wire.answer(Reply(parts=(DIALECT.stream("Fine."),)))
    await ask(model, a_request(*history))
    return "thinking" in wire.requests[-1].json


async def test_a_turn_that_lost_a_thought_before_a_call_goes_on_without_thinking(
    wire: WireServer, model: Closable
) -> None:
    first, second = await thoughtful_calls()
    calls = [first, results_of(first), second, results_of(second)]
    summary = context_message("[a summary]")
    assert await asks_for_thinking(wire, model, *ASKED, *calls)
    assert not await asks_for_thinking(wire, model, summary, *ASKED, *calls[:2])
    # The thought of the second message is there, and that of the first is not.
    assert not await asks_for_thinking(wire, model, summary, *ASKED, *calls)
    assert not await asks_for_thinking(wire, model, summary, *ASKED, *calls, user_message("hey"))


async def test_the_next_turn_thinks_again(wire: WireServer, model: Closable) -> None:
    first, _ = await thoughtful_calls()
    wire.answer(Reply(parts=(DIALECT.stream("It is 5."),)))
    answer = said(await ask(model, a_request()))
    history = [context_message("[a summary]"), *ASKED, first, results_of(first), answer]
    assert await asks_for_thinking(wire, model, *history, user_message("and ETH?"))


async def test_a_call_that_was_not_thought_about_loses_nothing(
    wire: WireServer, model: Closable
) -> None:
    stream = DIALECT.stream(calls=[("get_price", "{}")])
    wire.answer(Reply(parts=(stream,)))
    call = said(await ask(model, a_request()))
    assert await asks_for_thinking(
        wire, model, context_message("[a summary]"), *ASKED, call, results_of(call)
    )


async def test_a_server_that_wants_a_thought_nobody_has_is_asked_without_thinking(
    wire: WireServer, model: Closable
) -> None:
    first, _ = await thoughtful_calls()
    history = (*ASKED, first, results_of(first))
    wire.answer(
        DIALECT.error(400, "invalid_request_error", WANTS_THINKING),
        Reply(parts=(DIALECT.stream("Done."),)),
        Reply(parts=(DIALECT.stream("Hi."),)),
    )
    assert texts(await ask(model, a_request(*history))) == ["Done."]
    await ask(model, a_request())
    refused, taken, other = (seen.json for seen in wire.requests)
    assert "thinking" in refused
    assert "thinking" not in taken
    assert taken["messages"] == refused["messages"]
    assert "thinking" in other


async def test_without_tools_those_that_the_history_speaks_of_are_named_and_forbidden() -> None:
    calls = (CALL, ModelToolCall(name="no such tool", arguments_json="{}"), CALL)
    answers = (Answer(parts=calls), Answer(parts=(ModelText(text="Done."),)))
    async with a_provider(*answers) as provider:
        model = AnthropicModel(api_key="k", name="claude-sonnet-5-5", base_url=provider.url)
        tools = (a_tool("get_price"),)
        call = said(await ask(model, a_request(*ASKED, tools=tools)))
        await ask(model, a_request(*ASKED, call, results_of(call), tools=()))
        await model.aclose()
    with_tools, without = provider.exchanges
    assert with_tools.refusal is None
    assert without.refusal is None
    request = provider.brain.requests[1]
    assert [tool.name for tool in request.tools] == ["get_price", "no_such_tool"]
    assert request.tool_choice.value == "none"
