"""Our adapters against a provider that refuses what real ones refuse, and has their faults."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

import pytest

from minara_core.messages import (
    FileBlock,
    Message,
    Role,
    TextBlock,
    context_message,
    user_message,
)
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import (
    FailureKind,
    FileContent,
    ModelEvent,
    ModelFailure,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    StopReason,
    ToolChoice,
)
from minara_llm.openai import OpenAIModel
from minara_llm.responses import ResponsesModel
from minara_llm.scripted import says
from minara_llm.wire.faults import (
    BrokenJsonFault,
    ChunksFault,
    ErrorEventFault,
    Fault,
    HangUpFault,
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
from minara_llm.wire.provider import Provider
from support.wire.dialects import Closable
from support.wire.provider import ScriptedProvider, a_provider
from support.wire.requests import a_request, ask, results_of, said, stop, texts, tool_calls

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
ODD = '{"symbol":"以太 \u2028","amount":"0.10"}'
ODD_TEXT = '以太 \u2028 \u2029 \x85 𝒳 "quoted" \\ end'


def anthropic(provider: Provider) -> Closable:
    return AnthropicModel(api_key="key", name="claude-sonnet-5-5", base_url=provider.url)


def older(provider: Provider) -> Closable:
    return AnthropicModel(api_key="key", name="claude-haiku-4-5", base_url=provider.url)


def chat(provider: Provider, name: str = "gpt-5.4") -> Closable:
    return OpenAIModel(
        provider="openai",
        api_key="key",
        name=name,
        base_url=f"{provider.url}/v1",
        is_native=True,
    )


def compatible(provider: Provider) -> Closable:
    return OpenAIModel(
        provider="ollama", api_key="key", name="qwen3", base_url=f"{provider.url}/v1"
    )


def responses(provider: Provider) -> Closable:
    return ResponsesModel(
        provider="openai", api_key="key", name="gpt-6-sol", base_url=f"{provider.url}/v1"
    )


ADAPTERS: Mapping[str, Callable[[Provider], Closable]] = {
    "anthropic": anthropic,
    "older": older,
    "chat": chat,
    "reasoning-chat": lambda provider: chat(provider, "gpt-6-sol"),
    "compatible": compatible,
    "responses": responses,
}
CALLS: tuple[ModelEvent, ...] = (
    ModelThinking(text="Let me think.\n"),
    *(ModelText(text=piece) for piece in (ODD_TEXT[:4], ODD_TEXT[4:])),
    ModelToolCall(name="get_price", arguments_json=ODD),
    ModelToolCall(name="get_price", arguments_json="{}"),
    ModelStop(reason=StopReason.TOOL_CALLS),
)
ANSWER: tuple[ModelEvent, ...] = (
    ModelThinking(text="Now I know."),
    ModelText(text=ODD_TEXT),
    ModelStop(reason=StopReason.END),
)


@pytest.fixture
async def provider() -> AsyncGenerator[ScriptedProvider]:
    async with a_provider() as made:
        yield made


@pytest.fixture(params=ADAPTERS)
async def model(
    request: pytest.FixtureRequest, provider: ScriptedProvider
) -> AsyncGenerator[Closable]:
    made = ADAPTERS[request.param](provider)
    yield made
    await made.aclose()


async def a_turn(
    provider: ScriptedProvider, model: Closable, *faults: Fault
) -> tuple[list[ModelEvent], list[ModelEvent]]:
    """Two calls that meet these faults, and the answer to their results that meets them too."""
    provider.answer(CALLS, ANSWER)
    provider.meet(*faults)
    provider.meet(*faults)
    asked = a_request()
    first = await ask(model, asked)
    reply = said(first)
    second = await ask(model, a_request(*asked.messages, reply, results_of(reply)))
    assert [exchange.refusal for exchange in provider.exchanges if exchange.refusal] == []
    return first, second


def assert_exact(first: list[ModelEvent], second: list[ModelEvent]) -> None:
    assert "".join(texts(first)) == ODD_TEXT
    assert tool_calls(first) == [("get_price", ODD), ("get_price", "{}")]
    assert "".join(texts(second)) == ODD_TEXT
    assert stop(first).reason is StopReason.TOOL_CALLS
    assert stop(second).reason is StopReason.END


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (ChunksFault(size=1),),
        (ChunksFault(size=3),),
        (SplitCharactersFault(),),
        (NoiseFault(),),
        (NoiseFault(), SplitCharactersFault(), ChunksFault(size=2)),
        (SlowFault(seconds=0.001),),
        (TwiceEndedFault(),),
        (OddStopFault(),),
        (NoUsageFault(),),
    ],
    ids=lambda faults: "+".join(type(fault).__name__ for fault in faults) or "none",
)
async def test_what_only_disturbs_changes_no_byte_and_spoils_no_history(
    provider: ScriptedProvider, model: Closable, faults: tuple[Fault, ...]
) -> None:
    assert_exact(*await a_turn(provider, model, *faults))


@pytest.mark.parametrize("shape", ArgumentShape)
async def test_arguments_in_every_shape_are_byte_exact_and_go_back_as_they_came(
    provider: ScriptedProvider, model: Closable, shape: ArgumentShape
) -> None:
    assert_exact(*await a_turn(provider, model, OddArgumentsFault(shape=shape)))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (StatusFault(status=429, retry_after="7"), FailureKind.RATE_LIMITED),
        (StatusFault(status=529), FailureKind.OVERLOADED),
        (StatusFault(status=500), FailureKind.OVERLOADED),
        (StatusFault(status=503), FailureKind.OVERLOADED),
        (StatusFault(status=401), FailureKind.AUTHENTICATION),
        (StatusFault(status=404), FailureKind.BAD_REQUEST),
        (OverflowFault(), FailureKind.CONTEXT_OVERFLOW),
        (ErrorEventFault(name="overloaded_error", after_deltas=0), FailureKind.OVERLOADED),
        (ErrorEventFault(name="server_error", after_deltas=1), FailureKind.OVERLOADED),
        (
            ErrorEventFault(name="rate_limit_exceeded", is_failed_answer=True),
            FailureKind.RATE_LIMITED,
        ),
        (HangUpFault(after_deltas=None), FailureKind.CONNECTION),
        (HangUpFault(after_deltas=None, is_reset=False), FailureKind.CONNECTION),
        (HangUpFault(after_deltas=0), FailureKind.CONNECTION),
        (HangUpFault(after_deltas=1), FailureKind.CONNECTION),
        (HangUpFault(after_deltas=1, is_reset=False), FailureKind.CONNECTION),
        (BrokenJsonFault(), FailureKind.MALFORMED_STREAM),
    ],
    ids=str,
)
async def test_what_breaks_an_answer_is_a_failure_of_its_kind(
    provider: ScriptedProvider, model: Closable, fault: Fault, kind: FailureKind
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(fault)
    with pytest.raises(ModelFailure) as caught:
        await ask(model, a_request())
    assert caught.value.kind is kind
    assert len(provider.requests) == 1


async def test_a_refusal_is_a_refusal(provider: ScriptedProvider, model: Closable) -> None:
    provider.answer((ModelText(text="I will not."), ModelStop(reason=StopReason.REFUSAL)))
    events = await ask(model, a_request())
    assert texts(events) == ["I will not."]
    assert stop(events).reason is StopReason.REFUSAL


async def test_a_reader_that_leaves_a_silent_provider_is_gone_at_once(
    provider: ScriptedProvider, model: Closable
) -> None:
    provider.answer(says("Hel", "lo"))
    provider.meet(SilenceFault(after_deltas=1))
    async with aclosing(model.stream(replace(a_request(), model=model.name))) as events:
        async for event in events:
            if isinstance(event, ModelText):
                break
        left = asyncio.get_running_loop().time()
    await asyncio.wait_for(provider.has_left.wait(), 2)
    assert provider.left_at is not None
    assert provider.left_at - left < 1


async def test_every_form_of_request_is_accepted(
    provider: ScriptedProvider, model: Closable
) -> None:
    file = FileContent(name="cat.png", media_type="image/png", content=PNG)
    picture = Message(
        role=Role.USER,
        blocks=(TextBlock("what is it?"), FileBlock(file_key="f1", media_type="image/png")),
    )
    blank = Message(role=Role.ASSISTANT, blocks=(TextBlock(" \n"),))
    requests = [
        a_request(),
        a_request(tool_choice=ToolChoice.NONE),
        a_request(callable_tools=("get_price",)),
        a_request(tools=()),
        a_request(system=()),
        a_request(max_output_tokens=1),
        a_request(max_output_tokens=10_000_000),
        a_request(picture, files={"f1": file}),
        a_request(picture),
        a_request(user_message("one"), blank, user_message(" "), user_message("two")),
        a_request(user_message("hi"), context_message("[note]")),
        a_request(user_message("lone \ud83c half")),
    ]
    for request in requests:
        provider.answer(says("Hi."))
        events = await ask(model, request)
        assert texts(events) == ["Hi."]
        assert any(isinstance(event, ModelUsage) for event in events)
    assert [exchange.refusal for exchange in provider.exchanges if exchange.refusal] == []
