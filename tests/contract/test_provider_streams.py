"""Provider adapters through their real SDKs, against servers that speak the real wire formats."""

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal

import pytest

from minara_core.ids import ToolCallId
from minara_core.messages import (
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    context_message,
    user_message,
)
from minara_core.tooling import ToolCall
from minara_llm.model import FailureKind, ModelFailure, ModelText, StopReason, ToolChoice
from support.eventually import eventually
from support.wire.dialects import Closable
from support.wire.lines import DIALECTS, LIMITS, Line, a_line
from support.wire.requests import (
    a_request,
    ask,
    results_of,
    said,
    stop,
    texts,
    tool_calls,
    usage,
)
from support.wire.server import Reply, Step, WireServer, in_pieces

ODD = '以太 \u2028 \u2029 \x85 𝒳 "quoted" \\ end\n'
ARGUMENTS = '{ "symbol":"BTC",\n "note" : "以太 \\u2028 \u2028 𝒳", "amount": 0.10 }'


@pytest.fixture(params=DIALECTS)
async def line(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with a_line(request.param) as made:
        yield made


async def failure_of(line: Line, model: Closable | None = None) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(model or line.model, a_request())
    return caught.value


async def test_text_comes_as_it_is_said_then_usage_then_the_stop(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hello ", "there."),)))
    events = await ask(line.model, a_request())
    assert texts(events) == ["Hello ", "there."]
    assert stop(events).reason is StopReason.END
    spent = usage(events)
    assert (spent.input_tokens, spent.output_tokens) == (1_000, 50)
    assert (spent.cache_read_tokens, spent.cache_write_tokens) == (800, 100)
    # Fresh, read, written, said: both models ask 2, 2.5 and 10 dollars a million, and differ in
    # what reading the cache costs.
    read = Decimal("0.00008") if line.model.provider == "anthropic" else Decimal("0.00016")
    assert spent.cost_usd == Decimal("0.0002") + read + Decimal("0.00025") + Decimal("0.0005")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
async def test_a_stream_may_be_cut_anywhere(line: Line, size: int) -> None:
    stream = line.dialect.stream(ODD, calls=[("get_price", ARGUMENTS)], fragment=1)
    line.wire.answer(Reply(parts=in_pieces(stream, size)))
    events = await ask(line.model, a_request())
    assert "".join(texts(events)) == ODD
    assert tool_calls(events) == [("get_price", ARGUMENTS)]


async def test_parallel_calls_keep_their_order_and_every_byte(line: Line) -> None:
    wanted = [("get_price", ARGUMENTS), ("get_price", '{"symbol":"ETH"}'), ("no_such_tool", "{}")]
    line.wire.answer(Reply(parts=(line.dialect.stream("Let me look.", calls=wanted),)))
    events = await ask(line.model, a_request())
    assert tool_calls(events) == wanted
    assert stop(events).reason is StopReason.TOOL_CALLS


async def test_a_call_without_arguments_has_an_empty_object(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream(calls=[("get_trending", "")]),)))
    assert tool_calls(await ask(line.model, a_request())) == [("get_trending", "{}")]


async def test_closing_the_stream_closes_the_connection(line: Line) -> None:
    begun = line.dialect.stream("Hello", stop=None)
    line.wire.answer(Reply(parts=(begun, Step.HOLD)))
    async with aclosing(line.model.stream(replace(a_request(), model=line.model.name))) as events:
        async for event in events:
            if isinstance(event, ModelText):
                break
    await asyncio.wait_for(line.wire.has_left.wait(), timeout=1.0)


async def test_cancelling_the_reader_closes_the_connection(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hello", stop=None), Step.HOLD)))
    heard = asyncio.Event()

    async def listen() -> None:
        events = line.model.stream(replace(a_request(), model=line.model.name))
        async with aclosing(events):
            async for event in events:
                if isinstance(event, ModelText):
                    heard.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(heard.wait(), timeout=5.0)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(line.wire.has_left.wait(), timeout=1.0)


async def test_a_call_that_is_cancelled_before_the_first_word_closes_the_connection(
    line: Line,
) -> None:
    line.wire.answer(Reply(parts=(Step.HOLD,)))
    task = asyncio.create_task(ask(line.model, a_request()))
    await eventually(lambda: bool(line.wire.requests))
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(line.wire.has_left.wait(), timeout=1.0)


async def test_a_hang_up_before_the_first_word_is_a_lost_connection(line: Line) -> None:
    line.wire.answer(Reply(parts=(Step.HANG_UP,)))
    assert (await failure_of(line)).kind is FailureKind.CONNECTION


async def test_a_hang_up_in_the_middle_is_a_lost_connection(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hel", stop=None), Step.HANG_UP)))
    assert (await failure_of(line)).kind is FailureKind.CONNECTION


async def test_a_refused_connection_is_a_lost_connection(line: Line) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = WireServer()
        nobody.port = taken.getsockname()[1]
        model = line.dialect.model(nobody)
        failure = await failure_of(line, model)
        await model.aclose()
    assert failure.kind is FailureKind.CONNECTION
    assert failure.is_retryable


async def test_a_silent_provider_times_out(line: Line) -> None:
    model = line.dialect.model(line.wire, timeout_seconds=0.2)
    line.wire.answer(Reply(parts=(line.dialect.stream("Hel", stop=None), Step.HOLD)))
    assert (await failure_of(line, model)).kind is FailureKind.TIMEOUT
    await model.aclose()


@pytest.mark.parametrize("end", [b"", b"event: message_delta\ndata: {not json\n\n"])
async def test_a_stream_that_ends_early_or_is_garbage_is_malformed(line: Line, end: bytes) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hel", stop=None) + end,)))
    assert (await failure_of(line)).kind is FailureKind.MALFORMED_STREAM


async def test_an_unknown_end_is_an_end(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Done.", stop="some_new_reason"),)))
    assert stop(await ask(line.model, a_request())).reason is StopReason.END


async def test_a_call_cut_in_half_by_the_limit_never_runs(line: Line) -> None:
    limit = LIMITS.get(line.api, "length")
    wanted = [("get_price", '{"symbol":"BTC"}'), ("buy_token", '{"symbol":"ETH","amount":"1')]
    line.wire.answer(Reply(parts=(line.dialect.stream(calls=wanted, stop=limit),)))
    events = await ask(line.model, a_request())
    assert tool_calls(events) == wanted[:1]
    assert stop(events).reason is StopReason.MAX_TOKENS
    line.wire.answer(Reply(parts=(line.dialect.stream("Sorry."),)))
    await ask(line.model, a_request(user_message("hi"), said(events), results_of(said(events))))
    calls, answered = line.dialect.call_ids(line.wire.requests[1].json)
    assert calls == answered
    assert len(calls) == 1


async def test_arguments_that_are_no_json_are_told_as_they_are(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream(calls=[("get_price", "{oops")]),)))
    events = await ask(line.model, a_request())
    assert tool_calls(events) == [("get_price", "{oops")]
    line.wire.answer(Reply(parts=(line.dialect.stream("Sorry."),)))
    await ask(line.model, a_request(user_message("hi"), said(events), results_of(said(events))))
    assert b"{oops" in line.wire.requests[1].body


async def test_every_request_extends_the_one_before(line: Line) -> None:
    messages: list[Message] = [context_message("[signal 1]"), user_message("price of BTC?")]
    answers = [
        line.dialect.stream("Looking.", calls=[("get_price", ARGUMENTS), ("get_price", "{}")]),
        line.dialect.stream("It is 100,000."),
        line.dialect.stream(calls=[("get_price", '{"symbol":"ETH"}')]),
        line.dialect.stream("It is 2,500."),
    ]
    for step, answer in enumerate(answers, start=1):
        line.wire.answer(Reply(parts=(answer,)))
        events = await ask(line.model, a_request(*messages))
        messages.append(said(events, step))
        if tool_calls(events):
            messages.append(results_of(messages[-1]))
        else:
            messages += [context_message(f"[signal {step}]"), user_message("and ETH?")]
    bodies = [seen.json for seen in line.wire.requests]
    flat = [line.dialect.flattened(body) for body in bodies]
    for shorter, longer in itertools.pairwise(flat):
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter)
    calls, answered = line.dialect.call_ids(bodies[-1])
    assert calls == answered
    assert len(calls) == 3


async def test_calls_of_another_provider_get_ids_that_stay(line: Line) -> None:
    call = ToolCall(tool_call_id=ToolCallId("1.0"), name="get_price", arguments_json=ARGUMENTS)
    foreign = Message(
        role=Role.ASSISTANT,
        blocks=(ThinkingBlock("secret thoughts"), TextBlock("Looking."), ToolCallBlock(call)),
        provider_state='{"provider":"elsewhere","signature":"x"}',
    )
    messages = [user_message("price?"), foreign, results_of(foreign)]
    for more in ((), (foreign, results_of(foreign), user_message("more"))):
        messages += more
        line.wire.answer(Reply(parts=(line.dialect.stream("Fine."),)))
        await ask(line.model, a_request(*messages))
    (first, _), (second, answered) = (
        line.dialect.call_ids(seen.json) for seen in line.wire.requests
    )
    assert second[:1] == first
    assert second == answered
    assert len(set(second)) == 2
    assert b"secret thoughts" not in line.wire.requests[1].body


async def test_empty_texts_are_not_sent(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hi."),)))
    await ask(
        line.model,
        a_request(
            user_message("real"),
            Message(role=Role.ASSISTANT, blocks=(TextBlock(" \n"),)),
            user_message("  "),
            Message(role=Role.USER, blocks=(TextBlock(""), TextBlock("also real"))),
        ),
    )
    flat = line.dialect.flattened(line.wire.requests[0].json)
    said_there = [part for part in flat if "real" in part]
    assert len(said_there) == 2
    assert flat[-2:] == said_there


async def test_forbidding_calls_keeps_the_tool_list(line: Line) -> None:
    line.wire.answer(*[Reply(parts=(line.dialect.stream("Hi."),))] * 2)
    await ask(line.model, a_request())
    await ask(line.model, a_request(tool_choice=ToolChoice.NONE))
    free, bound = (seen.json for seen in line.wire.requests)
    assert bound["tools"] == free["tools"]
    assert bound["tool_choice"] in ("none", {"type": "none"})
    assert free.get("tool_choice") != bound["tool_choice"]


async def test_without_tools_nothing_is_said_about_tools(line: Line) -> None:
    line.wire.answer(Reply(parts=(line.dialect.stream("Hi."),)))
    await ask(line.model, a_request(tools=(), tool_choice=ToolChoice.NONE))
    assert not {"tools", "tool_choice", "reasoning_effort"} & set(line.wire.requests[0].json)


async def test_one_model_serves_many_calls_at_once(line: Line) -> None:
    line.wire.answer(*[Reply(parts=(line.dialect.stream("Hi."),))] * 4)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(line.model, a_request())) for _ in range(4)]
    assert [texts(task.result()) for task in tasks] == [["Hi."]] * 4


@pytest.mark.parametrize(
    "data", ["[" * 20_000 + "]" * 20_000, '{"type":' * 9_000 + "1" + "}" * 9_000]
)
async def test_json_too_deep_to_be_read_is_malformed(line: Line, data: str) -> None:
    event = f"event: message_delta\ndata: {data}\n\n".encode()
    line.wire.answer(Reply(parts=(line.dialect.stream("Hel", stop=None) + event,)))
    assert (await failure_of(line)).kind is FailureKind.MALFORMED_STREAM
