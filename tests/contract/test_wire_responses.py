"""What a wire server's Responses API refuses, through the real SDK: nothing is stored, so that
every item must come whole."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest

from minara_llm.model import ModelStop, ModelThinking, ModelToolCall, StopReason
from minara_llm.scripted import calls, says
from support.wire.provider import ScriptedProvider, a_provider, openai_sdk

Body = dict[str, Any]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
TOOLS: list[Body] = [
    {"type": "function", "name": "get_price", "parameters": {"type": "object"}, "strict": False}
]
THOUGHT_CALL = (
    ModelThinking(text="Let me look."),
    ModelToolCall(name="get_price", arguments_json="{}"),
    ModelStop(reason=StopReason.TOOL_CALLS),
)


@pytest.fixture
async def provider() -> AsyncGenerator[ScriptedProvider]:
    async with a_provider() as made:
        yield made


def said(role: str, content: Any = "hi") -> Body:
    return {"role": role, "content": content}


def called(call_id: str = "call_1") -> Body:
    return {"type": "function_call", "call_id": call_id, "name": "get_price", "arguments": "{}"}


def result(call_id: str = "call_1") -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": "1"}


async def ask(provider: ScriptedProvider, *items: Body, **changes: Any) -> Any:
    body: Body = {
        "model": "gpt-6-sol",
        "input": list(items) or [said("user")],
        "store": False,
        "tools": TOOLS,
        **changes,
    }
    sdk: Any
    async with openai_sdk(provider) as sdk:
        return await sdk.responses.create(**body)


async def refused(
    provider: ScriptedProvider, *items: Body, code: str | None = None, **changes: Any
) -> str:
    """The sentence of a 400 with this code."""
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(provider, *items, **changes)
    if code is not None:
        assert caught.value.code == code
    assert provider.brain.requests == []
    body: Any = caught.value.body
    return str(body["message"])


async def a_thought_call(provider: ScriptedProvider) -> tuple[Body, Body]:
    """The reasoning item and the call of an answer, as they go back."""
    provider.answer(THOUGHT_CALL)
    answer = await ask(provider, reasoning={"summary": "auto"})
    provider.brain.requests.clear()
    thought, call = (item.model_dump(exclude_none=True) for item in answer.output)
    assert thought["summary"] == [{"type": "summary_text", "text": "Let me look."}]
    return thought, call


async def test_items_that_come_whole_are_taken_back(provider: ScriptedProvider) -> None:
    thought, call = await a_thought_call(provider)
    provider.answer(says("1."))
    await ask(provider, said("user"), thought, call, result(call["call_id"]))


async def test_a_result_needs_its_call_and_a_call_its_result(provider: ScriptedProvider) -> None:
    message = await refused(provider, said("user"), result())
    assert message == "No tool call found for function call output with call_id call_1."
    message = await refused(provider, said("user"), called())
    assert message == "No tool output found for function call call_1."
    early = (said("user"), result(), called())
    assert "No tool call found" in await refused(provider, *early)
    twice = (said("user"), called(), result(), called(), result())
    assert "Duplicate" in await refused(provider, *twice)


async def test_a_call_needs_the_reasoning_it_came_from(provider: ScriptedProvider) -> None:
    thought, call = await a_thought_call(provider)
    answered = result(call["call_id"])
    needed = f"without its required 'reasoning' item: '{thought['id']}'"
    assert needed in await refused(provider, said("user"), call, answered)
    elsewhere = (thought, said("assistant", "Hm."), said("user"), call, answered)
    assert needed in await refused(provider, said("user"), *elsewhere)
    nameless = {name: value for name, value in call.items() if name != "id"}
    assert needed in await refused(provider, said("user"), nameless, answered)


async def test_reasoning_needs_what_came_of_it(provider: ScriptedProvider) -> None:
    thought, _ = await a_thought_call(provider)
    message = await refused(provider, said("user"), thought, said("user"))
    assert message.endswith("was provided without its required following item.")
    assert "following item" in await refused(provider, said("user"), thought)


async def test_reasoning_comes_sealed_and_unbroken(provider: ScriptedProvider) -> None:
    thought, call = await a_thought_call(provider)
    answered = result(call["call_id"])
    bare = {name: value for name, value in thought.items() if name != "encrypted_content"}
    message = await refused(provider, said("user"), bare, call, answered)
    assert "Items are not persisted when `store` is set to false" in message
    for forged in ("", "bm9uc2Vuc2U=.bm9uc2Vuc2U=", thought["encrypted_content"][1:]):
        broken = {**thought, "encrypted_content": forged}
        await refused(
            provider, said("user"), broken, call, answered, code="invalid_encrypted_content"
        )


async def test_nothing_stored_is_referred_to(provider: ScriptedProvider) -> None:
    reference = {"type": "item_reference", "id": "rs_1"}
    assert "'rs_1' not found" in await refused(provider, said("user"), reference)
    await refused(provider, previous_response_id="resp_1", code="previous_response_not_found")


async def test_ids_begin_with_the_kind_of_their_item(provider: ScriptedProvider) -> None:
    call = {**called(), "id": "call_1"}
    message = await refused(provider, said("user"), call, result(), code="invalid_value")
    assert message.endswith("Expected an ID that begins with 'fc'.")


async def test_content_is_of_the_kind_that_its_role_has(provider: ScriptedProvider) -> None:
    for role, kind in (("user", "output_text"), ("assistant", "input_text"), ("system", "text")):
        part = {"type": kind, "text": "hi"}
        await refused(provider, said("user"), said(role, [part]), code="invalid_value")
    await refused(provider, said("tool"), code="invalid_value")


@pytest.mark.parametrize(
    ("limit", "code"), [(15, "integer_below_min_value"), (128_001, "invalid_value")]
)
async def test_the_limit_of_output_has_bounds(
    provider: ScriptedProvider, limit: int, code: str
) -> None:
    await refused(provider, max_output_tokens=limit, code=code)


async def test_choices_name_tools_that_are_there(provider: ScriptedProvider) -> None:
    other = [{"type": "function", "name": "other"}]
    restricted = {"type": "allowed_tools", "mode": "auto", "tools": other}
    assert "'other' not found" in await refused(provider, tool_choice=restricted)
    assert "only allowed when 'tools'" in await refused(provider, tools=[], tool_choice="none")
    bad = [{**TOOLS[0], "name": "get price"}]
    assert "does not match pattern" in await refused(provider, tools=bad)


async def test_a_prompt_over_the_window_says_so_in_its_code(provider: ScriptedProvider) -> None:
    await refused(provider, said("user", "x" * 4_300_000), tools=[], code="context_length_exceeded")


async def test_what_nobody_knows_is_refused(provider: ScriptedProvider) -> None:
    await refused(provider, extra_body={"messages": []}, code="unknown_parameter")
    await refused(provider, include=["everything"], code="invalid_value")


async def test_files_are_what_they_say_they_are(provider: ScriptedProvider) -> None:
    def image(url: str) -> Body:
        return said("user", [{"type": "input_image", "image_url": url}])

    provider.answer(says("A picture."))
    await ask(provider, image(f"data:image/png;base64,{PNG}"))
    provider.brain.requests.clear()
    wrong = f"data:image/jpeg;base64,{PNG}"
    assert "appears to be a image/png" in await refused(provider, image(wrong))


async def test_reasoning_is_left_out_without_effort_and_unseen_without_a_summary(
    provider: ScriptedProvider,
) -> None:
    provider.answer(THOUGHT_CALL, THOUGHT_CALL)
    none = await ask(provider, reasoning={"effort": "none"})
    assert [item.type for item in none.output] == ["function_call"]
    unseen = await ask(provider)
    assert (unseen.output[0].type, unseen.output[0].summary) == ("reasoning", [])
    assert unseen.output[0].encrypted_content


async def test_the_model_sees_the_request_in_neutral_words(provider: ScriptedProvider) -> None:
    provider.answer(says("1."))
    restricted = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_price"}],
    }
    await ask(
        provider,
        said("user", "price?"),
        said("assistant", "Let me look."),
        called("call_1"),
        called("call_2"),
        result("call_1"),
        result("call_2"),
        said("developer", "[more]"),
        instructions="You are Minara.",
        tool_choice=restricted,
    )
    (request,) = provider.brain.requests
    assert [block.text for block in request.system] == ["You are Minara."]
    assert [(m.role, m.text, len(m.blocks)) for m in request.messages] == [
        ("user", "price?", 1),
        ("assistant", "Let me look.", 3),
        ("tool", "", 2),
        ("context", "[more]", 1),
    ]
    assert request.callable_tools == ("get_price",)


async def test_a_stream_is_numbered_and_ends_with_the_whole_answer(
    provider: ScriptedProvider,
) -> None:
    provider.answer(calls(("get_price", {"symbol": "BTC"}), text="Let me look."))
    sdk: Any
    numbers: list[int] = []
    async with openai_sdk(provider) as sdk:
        events: Any
        async with await sdk.responses.create(
            model="gpt-6-sol", input="hi", store=False, stream=True
        ) as events:
            last: Any = None
            async for event in events:
                numbers.append(event.sequence_number)
                last = event
    assert numbers == list(range(len(numbers)))
    assert last.type == "response.completed"
    assert [item.type for item in last.response.output] == ["message", "function_call"]
    assert last.response.output[1].arguments == '{"symbol": "BTC"}'


async def test_an_answer_that_the_limit_cuts_is_incomplete(provider: ScriptedProvider) -> None:
    provider.answer((*says("Half")[:1], ModelStop(reason=StopReason.MAX_TOKENS)))
    answer = await ask(provider)
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
