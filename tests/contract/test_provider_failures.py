"""How providers say no, and what we understand of it."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from minara_llm.model import FailureKind, ModelFailure, ModelText
from support.wire.lines import DIALECTS, Line, a_line
from support.wire.requests import a_request, ask
from support.wire.server import Reply


@pytest.fixture(params=DIALECTS)
async def line(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with a_line(request.param) as made:
        yield made


async def failure_of(line: Line) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(line.model, a_request())
    return caught.value


@pytest.mark.parametrize(
    ("status", "name", "message", "kind"),
    [
        (429, "rate_limit_error", "slow down", FailureKind.RATE_LIMITED),
        (529, "overloaded_error", "overloaded", FailureKind.OVERLOADED),
        (500, "api_error", "internal", FailureKind.OVERLOADED),
        (503, "service_unavailable", "later", FailureKind.OVERLOADED),
        (502, "", "<html>bad gateway</html>", FailureKind.OVERLOADED),
        (504, "timeout_error", "too slow", FailureKind.TIMEOUT),
        (401, "authentication_error", "invalid key", FailureKind.AUTHENTICATION),
        (403, "permission_error", "not yours", FailureKind.AUTHENTICATION),
        (404, "not_found_error", "no such model", FailureKind.BAD_REQUEST),
        (400, "invalid_request_error", "messages: odd", FailureKind.BAD_REQUEST),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 250000 tokens > 200000 maximum",
            FailureKind.CONTEXT_OVERFLOW,
        ),
        (
            400,
            "invalid_request_error",
            "This model's maximum context length is 128000 tokens.",
            FailureKind.CONTEXT_OVERFLOW,
        ),
        (413, "request_too_large", "too large", FailureKind.CONTEXT_OVERFLOW),
    ],
)
async def test_refusals_are_told_by_their_kind_and_never_retried(
    line: Line, status: int, name: str, message: str, kind: FailureKind
) -> None:
    line.wire.answer(line.dialect.error(status, name, message))
    failure = await failure_of(line)
    assert failure.kind is kind
    assert failure.metadata["provider"] == line.model.provider
    assert message in failure.metadata["detail"]
    assert len(line.wire.requests) == 1


NOON, LATER = "Mon, 30 Nov 2026 12:00:00 GMT", "Mon, 30 Nov 2026 12:00:30 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "250"}, 0.25),
        ({"retry_after_ms": "250", "retry_after": "7"}, 0.25),
        ({"retry_after": LATER, "date": NOON}, 30.0),
        ({"retry_after": NOON, "date": LATER}, 0.0),
        # Without the provider's own clock a date says nothing.
        ({"retry_after": LATER}, None),
        ({"retry_after": "soon", "date": NOON}, None),
        ({"retry_after": "-3"}, None),
        ({}, None),
    ],
)
async def test_a_rate_limit_repeats_when_to_come_back(
    line: Line, headers: dict[str, str], seconds: float | None
) -> None:
    line.wire.answer(line.dialect.error(429, "rate_limit_error", "slow", **headers))
    failure = await failure_of(line)
    assert failure.kind is FailureKind.RATE_LIMITED
    assert failure.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("overloaded_error", FailureKind.OVERLOADED),
        ("rate_limit_error", FailureKind.RATE_LIMITED),
        ("server_error", FailureKind.OVERLOADED),
        ("429", FailureKind.RATE_LIMITED),
    ],
)
async def test_an_error_inside_a_good_stream_is_a_failure(
    line: Line, name: str, kind: FailureKind
) -> None:
    begun = line.dialect.stream("Hel", stop=None)
    line.wire.answer(Reply(parts=(begun, line.dialect.error_event(name, "gone"))))
    events = line.model.stream(replace(a_request(), model=line.model.name))
    heard: list[str] = []

    async def listen() -> None:
        async for event in events:
            heard.extend([event.text] if isinstance(event, ModelText) else [])

    with pytest.raises(ModelFailure) as caught:
        await listen()
    assert caught.value.kind is kind
    assert heard == ["Hel"]


@pytest.mark.parametrize(
    "words",
    [
        # Anthropic, OpenAI, xAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio, Gemini, Bedrock.
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "Your input exceeds the context window of this model.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "This endpoint's maximum context length is 128000 tokens. However, you requested 131000",
        "prompt too long; exceeded max context length by 12 tokens",
        "the request exceeds the available context size. try increasing the context size",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Input is too long for requested model.",
    ],
)
async def test_every_providers_words_for_a_prompt_that_does_not_fit_are_known(
    line: Line, words: str
) -> None:
    line.wire.answer(line.dialect.error(400, "invalid_request_error", words))
    assert (await failure_of(line)).kind is FailureKind.CONTEXT_OVERFLOW


async def test_a_rate_limit_that_speaks_of_tokens_is_a_rate_limit(line: Line) -> None:
    words = "Too many tokens, please wait before trying again."
    line.wire.answer(line.dialect.error(429, "throttled", words))
    assert (await failure_of(line)).kind is FailureKind.RATE_LIMITED


async def test_what_openrouters_upstream_says_counts() -> None:
    error: dict[str, Any] = {
        "code": 400,
        "message": "Provider returned error",
        "metadata": {"raw": '{"message":"prompt is too long: 9 > 8"}', "provider_name": "X"},
    }
    async with a_line("compatible") as line:
        dialect = DIALECTS["compatible"]
        begun = dialect.stream("Hel", stop=None)
        chunk = f"data: {json.dumps({'error': error})}\n\n".encode()
        line.wire.answer(Reply(parts=(begun + chunk,)))
        failure = await failure_of(line)
    assert failure.kind is FailureKind.CONTEXT_OVERFLOW
    assert "prompt is too long" in failure.metadata["detail"]


async def test_an_error_body_that_is_no_stream_is_malformed(line: Line) -> None:
    line.wire.answer(
        Reply(headers={"content-type": "application/json"}, parts=(b'{"detail":"what?"}',))
    )
    assert (await failure_of(line)).kind is FailureKind.MALFORMED_STREAM
