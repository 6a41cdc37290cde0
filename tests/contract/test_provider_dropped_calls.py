"""A call of an answer that was refused, or that was cut, is never told and never sent back."""

import json
from collections.abc import AsyncGenerator

import pytest

from minara_core.messages import user_message
from minara_llm.model import StopReason
from support.wire.lines import DIALECTS, LIMITS, Line, a_line
from support.wire.requests import a_request, ask, said, stop, tool_calls
from support.wire.responses_dialect import ResponsesDialect
from support.wire.server import Reply

REFUSALS = {"anthropic": "refusal"}
"""How an API says that an answer was refused; elsewhere it is `content_filter`."""

WHOLE = [("buy_token", '{"symbol":"BTC"}')]


@pytest.fixture(params=DIALECTS)
async def line(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with a_line(request.param) as made:
        yield made


@pytest.mark.parametrize("arguments", ['{"symbol":"BTC"}', '{"symbol":"B', ""])
async def test_a_refused_answer_calls_nothing(line: Line, arguments: str) -> None:
    reason = REFUSALS.get(line.api, "content_filter")
    stream = line.dialect.stream("No. ", calls=[("buy_token", arguments)], stop=reason)
    line.wire.answer(Reply(parts=(stream,)))
    events = await ask(line.model, a_request())
    assert tool_calls(events) == []
    assert stop(events).reason is StopReason.REFUSAL
    assert "buy_token" not in stop(events).provider_state
    line.wire.answer(Reply(parts=(line.dialect.stream("Hi."),)))
    await ask(line.model, a_request(user_message("hi"), said(events), user_message("so?")))
    assert line.dialect.call_ids(line.wire.requests[1].json) == ([], [])


async def test_a_call_cut_before_its_first_argument_never_runs(line: Line) -> None:
    calls = [*WHOLE, ("get_trending", "")]
    limit = LIMITS.get(line.api, "length")
    line.wire.answer(Reply(parts=(line.dialect.stream(calls=calls, stop=limit),)))
    events = await ask(line.model, a_request())
    assert tool_calls(events) == WHOLE
    assert stop(events).reason is StopReason.MAX_TOKENS
    assert "get_trending" not in stop(events).provider_state


@pytest.mark.parametrize("state", ["incomplete", "never done"])
async def test_a_call_the_provider_has_not_finished_never_runs(state: str) -> None:
    dialect = ResponsesDialect()
    async with a_line("responses") as line:
        item = {**dialect.call(0, "buy_token", '{"symbol":"BTC"}'), "status": "incomplete"}
        sent = dialect.called(item, 0, '{"symbol":"BTC"}')
        if state == "never done":
            sent = sent.partition(b"event: response.output_item.done")[0]
        stream = dialect.whole(sent, stop="max_output_tokens")
        line.wire.answer(Reply(parts=(stream,)))
        events = await ask(line.model, a_request())
    assert tool_calls(events) == []
    assert json.loads(stop(events).provider_state)["items"] == []


async def test_a_refusal_within_a_whole_answer_calls_nothing() -> None:
    dialect = ResponsesDialect()
    async with a_line("responses") as line:
        call = dialect.call(0, "buy_token", '{"symbol":"BTC"}')
        refusal = {"type": "refusal", "refusal": "I will not."}
        message = dialect.message("", content=[refusal])
        stream = dialect.whole(
            dialect.called(call, 0, '{"symbol":"BTC"}'),
            dialect.said(message, 1),
            output=[call, message],
        )
        line.wire.answer(Reply(parts=(stream,)))
        events = await ask(line.model, a_request())
    assert tool_calls(events) == []
    assert stop(events).reason is StopReason.REFUSAL
