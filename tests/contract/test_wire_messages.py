"""What a wire server's Messages API refuses, through the real SDK, in words that name the place."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import pytest

from minara_llm.model import ModelStop, ModelText, ModelThinking, ModelToolCall, StopReason
from minara_llm.scripted import calls, says
from support.wire.provider import ScriptedProvider, a_provider, anthropic_sdk

Body = dict[str, Any]
MARK = {"type": "ephemeral"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
TOOLS: list[Body] = [{"name": "get_price", "input_schema": {"type": "object"}}]
THOUGHT_CALL = (
    ModelThinking(text="Let me "),
    ModelThinking(text="look."),
    ModelToolCall(name="get_price", arguments_json="{}"),
    ModelStop(reason=StopReason.TOOL_CALLS),
)


@pytest.fixture
async def provider() -> AsyncGenerator[ScriptedProvider]:
    async with a_provider() as made:
        yield made


async def ask(provider: ScriptedProvider, *messages: Body, **changes: Any) -> Any:
    body: Body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1_000,
        "messages": list(messages) or [user("hi")],
        **changes,
    }
    sdk: Any
    async with anthropic_sdk(provider) as sdk:
        return await sdk.messages.create(**body)


async def refused(provider: ScriptedProvider, *messages: Body, **changes: Any) -> str:
    """The sentence of a 400."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        await ask(provider, *messages, **changes)
    body: Any = caught.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert provider.brain.requests == []
    return str(body["error"]["message"])


def user(*content: str | Body) -> Body:
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"role": "user", "content": blocks}


def assistant(*content: str | Body) -> Body:
    return {**user(*content), "role": "assistant"}


def system(text: str) -> Body:
    return {"role": "system", "content": text}


def call(call_id: str = "toolu_1") -> Body:
    return {"type": "tool_use", "id": call_id, "name": "get_price", "input": {}}


def result(call_id: str = "toolu_1") -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "1"}


def marked(text: str) -> Body:
    return {"type": "text", "text": text, "cache_control": MARK}


async def test_more_than_four_marks_are_refused_wherever_they_stand(
    provider: ScriptedProvider,
) -> None:
    tools = [{**TOOLS[0], "cache_control": MARK}]
    four: Body = {"tools": tools, "system": [marked("a"), marked("b")]}
    message = await refused(provider, user(marked("c"), marked("d")), **four)
    assert message == "A maximum of 4 blocks with cache_control may be provided. Found 5."
    assert "Found 5" in await refused(provider, user(marked("c")), **four, cache_control=MARK)
    provider.answer(says("Hi."))
    await ask(provider, user(marked("c")), **four)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "must be non-empty"), (" \n\t", "must contain non-whitespace text")],
)
async def test_empty_texts_are_refused(provider: ScriptedProvider, text: str, words: str) -> None:
    block = {"type": "text", "text": text}
    told = await refused(provider, user("hi", block))
    assert words in told
    assert "messages.0.content.1" in told
    assert words in await refused(provider, user("hi"), system=[block])
    answer: Body = {**result(), "content": [block]}
    assert words in await refused(
        provider, user("hi"), assistant(call()), user(answer), tools=TOOLS
    )


async def test_an_empty_text_cannot_be_marked(provider: ScriptedProvider) -> None:
    assert "cache_control cannot be set for empty" in await refused(provider, user(marked("")))


async def test_the_first_message_is_the_users(provider: ScriptedProvider) -> None:
    message = await refused(provider, assistant("Hello."), user("hi"))
    assert message == 'messages: first message must use the "user" role'


async def test_a_result_needs_its_call_in_the_message_before(provider: ScriptedProvider) -> None:
    message = await refused(provider, user(result()), tools=TOOLS)
    assert message.startswith("messages.0.content.0: unexpected `tool_use_id`")
    late = (user("hi"), assistant(call()), user(result()), assistant("1"), user(result()))
    assert "messages.4.content.0" in await refused(provider, *late, tools=TOOLS)
    twice = (user("hi"), assistant(call()), user(result(), result()))
    assert "single result" in await refused(provider, *twice, tools=TOOLS)


async def test_a_call_needs_its_result_in_the_next_message(provider: ScriptedProvider) -> None:
    begun = (user("hi"), assistant(call("toolu_1"), call("toolu_2")))
    message = await refused(provider, *begun, user(result("toolu_1")), tools=TOOLS)
    assert message.startswith("messages.1: `tool_use` ids were found without `tool_result` blocks")
    assert "toolu_2" in message
    assert "toolu_1" not in message


async def test_results_stand_first(provider: ScriptedProvider) -> None:
    message = await refused(
        provider, user("hi"), assistant(call()), user("and?", result()), tools=TOOLS
    )
    assert "without `tool_result` blocks immediately after: toolu_1" in message


async def test_ids_of_calls_never_repeat(provider: ScriptedProvider) -> None:
    once = (user("hi"), assistant(call()), user(result()))
    again = (assistant(call()), user(result()))
    assert await refused(provider, *once, *again, tools=TOOLS) == (
        "messages: `tool_use` ids must be unique"
    )


async def test_messages_of_one_role_are_read_as_one(provider: ScriptedProvider) -> None:
    provider.answer(says("Hi."))
    both = (assistant(call("toolu_1")), assistant(call("toolu_2")))
    answers = (user(result("toolu_1")), user(result("toolu_2")), user("and?"))
    await ask(provider, user("hi"), *both, *answers, tools=TOOLS)


async def test_the_tool_list_stays_while_the_history_has_calls(provider: ScriptedProvider) -> None:
    message = await refused(provider, user("hi"), assistant(call()), user(result()))
    assert "must define tools" in message


async def test_names_of_tools_are_plain_and_tell_apart(provider: ScriptedProvider) -> None:
    for name in ("get price", "", "x" * 65, "得"):
        message = await refused(provider, tools=[{**TOOLS[0], "name": name}])
        assert message.startswith("tools.0.custom.name: String should match pattern")
    assert await refused(provider, tools=TOOLS * 2) == "tools: Tool names must be unique."


async def test_a_choice_needs_tools_and_names_one_of_them(provider: ScriptedProvider) -> None:
    assert "while providing `tools`" in await refused(provider, tool_choice={"type": "none"})
    named = {"type": "tool", "name": "other"}
    assert "Tool 'other' not found" in await refused(provider, tools=TOOLS, tool_choice=named)


@pytest.mark.parametrize("limit", [0, -1, 128_001])
async def test_the_limit_of_output_has_bounds(provider: ScriptedProvider, limit: int) -> None:
    assert "max_tokens" in await refused(provider, max_tokens=limit)


async def test_a_prompt_over_the_window_is_too_long(provider: ScriptedProvider) -> None:
    message = await refused(provider, user("x" * 900_000), model="claude-haiku-4-5")
    # A text block is 25 bytes and its text: 900,025 / 4.
    assert message == "prompt is too long: 225007 tokens > 200000 maximum"


async def test_what_nobody_knows_is_refused(provider: ScriptedProvider) -> None:
    message = await refused(provider, extra_body={"parallel": True})
    assert message == "parallel: Extra inputs are not permitted"


async def test_an_unknown_model_is_not_found(provider: ScriptedProvider) -> None:
    for name in ("claude-9", "gpt-6-sol"):
        with pytest.raises(anthropic.NotFoundError) as caught:
            await ask(provider, model=name)
        body: Any = caught.value.body
        assert body["error"] == {"type": "not_found_error", "message": f"model: {name}"}


async def test_a_wrong_key_is_refused() -> None:
    async with a_provider(api_key="right") as provider:
        with pytest.raises(anthropic.AuthenticationError):
            await ask(provider)


async def test_a_system_message_follows_the_user_and_comes_last_or_before_the_assistant(
    provider: ScriptedProvider,
) -> None:
    provider.answer(says("Hi."), says("Hi."))
    await ask(provider, user("hi"), system("[signal]"))
    await ask(provider, user("hi"), system("[signal]"), assistant("Hi."), user("more"))
    provider.brain.requests.clear()
    early = await refused(provider, user("hi"), system("[signal]"), user("more"))
    assert "must be last or be followed by an `assistant`" in early
    late = await refused(provider, user("hi"), assistant("Hi."), system("[signal]"))
    assert "must directly follow a `user` message" in late
    assert "first message" in await refused(provider, system("[signal]"))
    message = await refused(provider, user("hi"), system("[signal]"), model="claude-haiku-5-5")
    assert message == "role 'system' is not supported on this model"


async def test_the_answer_is_not_begun_for_the_model_where_it_takes_none(
    provider: ScriptedProvider,
) -> None:
    assert "prefill" in await refused(provider, user("hi"), assistant("The"))
    provider.answer(says(" end."))
    await ask(provider, user("hi"), assistant("The"), model="claude-haiku-4-5")


async def a_thought_call(provider: ScriptedProvider) -> tuple[Body, Body]:
    """An answer with signed thinking and a call, as it goes back, and what answers it."""
    provider.answer(THOUGHT_CALL)
    answer = await ask(provider, tools=TOOLS, thinking={"type": "adaptive"})
    provider.brain.requests.clear()
    content = [
        {k: v for k, v in block.model_dump().items() if v is not None} for block in answer.content
    ]
    return {"role": "assistant", "content": content}, user(result(content[-1]["id"]))


async def test_thinking_comes_back_as_it_was(provider: ScriptedProvider) -> None:
    said, answered = await a_thought_call(provider)
    provider.answer(says("1."))
    asked: Body = {"tools": TOOLS, "thinking": {"type": "adaptive"}}
    await ask(provider, user("hi"), said, answered, **asked)
    assert said["content"][0]["thinking"] == "Let me look."


@pytest.mark.parametrize(
    "change",
    [{"thinking": "Let me see."}, {"thinking": ""}, {"signature": "c2lnbmVk"}, {"signature": ""}],
    ids=["changed", "blanked", "forged", "unsigned"],
)
async def test_thinking_that_was_changed_is_refused(
    provider: ScriptedProvider, change: Body
) -> None:
    said, answered = await a_thought_call(provider)
    said["content"][0] |= change
    message = await refused(
        provider, user("hi"), said, answered, tools=TOOLS, thinking={"type": "adaptive"}
    )
    assert message.startswith("messages.1.content.0: ")
    assert "cannot be modified" in message or "Invalid `signature`" in message


async def test_a_call_in_progress_keeps_the_thinking_before_it(provider: ScriptedProvider) -> None:
    said, answered = await a_thought_call(provider)
    bare = {**said, "content": said["content"][1:]}
    asked: Body = {"tools": TOOLS, "thinking": {"type": "adaptive"}}
    message = await refused(provider, user("hi"), bare, answered, **asked)
    assert message.startswith("messages.1.content.0.type: Expected `thinking`")
    # Older answers, other models and requests without thinking need none.
    provider.answer(*[says("1.")] * 3)
    await ask(provider, user("hi"), bare, answered, assistant("1."), user("more"), **asked)
    await ask(provider, user("hi"), bare, answered, **asked, model="claude-opus-5-5")
    await ask(provider, user("hi"), bare, answered, tools=TOOLS)


async def test_thinking_is_let_out_as_far_as_it_is_asked_for(provider: ScriptedProvider) -> None:
    provider.answer(THOUGHT_CALL, THOUGHT_CALL, THOUGHT_CALL)
    plain = await ask(provider, tools=TOOLS)
    assert [block.type for block in plain.content] == ["tool_use"]
    hidden = await ask(provider, tools=TOOLS, thinking={"type": "adaptive", "display": "omitted"})
    assert (hidden.content[0].type, hidden.content[0].thinking) == ("thinking", "")
    assert hidden.content[0].signature


async def test_models_that_cannot_think_so_are_not_asked_to(provider: ScriptedProvider) -> None:
    adaptive = {"type": "adaptive"}
    message = await refused(provider, model="claude-haiku-4-5", thinking=adaptive)
    assert message == "adaptive thinking is not supported on this model"
    budget = {"type": "enabled", "budget_tokens": 2_000}
    assert "adaptive" in await refused(provider, max_tokens=4_000, thinking=budget)


async def test_files_are_what_they_say_they_are(provider: ScriptedProvider) -> None:
    def image(media_type: str, data: str) -> Body:
        source = {"type": "base64", "media_type": media_type, "data": data}
        return {"type": "image", "source": source}

    provider.answer(says("A picture."))
    await ask(provider, user(image("image/png", PNG), "what is it?"))
    provider.brain.requests.clear()
    told = await refused(provider, user(image("image/jpeg", PNG)))
    assert "the image appears to be a image/png image" in told
    assert "not supported" in await refused(provider, user(image("image/tiff", PNG)))
    assert "base64" in await refused(provider, user(image("image/png", "%%%")))
    odd = base64.b64encode(b"hello").decode()
    assert "Could not process image" in await refused(provider, user(image("image/png", odd)))


async def test_the_model_sees_the_request_in_neutral_words(provider: ScriptedProvider) -> None:
    provider.answer(says("1."))
    await ask(
        provider,
        user("<context>\n[signal]\n</context>", "price?"),
        assistant("Let me look.", call()),
        user(result()),
        system="You are Minara.",
        tools=TOOLS,
        tool_choice={"type": "none"},
    )
    (request,) = provider.brain.requests
    assert [(m.role, m.text) for m in request.messages] == [
        ("context", "[signal]"),
        ("user", "price?"),
        ("assistant", "Let me look."),
        ("tool", ""),
    ]
    assert request.messages[2].tool_calls[0].name == "get_price"
    assert request.system[0].text == "You are Minara."
    assert [tool.name for tool in request.tools] == ["get_price"]
    assert request.tool_choice == "none"


async def test_a_whole_answer_has_what_a_stream_has(provider: ScriptedProvider) -> None:
    provider.answer(calls(("get_price", {"symbol": "BTC"}), text="Let me look."))
    whole = await ask(provider, tools=TOOLS)
    assert [block.type for block in whole.content] == ["text", "tool_use"]
    assert whole.content[1].input == {"symbol": "BTC"}
    assert whole.stop_reason == "tool_use"
    assert whole.usage.output_tokens == 20
    provider.answer((ModelText(text="Half"), ModelStop(reason=StopReason.MAX_TOKENS)))
    assert (await ask(provider)).stop_reason == "max_tokens"
