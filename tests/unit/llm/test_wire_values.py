"""Whatever a server counts, what reaches money is a number of tokens."""

from types import SimpleNamespace as Part
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.events import TokenUsage
from minara_llm.anthropic_reply import AnthropicReply
from minara_llm.model import ModelEvent, ModelUsage
from minara_llm.openai_reply import ChatReply
from minara_llm.responses_reply import ResponsesReply
from minara_llm.wire_values import MOST_TOKENS, count_of, usage_of

counts = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**18, -(10**9), MOST_TOKENS, MOST_TOKENS + 1, "12", "-1", "²", "1" * 40]),
    st.floats(),
    st.text(max_size=12),
    st.lists(st.integers(), max_size=1),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
)


GOOD: list[tuple[object, int]] = [
    (0, 0),
    (12, 12),
    (12.0, 12),
    ("12", 12),
    (MOST_TOKENS, MOST_TOKENS),
]
BAD: list[object] = [
    *(None, True, -1, 1.5, float("nan"), float("inf"), 1e300, MOST_TOKENS + 1),
    *("", "-1", "1.0", "²", "9" * 5_000, [1], dict[str, int]()),
]


@pytest.mark.parametrize(("value", "count"), [*GOOD, *((bad, None) for bad in BAD)])
def test_a_count_is_a_number_of_tokens_or_missing(value: object, count: int | None) -> None:
    assert count_of(value) == count


def test_no_more_is_read_from_the_cache_and_written_to_it_than_was_sent() -> None:
    found = usage_of(input_tokens=10, output_tokens=1, read=8, written=8)
    assert (found.cache_read_tokens, found.cache_write_tokens) == (8, 2)


def assert_sound(usage: TokenUsage) -> None:
    counted = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    assert all(type(count) is int and 0 <= count <= MOST_TOKENS for count in counted)
    assert usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert usage.cost_usd is not None
    assert usage.cost_usd >= 0


def spent(events: list[ModelEvent]) -> TokenUsage:
    told = [event.usage for event in events if isinstance(event, ModelUsage)]
    # A later report may take back what an earlier one charged; their sum may not fall below zero.
    assert all(usage.cost_usd is not None for usage in told)
    total, *rest = told
    for usage in rest:
        total = total.plus(usage)
    return total


def anthropic(given: list[Any]) -> list[ModelEvent]:
    reply = AnthropicReply(model="claude-sonnet-5-5")
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    first, last = (
        Part(**dict(zip(names, values, strict=True))) for values in (given[:4], given[4:])
    )
    stop = Part(stop_reason="end_turn")
    told = reply.take(Part(type="message_start", message=Part(id="m", usage=first)))
    return [
        *told,
        *reply.take(Part(type="message_delta", delta=stop, usage=last)),
        *reply.finish(),
    ]


def chat(given: list[Any]) -> list[ModelEvent]:
    reply = ChatReply(provider="openai", model="gpt-6-sol")
    details = Part(cached_tokens=given[2], cache_write_tokens=given[3])
    usage = Part(prompt_tokens=given[0], completion_tokens=given[1], prompt_tokens_details=details)
    reply.take(Part(usage=usage, choices=[Part(index=0, delta=None, finish_reason="stop")]))
    return reply.finish()


def responses(given: list[Any]) -> list[ModelEvent]:
    reply = ResponsesReply(provider="openai", model="gpt-6-sol")
    details = Part(cached_tokens=given[2], cache_write_tokens=given[3])
    usage = Part(input_tokens=given[0], output_tokens=given[1], input_tokens_details=details)
    reply.take(Part(type="response.completed", response=Part(usage=usage, output=[])))
    return reply.finish()


@pytest.mark.parametrize("answer", [anthropic, chat, responses])
@given(values=st.lists(counts, min_size=8, max_size=8))
def test_usage_is_sound_whatever_was_counted(answer: Any, values: list[Any]) -> None:
    assert_sound(spent(answer(values)))


@pytest.mark.parametrize("answer", [anthropic, chat, responses])
def test_good_counts_are_told_as_they_are(answer: Any) -> None:
    usage = spent(answer([100, 5, 20, 10, None, 7, None, None]))
    is_beside = answer is anthropic
    assert usage.input_tokens == (130 if is_beside else 100)
    assert usage.output_tokens == (7 if is_beside else 5)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (20, 10)
