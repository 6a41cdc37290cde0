"""Prompt-cache accounting of a wire server, through the real SDKs, with figures worked out by hand.

A text block of the Messages API is 25 bytes and its text, so that one of n tokens has 4n - 25
characters.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from minara_llm.scripted import says
from minara_llm.wire.cache import CacheSeen
from support.clock import FixedClock
from support.wire.provider import ScriptedProvider, a_provider, anthropic_sdk, openai_sdk

MARK = {"type": "ephemeral"}
A_TOOL: dict[str, Any] = {"name": "get_price", "input_schema": {"type": "object"}}
Body = dict[str, Any]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def provider(clock: FixedClock) -> AsyncGenerator[ScriptedProvider]:
    async with a_provider(*[says("Hi.")] * 20, clock=clock) as made:
        yield made


def a_text(tokens: int, *, is_marked: bool = False, ttl: str = "", letter: str = "x") -> Body:
    block: Body = {"type": "text", "text": letter * (4 * tokens - 25)}
    if is_marked or ttl:
        block["cache_control"] = {**MARK, "ttl": ttl} if ttl else MARK
    return block


def user(*blocks: Body) -> Body:
    return {"role": "user", "content": list(blocks)}


async def seen(provider: ScriptedProvider, *blocks: Body, **changes: Any) -> CacheSeen:
    """Ask with one user message of these blocks; what the cache made of it, which is also what
    the SDK is told."""
    body: Body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "messages": [user(*blocks)],
        **changes,
    }
    sdk: Any
    async with anthropic_sdk(provider) as sdk:
        usage: Any = (await sdk.messages.create(**body)).usage
    cache = provider.last.cache
    assert cache is not None
    assert usage.cache_read_input_tokens == cache.read_tokens
    assert usage.cache_creation_input_tokens == cache.written_tokens
    assert usage.input_tokens == cache.fresh_tokens
    assert cache.total_tokens == cache.read_tokens + cache.written_tokens + cache.fresh_tokens
    return cache


def figures(cache: CacheSeen) -> tuple[int, int, int]:
    """Read, written, fresh."""
    return cache.read_tokens, cache.written_tokens, cache.fresh_tokens


async def test_what_is_marked_is_written_once_and_read_after(provider: ScriptedProvider) -> None:
    system = [a_text(2_000, is_marked=True)]
    first = await seen(provider, a_text(10), system=system)
    second = await seen(provider, a_text(10), a_text(30, letter="y"), system=system)
    assert figures(first) == (0, 2_000, 10)
    assert figures(second) == (2_000, 0, 40)
    assert (first.longest_common_blocks, second.longest_common_blocks) == (0, 2)


async def test_nothing_is_cached_without_a_mark(provider: ScriptedProvider) -> None:
    for _ in range(2):
        assert figures(await seen(provider, a_text(3_000))) == (0, 0, 3_000)


@pytest.mark.parametrize(
    ("model", "shortest"),
    [("claude-sonnet-5-5", 1_024), ("claude-haiku-5-5", 2_048), ("claude-haiku-4-5", 4_096)],
)
async def test_a_prefix_is_cached_from_the_smallest_length_on(
    provider: ScriptedProvider, model: str, shortest: int
) -> None:
    short = [a_text(shortest - 1, is_marked=True)]
    for _ in range(2):
        cache = await seen(provider, a_text(10), system=short, model=model)
        assert figures(cache) == (0, 0, shortest + 9)
    enough = [a_text(shortest, is_marked=True)]
    assert figures(await seen(provider, a_text(10), system=enough, model=model))[1] == shortest
    assert figures(await seen(provider, a_text(10), system=enough, model=model))[0] == shortest


async def test_the_longest_prefix_wins_and_the_rest_up_to_the_last_mark_is_written(
    provider: ScriptedProvider,
) -> None:
    system = [a_text(1_500, is_marked=True), a_text(500, is_marked=True)]
    said = [a_text(100, is_marked=True)]
    assert figures(await seen(provider, *said, system=system)) == (0, 2_100, 0)
    longer = [a_text(100), a_text(200, is_marked=True), a_text(50)]
    assert figures(await seen(provider, *longer, system=system)) == (2_100, 200, 50)
    changed = [a_text(100, is_marked=True, letter="y")]
    assert figures(await seen(provider, *changed, system=system)) == (2_000, 100, 0)


@pytest.mark.parametrize(("more", "read"), [(1, 1_024), (20, 1_024), (21, 0)])
async def test_an_entry_is_found_up_to_twenty_blocks_before_a_mark(
    provider: ScriptedProvider, more: int, read: int
) -> None:
    await seen(provider, a_text(1_024, is_marked=True))
    between = [a_text(10, letter=chr(97 + n)) for n in range(more - 1)]
    cache = await seen(provider, a_text(1_024), *between, a_text(10, is_marked=True, letter="Z"))
    assert figures(cache) == (read, 1_024 + 10 * more - read, 0)


async def test_a_mark_in_between_bridges_a_longer_way(provider: ScriptedProvider) -> None:
    await seen(provider, a_text(1_024, is_marked=True))
    between = [a_text(10, letter=chr(97 + n), is_marked=n == 10) for n in range(25)]
    cache = await seen(provider, a_text(1_024), *between, a_text(10, is_marked=True, letter="Z"))
    assert figures(cache) == (1_024, 260, 0)


async def test_an_entry_lives_five_minutes_from_its_last_use(
    provider: ScriptedProvider, clock: FixedClock
) -> None:
    system = [a_text(2_000, is_marked=True)]
    await seen(provider, a_text(10), system=system)
    for _ in range(3):
        clock.advance(timedelta(seconds=299))
        assert figures(await seen(provider, a_text(10), system=system)) == (2_000, 0, 10)
    clock.advance(timedelta(seconds=300))
    assert figures(await seen(provider, a_text(10), system=system)) == (0, 2_000, 10)


async def test_an_entry_may_be_asked_to_live_an_hour(
    provider: ScriptedProvider, clock: FixedClock
) -> None:
    system = [a_text(2_000, ttl="1h")]
    await seen(provider, a_text(10), system=system)
    clock.advance(timedelta(seconds=3_599))
    assert figures(await seen(provider, a_text(10), system=system))[0] == 2_000


async def test_changing_the_tools_voids_everything(provider: ScriptedProvider) -> None:
    system = [a_text(2_000, is_marked=True)]
    first = await seen(provider, a_text(10), system=system, tools=[A_TOOL])
    assert first.written_tokens > 2_000
    described = {**A_TOOL, "description": "now with words"}
    changed = await seen(provider, a_text(10), system=system, tools=[described])
    assert changed.read_tokens == 0
    assert changed.longest_common_blocks == 0
    again = await seen(provider, a_text(10), system=system, tools=[A_TOOL])
    assert again.read_tokens == first.written_tokens


@pytest.mark.parametrize(
    "changed",
    [{"tool_choice": {"type": "none"}}, {"thinking": {"type": "adaptive"}}],
    ids=["tool_choice", "thinking"],
)
async def test_tool_choice_and_thinking_void_only_the_messages(
    provider: ScriptedProvider, changed: Body
) -> None:
    asked: Body = {"system": [a_text(2_000, is_marked=True)], "tools": [A_TOOL]}
    first = await seen(provider, a_text(500, is_marked=True), **asked)
    assert figures(first) == (0, 2_514, 0)  # the tool is 53 bytes: 14 tokens
    bound = await seen(provider, a_text(500, is_marked=True), **asked, **changed)
    assert figures(bound) == (2_014, 500, 0)
    free = await seen(provider, a_text(500, is_marked=True), **asked)
    assert figures(free) == (2_514, 0, 0)


async def test_what_tells_a_choice_that_changes_nothing_is_no_change(
    provider: ScriptedProvider,
) -> None:
    await seen(provider, a_text(2_000, is_marked=True), tools=[A_TOOL])
    auto = {"type": "auto"}
    cache = await seen(provider, a_text(2_000, is_marked=True), tools=[A_TOOL], tool_choice=auto)
    assert figures(cache) == (2_014, 0, 0)


async def test_marks_and_short_strings_are_not_part_of_the_bytes(
    provider: ScriptedProvider,
) -> None:
    await seen(provider, a_text(2_000, is_marked=True))
    moved = await seen(provider, a_text(2_000), a_text(10, is_marked=True, letter="y"))
    assert figures(moved) == (2_000, 10, 0)
    short: Body = {"role": "user", "content": a_text(2_000)["text"]}
    said: Body = {"role": "assistant", "content": "ok"}
    messages = [short, said, user(a_text(20, is_marked=True))]
    assert figures(await seen(provider, messages=messages))[0] == 2_000


async def test_the_order_of_keys_is_part_of_the_bytes(provider: ScriptedProvider) -> None:
    await seen(provider, a_text(2_000, is_marked=True), tools=[A_TOOL])
    turned = dict(reversed(A_TOOL.items()))
    assert (await seen(provider, a_text(2_000, is_marked=True), tools=[turned])).read_tokens == 0


async def test_models_share_no_cache(provider: ScriptedProvider) -> None:
    system = [a_text(2_000, is_marked=True)]
    await seen(provider, a_text(10), system=system)
    other = await seen(provider, a_text(10), system=system, model="claude-opus-5-5")
    assert figures(other) == (0, 2_000, 10)


async def test_one_mark_for_the_whole_request_stands_on_its_last_block(
    provider: ScriptedProvider,
) -> None:
    first = await seen(provider, a_text(2_000), cache_control=MARK)
    assert figures(first) == (0, 2_000, 0)
    second = await seen(provider, a_text(2_000), a_text(10, letter="y"), cache_control=MARK)
    assert figures(second) == (2_000, 10, 0)


async def test_the_blocks_of_a_request_can_be_compared_with_those_before(
    provider: ScriptedProvider,
) -> None:
    system = [a_text(2_000, is_marked=True)]
    await seen(provider, a_text(10), system=system, tools=[A_TOOL])
    await seen(provider, a_text(10), a_text(20, letter="y"), system=system, tools=[A_TOOL])
    before, after = (exchange.texts for exchange in provider.exchanges)
    assert after[: len(before)] == before
    assert [block.part for block in provider.last.blocks] == [
        "tools",
        "system",
        "messages",
        "messages",
    ]
    assert all("cache_control" not in text for text in after)


async def reason_of(
    provider: ScriptedProvider, previous: str | None, *blocks: Body, **changes: Any
) -> tuple[str | None, int | None]:
    """Why the cache was missed, by the SDK's own types, and by how many tokens."""
    body: Body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "messages": [user(*blocks)],
        "diagnostics": {"previous_message_id": previous},
        **changes,
    }
    sdk: Any
    async with anthropic_sdk(provider) as sdk:
        answer: Any = await sdk.messages.create(**body)
    if answer.diagnostics is None:
        return None, None
    reason = answer.diagnostics.cache_miss_reason
    return reason.type, getattr(reason, "cache_missed_input_tokens", None)


async def test_a_cache_miss_is_explained_by_what_changed_first(provider: ScriptedProvider) -> None:
    asked: Body = {"system": [a_text(2_000, is_marked=True)], "tools": [A_TOOL]}
    said = a_text(100)
    assert await reason_of(provider, None, said, **asked) == (None, None)
    first = provider.last.answer_id
    more = [said, a_text(10, letter="y")]
    assert await reason_of(provider, first, *more, **asked) == (None, None)
    assert await reason_of(provider, "msg_gone", said, **asked) == (
        "previous_message_not_found",
        None,
    )
    other = a_text(100, letter="y")
    assert await reason_of(provider, first, other, **asked) == ("messages_changed", 100)
    system = {**asked, "system": [a_text(2_000, letter="y")]}
    assert await reason_of(provider, first, said, **system) == ("system_changed", 2_100)
    tools = {**asked, "tools": [A_TOOL, {**A_TOOL, "name": "other"}]}
    assert await reason_of(provider, first, said, **tools) == ("tools_changed", 2_100)
    model = {**asked, "model": "claude-opus-5-5"}
    assert await reason_of(provider, first, said, **model) == ("model_changed", 2_114)
    bound = {**asked, "tool_choice": {"type": "none"}}
    assert await reason_of(provider, first, said, **bound) == ("unavailable", None)


async def test_a_stream_tells_the_miss_in_its_first_event(provider: ScriptedProvider) -> None:
    sdk: Any
    async with (
        anthropic_sdk(provider) as sdk,
        await sdk.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=100,
            messages=[user(a_text(10))],
            diagnostics={"previous_message_id": "msg_gone"},
            stream=True,
        ) as events,
    ):
        first: Any = await anext(aiter(events))
    reason = first.message.diagnostics.cache_miss_reason
    assert reason.type == "previous_message_not_found"


def chat_message(tokens: int, letter: str = "x") -> Body:
    """{"role":"user","content":""} is 28 bytes."""
    return {"role": "user", "content": letter * (4 * tokens - 28)}


async def chat_seen(
    provider: ScriptedProvider, messages: Sequence[Body], **changes: Any
) -> CacheSeen:
    sdk: Any
    async with openai_sdk(provider) as sdk:
        answer: Any = await sdk.chat.completions.create(
            model="gpt-5.4", messages=list(messages), **changes
        )
    cache = provider.last.cache
    assert cache is not None
    assert answer.usage.prompt_tokens == cache.total_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == cache.read_tokens
    return cache


@pytest.mark.parametrize(
    ("tokens", "read"),
    [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (5_000, 4_992)],
)
async def test_an_automatic_cache_reads_whole_steps_from_its_smallest_length_on(
    provider: ScriptedProvider, tokens: int, read: int
) -> None:
    messages = [chat_message(tokens)]
    assert (await chat_seen(provider, messages)).read_tokens == 0
    longer = [*messages, chat_message(50, "y")]
    cache = await chat_seen(provider, longer)
    assert cache.read_tokens == read
    assert cache.longest_common_blocks == 1


async def test_an_automatic_cache_reads_into_a_block_that_goes_on(
    provider: ScriptedProvider,
) -> None:
    await chat_seen(provider, [chat_message(2_000)])
    cache = await chat_seen(provider, [chat_message(3_000)])
    assert cache.longest_common_blocks == 0
    assert cache.read_tokens == 1_920  # 15 steps of 128; 2,000 are 15.6


async def test_an_automatic_cache_keeps_keys_apart_and_forgets(
    provider: ScriptedProvider, clock: FixedClock
) -> None:
    messages = [chat_message(2_048)]
    await chat_seen(provider, messages, prompt_cache_key="one")
    other = await chat_seen(provider, messages, prompt_cache_key="two")
    assert other.read_tokens == 0
    assert (await chat_seen(provider, messages, prompt_cache_key="one")).read_tokens == 2_048
    clock.advance(timedelta(seconds=300))
    assert (await chat_seen(provider, messages, prompt_cache_key="one")).read_tokens == 0


async def test_allowed_tools_do_not_touch_the_automatic_cache(provider: ScriptedProvider) -> None:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("buy_token", "get_price")
    ]
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "get_price"}}],
        },
    }
    messages = [chat_message(2_048)]
    first = await chat_seen(provider, messages, tools=tools)
    bound = await chat_seen(provider, messages, tools=tools, tool_choice=allowed)
    assert bound.read_tokens == first.written_tokens == 2_048
    changed = await chat_seen(provider, messages, tools=tools[1:])
    assert changed.read_tokens == 0


async def test_responses_report_the_same_accounting(provider: ScriptedProvider) -> None:
    sdk: Any
    async with openai_sdk(provider) as sdk:
        body: Body = {"model": "gpt-6-sol", "instructions": "i" * 8_192, "input": "hi"}
        await sdk.responses.create(**body, store=False)
        answer: Any = await sdk.responses.create(**body, store=False)
    cache = provider.last.cache
    assert cache is not None
    # The instructions are 8,194 bytes with their quotes; the message after them is some 50.
    assert cache.read_tokens == 2_048
    assert answer.usage.input_tokens_details.cached_tokens == 2_048
    assert answer.usage.input_tokens == cache.total_tokens
