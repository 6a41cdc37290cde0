"""What a wire server's Chat Completions refuses, through the real SDK."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest

from minara_llm.model import ModelThinking
from minara_llm.scripted import calls, says
from support.wire.provider import ScriptedProvider, a_provider, openai_sdk

Body = dict[str, Any]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()


@pytest.fixture
async def provider() -> AsyncGenerator[ScriptedProvider]:
    async with a_provider() as made:
        yield made


def a_function(name: str = "get_price") -> Body:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


TOOLS = [a_function()]


def said(role: str, content: Any = "hi", **more: Any) -> Body:
    return {"role": role, "content": content, **more}


def called(*call_ids: str) -> Body:
    function = {"name": "get_price", "arguments": "{}"}
    made = [{"id": call_id, "type": "function", "function": function} for call_id in call_ids]
    return {"role": "assistant", "tool_calls": made}


def result(call_id: str) -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


async def ask(provider: ScriptedProvider, *messages: Body, **changes: Any) -> Any:
    body: Body = {
        "model": "gpt-5.4",
        "messages": list(messages) or [said("user")],
        **changes,
    }
    sdk: Any
    async with openai_sdk(provider) as sdk:
        return await sdk.chat.completions.create(**body)


async def refused(
    provider: ScriptedProvider, *messages: Body, code: str | None = None, **changes: Any
) -> str:
    """The sentence of a 400 with this code."""
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(provider, *messages, **changes)
    assert caught.value.type == "invalid_request_error"
    if code is not None:
        assert caught.value.code == code
    assert provider.brain.requests == []
    body: Any = caught.value.body
    return str(body["message"])


async def test_results_answer_the_calls_before_them_and_all_of_them(
    provider: ScriptedProvider,
) -> None:
    begun = (said("user"), called("call_1", "call_2"))
    missing = await refused(provider, *begun, result("call_1"), said("user"))
    assert missing.endswith("did not have response messages: call_2")
    assert "call_1" in await refused(provider, *begun)
    both = (result("call_2"), result("call_1"))
    provider.answer(says("1."))
    await ask(provider, *begun, *both)


async def test_a_result_of_nothing_is_refused(provider: ScriptedProvider) -> None:
    assert "must be a response to" in await refused(provider, said("user"), result("call_1"))
    begun = (said("user"), called("call_1"))
    other = await refused(provider, *begun, result("call_9"))
    assert "'call_9' not found in 'tool_calls' of previous message" in other
    late = (*begun, result("call_1"), said("user"), result("call_1"))
    assert "must be a response to" in await refused(provider, *late)
    twice = (*begun, result("call_1"), result("call_1"))
    assert "not found" in await refused(provider, *twice)


async def test_calls_have_ids_that_tell_apart_and_are_not_too_long(
    provider: ScriptedProvider,
) -> None:
    assert "Duplicate" in await refused(provider, said("user"), called("a", "a"), result("a"))
    long = "c" * 41
    await refused(
        provider, said("user"), called(long), result(long), code="string_above_max_length"
    )
    await refused(provider, said("user"), called(), code="empty_array")


async def test_roles_are_those_of_the_server(provider: ScriptedProvider) -> None:
    await refused(provider, said("context"), code="invalid_value")
    provider.answer(says("Hi."))
    await ask(provider, said("system"), said("developer"), said("user"))
    provider.brain.requests.clear()
    message = await refused(provider, said("developer"), model="qwen3")
    assert "'developer' is not a role" in message


async def test_nothing_said_is_refused_where_something_must_be(provider: ScriptedProvider) -> None:
    assert "expected a string, got null" in await refused(provider, said("user", None))
    assert "expected a string, got null" in await refused(
        provider, said("user"), said("assistant", None), said("user")
    )
    assert "too short" in await refused(provider, said("user", []))
    with pytest.raises(openai.BadRequestError, match="too short"):
        await ask(provider, messages=[])


async def test_openai_itself_takes_one_limit_and_compatible_servers_both(
    provider: ScriptedProvider,
) -> None:
    await refused(provider, max_tokens=100, code="unsupported_parameter")
    provider.answer(*[says("Hi.")] * 3)
    await ask(provider, max_completion_tokens=100)
    await ask(provider, max_tokens=100, model="qwen3")
    async with a_provider(says("Hi."), is_compatible=True) as other:
        await ask(other, max_tokens=100)


@pytest.mark.parametrize(
    ("limit", "code"), [(0, "integer_below_min_value"), (128_001, "invalid_value")]
)
async def test_the_limit_of_output_has_bounds(
    provider: ScriptedProvider, limit: int, code: str
) -> None:
    await refused(provider, max_completion_tokens=limit, code=code)


async def test_names_of_tools_are_plain_and_choices_name_one(provider: ScriptedProvider) -> None:
    assert "tools[0].function.name" in await refused(provider, tools=[a_function("get price")])
    assert "only allowed when 'tools'" in await refused(provider, tool_choice="none")
    await refused(provider, tools=TOOLS, tool_choice="never", code="invalid_value")
    restricted: Body = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [a_function("other")]},
    }
    message = await refused(provider, tools=TOOLS, tool_choice=restricted)
    assert message == "Tool choice 'other' not found in 'tools' parameter."


async def test_a_reasoning_model_takes_tools_here_only_without_effort(
    provider: ScriptedProvider,
) -> None:
    message = await refused(provider, model="gpt-6-sol", tools=TOOLS)
    assert "set reasoning_effort to 'none'" in message
    provider.answer(says("Hi."))
    await ask(provider, model="gpt-6-sol", tools=TOOLS, reasoning_effort="none")


async def test_a_prompt_over_the_window_says_so_in_its_code(provider: ScriptedProvider) -> None:
    message = await refused(
        provider, said("user", "x" * 600_000), model="qwen3", code="context_length_exceeded"
    )
    # {"role":"user","content":""} is 28 bytes: 600,028 / 4.
    assert "maximum context length is 128000 tokens" in message
    assert "150007 tokens" in message


async def test_what_nobody_knows_is_refused(provider: ScriptedProvider) -> None:
    extra = {"parallel": True}
    message = await refused(provider, extra_body=extra, code="unknown_parameter")
    assert message == "Unknown parameter: 'parallel'."


async def test_stream_options_need_a_stream(provider: ScriptedProvider) -> None:
    options = {"include_usage": True}
    assert "'stream' is enabled" in await refused(provider, extra_body={"stream_options": options})


async def test_an_unknown_model_and_a_wrong_key_are_told_apart() -> None:
    async with a_provider(api_key="right") as provider:
        with pytest.raises(openai.AuthenticationError) as wrong:
            await ask(provider)
        assert wrong.value.code == "invalid_api_key"
    async with a_provider() as provider:
        with pytest.raises(openai.NotFoundError) as unknown:
            await ask(provider, model="gpt-99")
        assert unknown.value.code == "model_not_found"


async def test_files_are_what_they_say_they_are(provider: ScriptedProvider) -> None:
    def image(url: str) -> Body:
        return said("user", [{"type": "image_url", "image_url": {"url": url}}])

    provider.answer(says("A picture."))
    await ask(provider, image(f"data:image/png;base64,{PNG}"))
    provider.brain.requests.clear()
    assert "appears to be a image/png" in await refused(
        provider, image(f"data:image/jpeg;base64,{PNG}")
    )
    assert "data URL" in await refused(provider, image("https://example.com/cat.png"))
    nameless = [{"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}]
    assert "filename" in await refused(provider, said("user", nameless))


async def test_the_model_sees_the_request_in_neutral_words(provider: ScriptedProvider) -> None:
    provider.answer(says("1."))
    restricted: Body = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": TOOLS},
    }
    await ask(
        provider,
        said("system", "You are Minara."),
        said("developer", "[signal]"),
        said("user", "price?"),
        called("call_1"),
        result("call_1"),
        said("developer", "[more]"),
        tools=TOOLS,
        tool_choice=restricted,
    )
    (request,) = provider.brain.requests
    assert [block.text for block in request.system] == ["You are Minara.", "[signal]"]
    assert [(m.role, m.text) for m in request.messages] == [
        ("user", "price?"),
        ("assistant", ""),
        ("tool", ""),
        ("context", "[more]"),
    ]
    assert request.callable_tools == ("get_price",)


async def test_thinking_is_shown_by_compatible_servers_alone(provider: ScriptedProvider) -> None:
    thought = (ModelThinking(text="Hm."), *says("Hi."))
    provider.answer(thought, thought)
    sdk: Any
    async with openai_sdk(provider) as sdk:
        for model, shown in (("gpt-5.4", ""), ("qwen3", "Hm.")):
            heard = ""
            async with await sdk.chat.completions.create(
                model=model, messages=[said("user")], stream=True
            ) as chunks:
                async for chunk in chunks:
                    for choice in chunk.choices:
                        heard += getattr(choice.delta, "reasoning_content", "")
            assert heard == shown


async def test_usage_is_streamed_only_when_asked_for(provider: ScriptedProvider) -> None:
    provider.answer(says("Hi."), says("Hi."))
    sdk: Any
    async with openai_sdk(provider) as sdk:
        for options, wanted in (({}, []), ({"stream_options": {"include_usage": True}}, [20])):
            told: list[int] = []
            async with await sdk.chat.completions.create(
                model="gpt-5.4", messages=[said("user")], stream=True, **options
            ) as chunks:
                async for chunk in chunks:
                    told += [chunk.usage.completion_tokens] if chunk.usage else []
            assert told == wanted


async def test_a_whole_answer_has_what_a_stream_has(provider: ScriptedProvider) -> None:
    provider.answer(calls(("get_price", {"symbol": "BTC"}), text="Let me look."))
    answer = await ask(provider, tools=TOOLS)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert choice.message.tool_calls[0].function.arguments == '{"symbol": "BTC"}'
