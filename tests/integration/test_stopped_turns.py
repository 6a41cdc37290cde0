"""A turn that is stopped leaves its provider at once, and the provider takes its history after it.

Over the real SDKs, against a server as strict as the providers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from typing_extensions import override

from minara_core.events import (
    FinishReason,
    Payload,
    TextDelta,
    ThinkingDelta,
    TurnCancelled,
    TurnCompleted,
)
from minara_core.turn_context import TurnContext
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ModelText, ModelThinking, ModelToolCall
from minara_llm.openai import OpenAIModel
from minara_llm.providers import Closable
from minara_llm.responses import ResponsesModel
from minara_llm.wire.brain import Answer
from minara_llm.wire.faults import SilenceFault
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.domain.turn import Stop
from support.eventually import eventually
from support.orchestrator.house import FakeLink, House, a_turn, of_type
from support.orchestrator.peers import FakeTools
from support.wire.provider import ScriptedProvider, a_provider

GONE_WITHIN_SECONDS = 1.0
"""What the policy `cancel` promises."""

Maker = Callable[[ScriptedProvider], Closable]


def _anthropic(provider: ScriptedProvider) -> Closable:
    return AnthropicModel(api_key="key", name="claude-sonnet-5-5", base_url=provider.url)


def _chat(provider: ScriptedProvider) -> Closable:
    url = f"{provider.url}/v1"
    return OpenAIModel(
        provider="openai", api_key="key", name="gpt-5.4", base_url=url, is_native=True
    )


def _responses(provider: ScriptedProvider) -> Closable:
    return ResponsesModel(
        provider="openai", api_key="key", name="gpt-6-sol", base_url=f"{provider.url}/v1"
    )


MAKERS = [_anthropic, _chat, _responses]
LONG = Answer(
    parts=(ModelThinking(text="Let me think."), ModelText(text="One. "), ModelText(text="Two. "))
)
DONE = Answer(parts=(ModelText(text="Very well."),))


class _SilentTools(FakeTools):
    """Begins every batch and answers nothing."""

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        await asyncio.Event().wait()
        yield ToolProgress(tool_call_id="", message="", fraction=0.0)


async def stopped(house: House, stop: Stop, is_due: Callable[[FakeLink], bool]) -> list[Payload]:
    """A turn that is asked to stop as soon as `is_due`."""
    link = FakeLink()
    playing = asyncio.create_task(house.play(a_turn("Count."), link))
    await eventually(lambda: is_due(link))
    link.stop.request(stop)
    return await asyncio.wait_for(playing, GONE_WITHIN_SECONDS)


def has_spoken(link: FakeLink) -> bool:
    return bool(of_type(link.events, TextDelta) or of_type(link.events, ThinkingDelta))


async def goes_on(house: House, provider: ScriptedProvider) -> None:
    """The provider takes the next request of the session, and answers it."""
    provider.answer(DONE)
    events = await house.play(a_turn("And now?", turn_id="turn-2"))
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.STOP
    assert [exchange.refusal for exchange in provider.exchanges] == [None] * 2
    assert "Count." in " ".join(provider.exchanges[-1].texts)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("maker", MAKERS)
async def test_a_stopped_turn_leaves_its_provider_within_a_second(maker: Maker, stop: Stop) -> None:
    async with a_provider(LONG) as provider:
        provider.meet(SilenceFault(after_deltas=4))
        model = maker(provider)
        house = House([], speakers=[model])
        try:
            events = await stopped(house, stop, has_spoken)
            await asyncio.wait_for(provider.has_left.wait(), GONE_WITHIN_SECONDS)
            assert isinstance(events[-1], TurnCompleted | TurnCancelled)
            await goes_on(house, provider)
        finally:
            await model.aclose()


@pytest.mark.parametrize("maker", MAKERS)
async def test_the_history_of_a_turn_stopped_in_its_calls_is_taken(maker: Maker) -> None:
    calls = [
        ModelToolCall(name="get_price", arguments_json='{"symbol":"BTC"}'),
        ModelToolCall(name="get_price", arguments_json='{"symbol":"ETH"}'),
    ]
    async with a_provider(Answer(parts=(ModelText(text="Looking. "), *calls))) as provider:
        model, tools = maker(provider), _SilentTools()
        house = House([], speakers=[model], tools=tools)
        try:
            events = await stopped(house, Stop.INTERRUPT, lambda _: bool(tools.batches))
            assert isinstance(events[-1], TurnCompleted)
            assert events[-1].finish_reason is FinishReason.INTERRUPTED
            house.tools = FakeTools()
            await goes_on(house, provider)
        finally:
            await model.aclose()
