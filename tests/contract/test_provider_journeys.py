"""A whole session with tools, thinking and files, accepted by a strict server at every step."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from minara_core.messages import FileBlock, Message, Role, TextBlock, context_message
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import (
    FileContent,
    ModelCacheMiss,
    ModelText,
    ModelThinking,
    ModelToolCall,
    SystemBlock,
)
from minara_llm.openai import OpenAIModel
from minara_llm.providers import Closable
from minara_llm.responses import ResponsesModel
from minara_llm.wire.brain import Answer
from minara_llm.wire.models import WIRE_MODELS
from support.wire.provider import ScriptedProvider, a_provider
from support.wire.requests import a_request, ask, results_of, said, texts, tool_calls

TURNS = 10
CLAUDES = {
    "anthropic": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-4-5",
}
CALLS = [("get_price", '{"symbol": "BTC", "n": 0.10}'), ("get_price", '{ "symbol":"以太\u2028" }')]
SYSTEM = tuple(
    SystemBlock(name=name, text=f"# {name}\n" + f"{name} says so. " * 400, ends_cached_part=ends)
    for name, ends in (("identity", False), ("catalog", True), ("memory", True))
)
FILES = {
    "chart": FileContent(
        name="chart.png", media_type="image/png", content=b"\x89PNG\r\n\x1a\n" + b"x" * 900
    ),
    "report": FileContent(
        name="report.pdf", media_type="application/pdf", content=b"%PDF-1.7 " + b"x" * 900
    ),
}


def made(provider: ScriptedProvider, api: str) -> Closable:
    url = f"{provider.url}/v1"
    match api:
        case "anthropic" | "opus" | "haiku":
            return AnthropicModel(
                api_key="k",
                name=CLAUDES[api],
                base_url=provider.url,
                asks_cache_misses=api == "anthropic",
            )
        case "responses" | "luna":
            name = "gpt-6-sol" if api == "responses" else "gpt-6-luna"
            return ResponsesModel(provider="openai", api_key="k", name=name, base_url=url)
        case "chat":
            return OpenAIModel(
                provider="openai", api_key="k", name="gpt-6-sol", base_url=url, is_native=True
            )
        case _:
            return OpenAIModel(provider="ollama", api_key="k", name="qwen3", base_url=url)


@asynccontextmanager
async def all_models(
    provider: ScriptedProvider, apis: Sequence[str]
) -> AsyncGenerator[dict[str, Closable]]:
    models = {api: made(provider, api) for api in dict.fromkeys(apis)}
    yield models
    for model in models.values():
        await model.aclose()


def a_persons_message(turn: int) -> Message:
    file = FileBlock(file_key="chart" if turn % 2 else "report", media_type="x/y")
    text = TextBlock(f"Question {turn}?")
    return Message(role=Role.USER, blocks=(text, file) if turn % 3 == 1 else (text,))


async def play(
    provider: ScriptedProvider,
    apis: Sequence[str],
    *,
    steps: int = 2,
    compacted: frozenset[int] = frozenset(),
) -> None:
    """A turn each, of steps with two calls at once, the last with the answer. In the turns that are
    `compacted` all turns before give way to a summary between the first step and the second."""
    messages: list[Message] = []
    async with all_models(provider, apis) as models:
        for turn, api in enumerate(apis, start=1):
            start = len(messages)
            messages += [context_message(f"[signal {turn}]"), a_persons_message(turn)]
            thought = (ModelThinking(text="Let me "), ModelThinking(text="see."))
            calls = tuple(ModelToolCall(name=name, arguments_json=text) for name, text in CALLS)
            provider.answer(
                *[Answer(parts=(*thought, ModelText(text="Looking. "), *calls))] * (steps - 1),
                Answer(parts=(*thought, ModelText(text=f"Answer {turn}: "), ModelText(text="5."))),
            )
            for step in range(1, steps + 1):
                if step == 2 and turn in compacted:
                    messages[:start] = [context_message(f"[what was said before turn {turn}]")]
                request = a_request(*messages, system=SYSTEM, files=FILES)
                events = await ask(models[api], request)
                misses = [event for event in events if isinstance(event, ModelCacheMiss)]
                assert not misses or compacted
                messages.append(said(events, step))
                if step < steps:
                    assert tool_calls(events) == CALLS
                    messages.append(results_of(messages[-1]))
                else:
                    assert "".join(texts(events)) == f"Answer {turn}: 5."


def assert_accepted_and_extending(provider: ScriptedProvider, apis: Sequence[str]) -> None:
    assert provider.broken == []
    assert [exchange.refusal for exchange in provider.exchanges] == [None] * 2 * len(apis)
    asked_by = [api for api in apis for _ in (1, 2)]
    for api in set(apis):
        seen = [e for by, e in zip(asked_by, provider.exchanges, strict=True) if by == api]
        for shorter, longer in itertools.pairwise(seen):
            assert longer.texts[: len(shorter.texts)] == shorter.texts


@pytest.mark.parametrize(
    "tour",
    [
        ("anthropic", "responses", "chat", "anthropic", "compatible"),
        ("responses", "luna", "chat"),
        ("opus", "haiku", "compatible"),
    ],
    ids="-".join,
)
async def test_a_session_may_change_its_model_every_turn(tour: tuple[str, ...]) -> None:
    apis = [api for api, _ in zip(itertools.cycle(tour), range(TURNS), strict=False)]
    async with a_provider() as provider:
        await play(provider, apis)
        assert_accepted_and_extending(provider, apis)


@pytest.mark.parametrize("api", ["anthropic", "opus", "haiku", "responses", "chat", "compatible"])
async def test_a_session_may_be_compacted_in_the_middle_of_a_turn(api: str) -> None:
    steps, compacted = 4, frozenset({3, 4, 7})
    async with a_provider() as provider:
        await play(provider, [api] * TURNS, steps=steps, compacted=compacted)
        assert provider.broken == []
        assert [exchange.refusal for exchange in provider.exchanges] == [None] * steps * TURNS
        turns = [provider.exchanges[n * steps : (n + 1) * steps] for n in range(TURNS)]
        # From the compaction on, the turn only grows again.
        for seen in turns:
            for shorter, longer in itertools.pairwise(seen[1:]):
                assert longer.texts[: len(shorter.texts)] == shorter.texts


async def test_a_session_goes_on_where_system_messages_are_not_taken_after_all() -> None:
    models = [replace(model, takes_system_messages=False) for model in WIRE_MODELS]
    apis = ["opus"] * TURNS
    async with a_provider(models=models) as provider:
        await play(provider, apis)
        first, *rest = provider.exchanges
        assert first.refusal is not None
        provider.exchanges = rest
        assert_accepted_and_extending(provider, apis)


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat", "compatible"])
async def test_a_session_that_stays_reads_its_whole_prefix_from_the_cache(api: str) -> None:
    apis = [api] * TURNS
    async with a_provider() as provider:
        await play(provider, apis)
        assert_accepted_and_extending(provider, apis)
        seen = [exchange.cache for exchange in provider.exchanges[1:] if exchange.cache]
    assert len(seen) == 2 * TURNS - 1
    read, total = sum(s.read_tokens for s in seen), sum(s.total_tokens for s in seen)
    assert read / total > 0.9


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat", "compatible"])
async def test_models_are_listed_by_every_api(api: str) -> None:
    async with a_provider() as provider, all_models(provider, [api]) as models:
        names = await models[api].model_names()
    assert models[api].name in names
    assert list(names) == sorted(names)
