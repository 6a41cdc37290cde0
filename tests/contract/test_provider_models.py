"""What an adapter knows of its provider's models."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from minara_llm.anthropic import AnthropicModel
from minara_llm.model import FailureKind, ModelFailure
from minara_llm.openai import OpenAIModel
from minara_llm.providers import Closable
from minara_llm.responses import ResponsesModel
from support.wire.lines import DIALECTS
from support.wire.server import Reply, WireServer, a_wire_server

APIS = ("anthropic", "chat", "responses")


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


def made(api: str, url: str, *, name: str = "gpt-5.4", window: int | None = None) -> Closable:
    if api == "anthropic":
        return AnthropicModel(api_key="k", name=name, base_url=url, context_window=window)
    if api == "chat":
        return OpenAIModel(
            provider="xai", api_key="k", name=name, base_url=f"{url}/v1", context_window=window
        )
    return ResponsesModel(
        provider="openai", api_key="k", name=name, base_url=f"{url}/v1", context_window=window
    )


@pytest.fixture(params=APIS)
async def model(request: pytest.FixtureRequest, wire: WireServer) -> AsyncGenerator[Closable]:
    adapter = made(request.param, wire.url)
    yield adapter
    await adapter.aclose()


def page(names: Sequence[str], **more: Any) -> Reply:
    entries = [{"id": name, "object": "model", "type": "model"} for name in names]
    body = {"object": "list", "data": entries, "has_more": False, **more}
    return Reply(headers={"content-type": "application/json"}, parts=(json.dumps(body).encode(),))


async def test_models_are_listed_sorted_and_each_once(wire: WireServer, model: Closable) -> None:
    wire.answer(page(["b", "a", "b", "c"]))
    assert await model.model_names() == ("a", "b", "c")
    assert wire.requests[0].path.startswith("/v1/models")


async def test_at_most_a_thousand_are_listed(wire: WireServer, model: Closable) -> None:
    wire.answer(page([f"m{n:05}" for n in range(1_500)]))
    names = await model.model_names()
    assert len(names) == 1_000


async def test_all_pages_are_read(wire: WireServer) -> None:
    model = made("anthropic", wire.url)
    wire.answer(page(["b"], has_more=True, last_id="b"), page(["a"]))
    assert await model.model_names() == ("a", "b")
    assert "after_id=b" in wire.requests[1].path
    await model.aclose()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, FailureKind.AUTHENTICATION),
        (404, FailureKind.BAD_REQUEST),
        (429, FailureKind.RATE_LIMITED),
        (503, FailureKind.OVERLOADED),
    ],
)
async def test_a_list_that_is_refused_is_a_failure(
    wire: WireServer, model: Closable, status: int, kind: FailureKind
) -> None:
    wire.answer(DIALECTS["openai"].error(status, "", "no"))
    with pytest.raises(ModelFailure) as caught:
        await model.model_names()
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    "body", [b"<html>hi</html>", b"[]", b"{", b"null", b'{"data":[1]}', b'{"data":[{"id":null}]}']
)
async def test_a_list_that_is_none_is_a_failure(
    wire: WireServer, model: Closable, body: bytes
) -> None:
    wire.answer(Reply(headers={"content-type": "application/json"}, parts=(body,)))
    with pytest.raises(ModelFailure) as caught:
        await model.model_names()
    assert caught.value.kind is FailureKind.MALFORMED_STREAM


@pytest.mark.parametrize("api", APIS)
async def test_the_window_is_what_was_set_else_what_is_known_else_a_cautious_guess(
    api: str,
) -> None:
    url = "http://127.0.0.1:1"
    assert made(api, url).context_window == 1_000_000
    assert made(api, url, window=9_000).context_window == 9_000
    assert made(api, url, name="unheard-of").context_window == 128_000
