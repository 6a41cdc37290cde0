"""Each fault of a wire server reaches the real SDKs as it does in reality."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from minara_llm.model import ModelStop, ModelText, StopReason
from minara_llm.scripted import calls, says
from minara_llm.wire.bodies import Api
from minara_llm.wire.faults import (
    BrokenJsonFault,
    ChunksFault,
    ErrorEventFault,
    Fault,
    HangUpFault,
    NoEndFault,
    NoiseFault,
    NoUsageFault,
    OddArgumentsFault,
    OddStopFault,
    OverflowFault,
    SilenceFault,
    SlowFault,
    SplitCharactersFault,
    StatusFault,
    TwiceEndedFault,
)
from minara_llm.wire.frames import ArgumentShape
from support.eventually import eventually
from support.wire.provider import ScriptedProvider, a_provider
from support.wire.talks import TALKS, TOOL_NAME, Heard, Talk

ODD = '以太 \u2028 \u2029 \x85 𝒳 "quoted" \\ end\n'
BTC: dict[str, Any] = {"symbol": "BTC", "note": "以太 \u2028 𝒳"}
ETH: dict[str, Any] = {"symbol": "ETH"}
ARGUMENTS = [(TOOL_NAME, json.dumps(each, ensure_ascii=False)) for each in (BTC, ETH)]
BROKEN_OFF = (anthropic.APIConnectionError, openai.APIConnectionError, httpx2.HTTPError)


@pytest.fixture
async def provider() -> AsyncGenerator[ScriptedProvider]:
    async with a_provider() as made:
        yield made


@pytest.fixture(params=TALKS)
def talk(request: pytest.FixtureRequest) -> Talk:
    return TALKS[request.param]


async def heard_of(talk: Talk, provider: ScriptedProvider, *faults: Fault) -> Heard:
    provider.meet(*faults)
    heard = Heard()
    await talk.listen(provider, heard)
    return heard


def error_of(raised: BaseException) -> dict[str, Any]:
    body: Any = getattr(raised, "body", None)
    return body.get("error", body)


@pytest.mark.parametrize(
    ("status", "of_anthropic", "of_openai", "kinds"),
    [
        (401, anthropic.AuthenticationError, openai.AuthenticationError,
         {"authentication_error", "invalid_request_error"}),
        (404, anthropic.NotFoundError, openai.NotFoundError,
         {"not_found_error", "invalid_request_error"}),
        (429, anthropic.RateLimitError, openai.RateLimitError, {"rate_limit_error", "requests"}),
        (500, anthropic.InternalServerError, openai.InternalServerError,
         {"api_error", "server_error"}),
        (503, anthropic.InternalServerError, openai.InternalServerError,
         {"api_error", "server_error"}),
        (529, anthropic.InternalServerError, openai.InternalServerError,
         {"overloaded_error", "server_error"}),
    ],
)  # fmt: skip
async def test_a_status_is_raised_as_the_sdk_names_it_and_costs_no_answer(
    talk: Talk,
    provider: ScriptedProvider,
    status: int,
    of_anthropic: type[Exception],
    of_openai: type[Exception],
    kinds: set[str],
) -> None:
    provider.answer(says("later"))
    wanted = of_anthropic if talk.api is Api.MESSAGES else of_openai
    with pytest.raises(wanted) as caught:
        await heard_of(talk, provider, StatusFault(status=status))
    assert error_of(caught.value)["type"] in kinds
    assert provider.last.refusal is not None
    assert provider.last.refusal.status == status
    assert (await heard_of(talk, provider)).text == "later"


async def test_a_rate_limit_says_when_to_come_back(talk: Talk, provider: ScriptedProvider) -> None:
    provider.meet(StatusFault(status=429, retry_after="7", retry_after_ms="6500"))
    with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)) as caught:
        await talk.ask(provider)
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("7", "6500")


async def test_an_overflow_names_itself(talk: Talk, provider: ScriptedProvider) -> None:
    with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)) as caught:
        await heard_of(talk, provider, OverflowFault())
    error = error_of(caught.value)
    if talk.api is Api.MESSAGES:
        assert error["message"] == "prompt is too long: 1200000 tokens > 1000000 maximum"
    else:
        assert error["code"] == "context_length_exceeded"


async def test_an_error_event_comes_behind_what_was_said_and_ends_it(
    talk: Talk, provider: ScriptedProvider
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(ErrorEventFault(name="overloaded_error", after_deltas=1))
    heard = Heard()
    if talk.api is Api.RESPONSES:
        # That API tells errors as events of its own, which its SDK hands on.
        await talk.listen(provider, heard)
        assert heard.kinds[-1] == "error"
    else:
        with pytest.raises((anthropic.APIStatusError, openai.APIError)) as caught:
            await talk.listen(provider, heard)
        assert error_of(caught.value)["type"] == "overloaded_error"
    assert heard.texts == ["Hel"]


async def test_an_answer_may_fail_in_its_last_event(provider: ScriptedProvider) -> None:
    provider.answer(says("Hel", "lo"))
    fault = ErrorEventFault(name="server_error", message="gone", is_failed_answer=True)
    heard = await heard_of(TALKS["responses"], provider, fault)
    assert heard.texts == ["Hel"]
    assert heard.kinds[-1] == "response.failed"
    assert (heard.answer.error.code, heard.answer.error.message) == ("server_error", "gone")


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize(("after", "heard_before"), [(None, []), (0, []), (1, ["Hel"])])
async def test_a_hang_up_is_a_lost_connection_wherever_it_comes(
    talk: Talk,
    provider: ScriptedProvider,
    after: int | None,
    heard_before: list[str],
    is_reset: bool,
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(HangUpFault(after_deltas=after, is_reset=is_reset))
    heard = Heard()
    with pytest.raises(BROKEN_OFF):
        await talk.listen(provider, heard)
    assert heard.texts == heard_before
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "faults",
    [
        (ChunksFault(size=1),),
        (ChunksFault(size=3),),
        (SplitCharactersFault(),),
        (NoiseFault(),),
        (NoiseFault(), SplitCharactersFault(), ChunksFault(size=2)),
        (TwiceEndedFault(),),
        (NoEndFault(),),
        (SlowFault(seconds=0.001),),
    ],
    ids=lambda faults: "+".join(type(fault).__name__ for fault in faults),
)
async def test_what_only_disturbs_leaves_text_and_arguments_byte_for_byte(
    talk: Talk, provider: ScriptedProvider, faults: tuple[Fault, ...]
) -> None:
    provider.answer(calls((TOOL_NAME, BTC), (TOOL_NAME, ETH), text=ODD))
    heard = await heard_of(talk, provider, *faults)
    assert heard.text == ODD
    assert heard.arguments == ARGUMENTS


async def test_an_end_that_is_left_out_is_missing(talk: Talk, provider: ScriptedProvider) -> None:
    provider.answer(says("Hi."), says("Hi."))
    whole = await heard_of(talk, provider)
    cut = await heard_of(talk, provider, NoEndFault())
    if talk.api is not Api.CHAT:
        assert cut.kinds == whole.kinds[:-1]
    assert provider.last.faults == (NoEndFault(),)


async def test_an_end_that_comes_twice_is_heard_twice_where_the_sdk_reads_on(
    provider: ScriptedProvider,
) -> None:
    provider.answer(says("Hi."))
    heard = await heard_of(TALKS["messages"], provider, TwiceEndedFault())
    assert heard.kinds[-2:] == ["message_stop", "message_stop"]


@pytest.mark.parametrize("shape", ArgumentShape)
async def test_arguments_in_every_shape_make_the_same_calls(
    talk: Talk, provider: ScriptedProvider, shape: ArgumentShape
) -> None:
    provider.answer(calls((TOOL_NAME, BTC), (TOOL_NAME, ETH)))
    heard = await heard_of(talk, provider, OddArgumentsFault(shape=shape))
    assert heard.arguments == ARGUMENTS


async def chat_fragments(provider: ScriptedProvider, shape: ArgumentShape) -> list[dict[str, Any]]:
    """The fragments of two calls as a compatible server sends them."""
    provider.answer(calls((TOOL_NAME, BTC), (TOOL_NAME, ETH)))
    provider.meet(OddArgumentsFault(shape=shape))
    async with httpx2.AsyncClient() as client:
        body = {**TALKS["chat"].body, "stream": True}
        reply = await client.post(
            f"{provider.url}/v1/chat/completions",
            json=body,
            headers={"authorization": "Bearer key"},
        )
    events = [json.loads(line[6:]) for line in reply.text.split("\n") if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return [fragment for delta in deltas for fragment in delta.get("tool_calls", ())]


async def test_each_odd_shape_is_on_the_wire_what_its_name_says(provider: ScriptedProvider) -> None:
    shapes = {shape: await chat_fragments(provider, shape) for shape in ArgumentShape}
    assert len(shapes[ArgumentShape.WHOLE]) == 2
    assert shapes[ArgumentShape.FIRST_BRACE_WITH_NAME][0]["function"]["arguments"] == "{"
    assert "arguments" not in shapes[ArgumentShape.NAME_ALONE][0]["function"]
    assert shapes[ArgumentShape.NULL_IDS][1]["id"] is None
    assert {part["index"] for part in shapes[ArgumentShape.SAME_INDEX]} == {0}
    assert all("index" not in part for part in shapes[ArgumentShape.NO_INDEX])
    pieces = [part["function"]["arguments"] for part in shapes[ArgumentShape.EMPTY_PIECES]]
    assert pieces.count("") > len(pieces) / 2
    assert [part["index"] for part in shapes[ArgumentShape.INTERLEAVED]][:4] == [0, 1, 0, 1]


async def test_usage_may_be_missing(talk: Talk, provider: ScriptedProvider) -> None:
    provider.answer(says("Hi."), says("Hi."))
    assert (await heard_of(talk, provider)).usage is not None
    assert getattr(await heard_of(talk, provider, NoUsageFault()), "usage", None) is None


async def test_a_stop_may_be_unknown(talk: Talk, provider: ScriptedProvider) -> None:
    provider.answer(says("Hi."))
    assert (await heard_of(talk, provider, OddStopFault(reason="sunset"))).stop == "sunset"


async def test_a_refusal_is_told_in_the_words_of_each_api(
    talk: Talk, provider: ScriptedProvider
) -> None:
    no = (ModelText(text="I will not."), ModelStop(reason=StopReason.REFUSAL))
    provider.answer(no, no)
    heard = await heard_of(talk, provider)
    assert heard.text == "I will not."
    wanted = {Api.MESSAGES: "refusal", Api.CHAT: "content_filter", Api.RESPONSES: "completed"}
    assert heard.stop == wanted[talk.api]
    whole = await talk.ask(provider)
    assert whole.stop == wanted[talk.api]


async def test_json_that_breaks_off_is_no_json_to_the_sdk(
    talk: Talk, provider: ScriptedProvider
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(BrokenJsonFault())
    heard = Heard()
    with pytest.raises(json.JSONDecodeError):
        await talk.listen(provider, heard)
    assert heard.texts == ["Hel"]


async def test_silence_ends_when_the_client_leaves_and_that_is_noticed_at_once(
    talk: Talk, provider: ScriptedProvider
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(SilenceFault(after_deltas=1))
    heard = Heard()
    task = asyncio.create_task(talk.listen(provider, heard))
    await eventually(lambda: heard.texts == ["Hel"])
    assert not provider.has_left.is_set()
    left = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(provider.has_left.wait(), 2)
    assert provider.left_at is not None
    assert 0 <= provider.left_at - left < 1


async def test_a_client_that_leaves_a_slow_stream_is_noticed_in_a_pause(
    talk: Talk, provider: ScriptedProvider
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(SlowFault(seconds=60))
    task = asyncio.create_task(talk.listen(provider, Heard()))
    await eventually(lambda: len(provider.exchanges) == 1)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(provider.has_left.wait(), 2)


async def test_faults_that_are_always_there_end_when_told(
    talk: Talk, provider: ScriptedProvider
) -> None:
    provider.answer(says("up again"))
    provider.always(StatusFault(status=503))
    for _ in range(3):
        with pytest.raises((anthropic.InternalServerError, openai.InternalServerError)):
            await talk.ask(provider)
    provider.always()
    assert (await talk.ask(provider)).text == "up again"
