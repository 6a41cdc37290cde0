"""A wire server as a whole: its models, its brains, its doors, and what it keeps."""

import json
import socket
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from minara_core.clock import SystemClock
from minara_core.errors import Conflict
from minara_llm.model import ModelEvent, ModelRequest
from minara_llm.scripted import calls, says
from minara_llm.wire.bodies import Api
from minara_llm.wire.brain import RulesBrain
from minara_llm.wire.http import serving
from minara_llm.wire.models import WIRE_MODELS, WireModel, model_named
from minara_llm.wire.provider import Provider
from support.wire.provider import a_provider, anthropic_sdk, openai_sdk
from support.wire.talks import TALKS, TOOL_NAME, Heard, Talk


@pytest.fixture(params=TALKS)
def talk(request: pytest.FixtureRequest) -> Talk:
    return TALKS[request.param]


async def test_text_thinking_and_calls_come_as_they_are_said(talk: Talk) -> None:
    async with a_provider(says("Hel", "lo"), calls((TOOL_NAME, {}), (TOOL_NAME, {"a": 1}))) as line:
        heard = Heard()
        await talk.listen(line, heard)
        assert heard.texts == ["Hel", "lo"]
        assert heard.stop in {"end_turn", "stop", "completed"}
        called = Heard()
        await talk.listen(line, called)
        assert called.arguments == [(TOOL_NAME, "{}"), (TOOL_NAME, '{"a": 1}')]
        assert called.stop in {"tool_use", "tool_calls", "completed"}
        line.brain.assert_exhausted()


async def test_a_whole_answer_says_what_a_stream_says(talk: Talk) -> None:
    async with a_provider(says("Hel", "lo")) as line:
        assert (await talk.ask(line)).text == "Hello"


async def test_every_exchange_is_kept(talk: Talk) -> None:
    async with a_provider(says("Hi.")) as line:
        heard = await talk.ask(line)
        (exchange,) = line.exchanges
        assert exchange.api is talk.api
        assert exchange.answer_id == heard.answer.id
        assert exchange.seen is line.requests[0]
        assert [block.part for block in exchange.blocks] == ["tools", "messages"]


async def test_answers_may_depend_on_the_request(talk: Talk) -> None:
    def echo(request: ModelRequest) -> tuple[ModelEvent, ...]:
        return says(f"{request.messages[-1].text}, {request.tools[0].name}")

    async with a_provider(echo) as line:
        assert (await talk.ask(line)).text == f"hi, {TOOL_NAME}"


async def test_a_script_that_has_ended_is_an_error_that_is_kept(talk: Talk) -> None:
    async with a_provider() as line:
        with pytest.raises((anthropic.InternalServerError, openai.InternalServerError)):
            await talk.ask(line)
        assert [str(error) for error in line.broken] == ["the script has no answer for request 1"]


async def test_a_script_that_is_left_over_fails_loudly() -> None:
    async with a_provider(says("one"), says("two")) as line:
        await TALKS["chat"].ask(line)
        with pytest.raises(AssertionError, match="1 answers"):
            line.brain.assert_exhausted()


async def test_ids_never_repeat_and_name_their_server(talk: Talk) -> None:
    two = [calls((TOOL_NAME, {})), says("Hi.")]
    async with a_provider(*two, name="a") as one, a_provider(*two, name="b") as other:
        ids = [(await talk.ask(line)).answer.id for line in (one, other) for _ in range(2)]
    assert len(set(ids)) == 4


async def test_the_models_of_each_provider_are_listed() -> None:
    async with a_provider() as line:
        async with anthropic_sdk(line) as sdk:
            listed = [model async for model in sdk.models.list()]
        assert {model.id for model in listed} == {
            model.name for model in WIRE_MODELS if model.name.startswith("claude")
        }
        assert all(model.max_input_tokens for model in listed)
        async with openai_sdk(line) as other:
            names = [model.id async for model in other.models.list()]
        assert "gpt-6-sol" in names
        assert not any(name.startswith("claude") for name in names)


async def test_a_list_of_models_needs_the_key_too() -> None:
    async with a_provider(api_key="right") as line:
        with pytest.raises(anthropic.AuthenticationError):
            async with anthropic_sdk(line) as sdk:
                await sdk.models.list()
        async with openai_sdk(line, api_key="right") as other:
            assert [model async for model in other.models.list()]


@pytest.mark.parametrize(
    "name",
    ["claude-sonnet-5-5", "anthropic/claude-sonnet-5.5", "claude-sonnet-5-5-20261001"],
)
def test_a_model_is_known_by_each_of_its_names(name: str) -> None:
    found = model_named(WIRE_MODELS, name)
    assert found is not None
    assert found.name == "claude-sonnet-5-5"


def test_a_longer_name_is_another_model() -> None:
    models = (WireModel(name="gpt-6"),)
    assert model_named(models, "gpt-6-sol") is None
    assert model_named(models, "gpt-60") is None


async def test_rules_answer_over_the_wire_as_the_offline_model_does() -> None:
    async with serving(provider := Provider(RulesBrain(), SystemClock())):
        async with openai_sdk(provider) as sdk:
            answer: Any = await sdk.chat.completions.create(
                model="gpt-5.4",
                messages=[{"role": "user", "content": "price of BTC"}],
                tools=[{"type": "function", "function": {"name": TOOL_NAME}}],
            )
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == TOOL_NAME
        assert json.loads(call.function.arguments)["symbol"] == "BTC"


async def post(provider: Provider, path: str, content: bytes) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.post(
            f"{provider.url}{path}",
            content=content,
            headers={"authorization": "Bearer key", "anthropic-version": "2023-06-01"},
        )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"model": "gpt-5.4", "messages": "\\ud83c"}', "no low surrogate"),
        (b"[]", "valid dictionary"),
        (b"{}", "model"),
        (b'{"model": "gpt-5.4", "messages": {}}', "messages"),
    ],
)
async def test_a_body_that_is_none_is_refused(content: bytes, words: str) -> None:
    async with a_provider() as line:
        reply = await post(line, "/v1/chat/completions", content)
        assert reply.status_code == 400
        assert words in reply.json()["error"]["message"]


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with a_provider() as line:
        reply = await post(line, "/v1/messages", b" " * (32 * 1024 * 1024 + 1))
        assert reply.status_code == 413
        assert reply.json()["error"]["type"] == "request_too_large"


async def test_what_is_not_here_is_not_found() -> None:
    async with a_provider() as line:
        assert (await post(line, "/v1/embeddings", b"{}")).status_code == 404


async def test_a_version_is_asked_for_where_the_provider_asks() -> None:
    async with a_provider() as line, httpx2.AsyncClient() as client:
        reply = await client.post(f"{line.url}/v1/messages", json={}, headers={"x-api-key": "key"})
        assert reply.json()["error"]["message"] == "anthropic-version: header is required"


async def test_a_port_that_is_taken_is_a_conflict() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Conflict, match=f"port {port} is taken"):
            async with serving(Provider(RulesBrain(), SystemClock()), port=port):
                pass


async def test_all_three_apis_answer_at_one_port() -> None:
    async with a_provider(*[says("Hi.")] * 3) as line:
        for each in TALKS.values():
            await each.ask(line)
        assert [exchange.api for exchange in line.exchanges] == list(Api)
