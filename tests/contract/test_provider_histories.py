"""Any history goes to any provider: what is broken in it is mended the same way each time."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.ids import ToolCallId
from minara_core.messages import (
    Message,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    context_message,
    user_message,
)
from minara_core.tooling import ToolCall
from minara_llm.model import StopReason, SystemBlock
from support.wire.lines import DIALECTS, Line, a_line
from support.wire.requests import a_request, ask, results_of, said, stop, texts, tool_calls
from support.wire.server import Reply

ANSWER = Message(role=Role.ASSISTANT, blocks=(TextBlock("It is 5."),))


@pytest.fixture(params=DIALECTS)
async def line(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with a_line(request.param) as made:
        yield made


def calling(*calls: tuple[str, str], text: str = "") -> Message:
    """A message with these calls, each a name and its arguments."""
    blocks = tuple(
        ToolCallBlock(ToolCall(tool_call_id=ToolCallId(f"1.{n}"), name=name, arguments_json=words))
        for n, (name, words) in enumerate(calls)
    )
    return Message(role=Role.ASSISTANT, blocks=((TextBlock(text),) if text else ()) + blocks)


def result(call_id: str, envelope: str) -> ToolResultBlock:
    return ToolResultBlock(tool_call_id=ToolCallId(call_id), envelope=envelope)


def results(*blocks: ToolResultBlock) -> Message:
    return Message(role=Role.TOOL, blocks=blocks)


async def sent(line: Line, *messages: Message, **changes: Any) -> Any:
    """The body that arrived."""
    line.wire.answer(Reply(parts=(line.dialect.stream("Hi."),)))
    assert texts(await ask(line.model, a_request(*messages, **changes))) == ["Hi."]
    return line.wire.requests[-1].json


def said_there(line: Line, body: Any) -> str:
    return "\n".join(line.dialect.flattened(body))


async def test_a_result_without_its_call_is_dropped(line: Line) -> None:
    body = await sent(
        line, results(result("9.9", "orphan")), user_message("hi"), ANSWER,
        results(result("1.0", "late")), user_message("more"),
    )  # fmt: skip
    assert line.dialect.call_ids(body) == ([], [])
    assert "orphan" not in said_there(line, body)
    assert "late" not in said_there(line, body)


async def test_a_call_without_a_result_gets_one_that_says_so_each_time_the_same(
    line: Line,
) -> None:
    call = calling(("get_price", "{}"), ("get_price", "{}"), text="Looking.")
    history = [user_message("hi"), call, results(result("1.1", "second")), user_message("and?")]
    first, second = await sent(line, *history), await sent(line, *history)
    calls, answered = line.dialect.call_ids(first)
    assert calls == answered
    assert len(calls) == 2
    assert said_there(line, first).count("NO_RESULT") == 1
    assert first == second


async def test_calls_cut_off_at_the_end_are_answered_before_the_person_goes_on(
    line: Line,
) -> None:
    call = calling(("get_price", "{}"))
    body = await sent(line, user_message("hi"), call, ANSWER, call, user_message("hello?"))
    calls, answered = line.dialect.call_ids(body)
    assert calls == answered
    assert len(set(calls)) == 2


async def test_results_stand_directly_behind_their_calls_once_and_in_their_order(
    line: Line,
) -> None:
    call = calling(("get_price", '{"n":1}'), ("get_price", '{"n":2}'))
    late = results(result("1.1", "two"), result("1.0", "one"), result("1.0", "again"))
    body = await sent(line, user_message("hi"), call, user_message("quick"), late)
    calls, answered = line.dialect.call_ids(body)
    assert calls == answered
    flat = said_there(line, body)
    assert flat.index('"one"') < flat.index('"two"') < flat.index("quick")
    assert "again" not in flat


async def test_a_history_that_begins_with_an_answer_is_sent_whole(line: Line) -> None:
    body = await sent(line, ANSWER, context_message("note"), user_message("and now?"))
    flat = said_there(line, body)
    assert flat.index("It is 5.") < flat.index("and now?")
    if line.api == "anthropic":
        assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "system"]


async def test_a_reply_that_was_cut_off_is_sent_as_far_as_it_came(line: Line) -> None:
    cut = Message(role=Role.ASSISTANT, blocks=(TextBlock("It is"),), is_interrupted=True)
    assert '"It is"' in said_there(line, await sent(line, user_message("hi"), cut, ANSWER))


BROKEN = "a\ud83c\udf78b \ud83c c\x00d \u2028"
MENDED = "a\U0001f378b \ufffd c\ufffdd \u2028"


async def test_broken_text_is_mended_wherever_it_stands(line: Line) -> None:
    call = calling(("get_price", json.dumps({BROKEN: BROKEN})), text=BROKEN)
    body = await sent(
        line, context_message(BROKEN), user_message(BROKEN), call, results(result("1.0", BROKEN)),
        user_message("go on"), system=(SystemBlock(name="a", text=BROKEN),),
    )  # fmt: skip
    raw = line.wire.requests[-1].body.decode("utf-8", "strict")
    assert json.loads(raw) == body
    flat = said_there(line, body)
    assert flat.count(MENDED.replace("\u2028", "")) >= 4
    assert "\x00" not in flat
    flat.encode("utf-8", "strict")


@pytest.mark.parametrize(
    "arguments",
    [
        "", "{", "[1,2]", '"text"', "null", '{"a":NaN}', '{"a":1e999}', '{"a":-Infinity}',
        '{"a":' * 3_000 + "1" + "}" * 3_000, "[" * 100_000, '{"a":' + "9" * 5_000 + "}",
        '{"a":"\\ud83c"}', '{"a":"\\u0000"}', '{"a":1}{"b":2}',
    ],
    ids=lambda text: text[:12] or "empty",
)  # fmt: skip
async def test_no_arguments_whatsoever_break_the_history(line: Line, arguments: str) -> None:
    call = calling(("get_price", arguments))
    body = await sent(line, user_message("hi"), call, results_of(call), user_message("go on"))
    assert line.dialect.call_ids(body)[0] != []
    if line.api == "anthropic":
        (block,) = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
        assert isinstance(block["input"], dict)
    if line.api == "compatible":
        (told,) = [m for m in body["messages"] if "tool_calls" in m]
        assert isinstance(json.loads(told["tool_calls"][0]["function"]["arguments"]), dict)


@pytest.mark.parametrize("name", ["no such tool!", "functions.get_price", "以太", "x" * 200, ""])
async def test_a_tool_that_does_not_exist_may_have_any_name(line: Line, name: str) -> None:
    call = calling((name, "{}"))
    body = await sent(line, user_message("hi"), call, results_of(call), user_message("go on"))
    flat = said_there(line, body)
    assert name == "" or f'"{name}"' not in flat
    assert '"name": ""' not in flat


async def test_a_pair_cut_in_two_is_joined_and_a_lone_half_replaced(line: Line) -> None:
    wanted = [("get_price", '{"a":"HIGH"}')]
    stream = line.dialect.stream("a HIGH", "LOW b", "c HIGH", calls=wanted, fragment=99)
    stream = stream.replace(b"HIGH", b"\\ud83c").replace(b"LOW", b"\\udf78")
    line.wire.answer(Reply(parts=(stream,)))
    events = await ask(line.model, a_request())
    assert "".join(texts(events)) == "a \U0001f378 bc \ufffd"
    assert tool_calls(events) == [("get_price", '{"a":"\ufffd"}')]
    stop(events).provider_state.encode("utf-8", "strict")
    reply = said(events)
    await sent(line, user_message("hi"), reply, results_of(reply), user_message("go on"))


async def test_a_nul_never_leaves_the_adapter(line: Line) -> None:
    stream = line.dialect.stream("a NUL", calls=[("get_price", '{"a":"NUL"}')], fragment=99)
    line.wire.answer(Reply(parts=(stream.replace(b"NUL", b"\\u0000"),)))
    events = await ask(line.model, a_request())
    assert "".join(texts(events)) == "a \ufffd"
    assert tool_calls(events) == [("get_price", '{"a":"\ufffd"}')]
    assert "\x00" not in stop(events).provider_state


@pytest.mark.parametrize("other", DIALECTS)
async def test_a_session_moves_between_providers_with_its_parallel_calls(
    line: Line, other: str
) -> None:
    wanted = [("get_price", '{"symbol":"BTC"}'), ("get_price", '{"symbol":"ETH"}')]
    messages: list[Message] = [context_message("[signal]"), user_message("prices?")]
    async with a_line(other) as there:
        for step, place in enumerate((line, there, line, there), start=1):
            place.wire.answer(Reply(parts=(place.dialect.stream("Looking.", calls=wanted),)))
            events = await ask(place.model, a_request(*messages))
            assert tool_calls(events) == wanted
            assert stop(events).reason is StopReason.TOOL_CALLS
            reply = said(events, step)
            messages += [reply, results_of(reply)]
        for place in (line, there):
            calls, answered = place.dialect.call_ids(place.wire.requests[-1].json)
            assert calls == answered
        assert len(calls) == 6
