"""What a call costs, from the table and by nothing else."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.events import TokenUsage
from minara_llm.prices import cost_of, facts_of, priced
from minara_llm.providers import PROVIDERS
from minara_llm.selection import ModelRole, default_model


def test_every_kind_of_token_has_its_price() -> None:
    usage = TokenUsage(
        input_tokens=1_000_000,
        output_tokens=100_000,
        cache_read_tokens=600_000,
        cache_write_tokens=100_000,
    )
    expected = Decimal("0.3") * 2 + Decimal("0.6") * Decimal("0.1")
    expected += Decimal("0.1") * Decimal("2.5") + Decimal("0.1") * 10
    assert cost_of("claude-sonnet-5-5", usage) == expected


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [(100_000, "0.0105"), (100_001, "0.0525005")],
)
def test_a_long_prompt_raises_the_price_of_the_whole_request(tokens: int, cost: str) -> None:
    usage = TokenUsage(input_tokens=tokens, output_tokens=1_000)
    assert cost_of("claude-haiku-5-5", usage) == Decimal(cost)


def test_an_unknown_model_has_no_price_and_no_facts() -> None:
    assert facts_of("some-model") is None
    assert cost_of("some-model", TokenUsage(input_tokens=1)) is None
    assert priced("some-model", TokenUsage(input_tokens=1), TokenUsage()).cost_usd is None


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("anthropic/claude-sonnet-5.5", "claude-sonnet-5-5"),
        ("openai/gpt-6-sol", "gpt-6-sol"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"),
    ],
)
def test_gateways_and_dates_are_seen_through(alias: str, name: str) -> None:
    assert facts_of(alias) == facts_of(name)
    assert facts_of(name) is not None


@pytest.mark.parametrize("name", ["gpt-6-sol-pro", "gpt-5.4-mini-high", "claude-sonnet-5-6", ""])
def test_a_longer_name_is_another_model(name: str) -> None:
    assert facts_of(name) is None


@pytest.mark.parametrize("role", list(ModelRole))
def test_every_default_but_a_local_one_has_a_price(role: ModelRole) -> None:
    named = {provider: default_model(provider, role) for provider in PROVIDERS}
    unpriced = [each for each, name in named.items() if name and facts_of(name) is None]
    assert unpriced in (["ollama"], [])


def test_what_a_model_reads_and_takes_is_known() -> None:
    claude, haiku, grok = map(facts_of, ("claude-opus-5-5", "claude-haiku-4-5", "grok-4.5"))
    assert claude is not None
    assert haiku is not None
    assert grok is not None
    assert (claude.has_system_messages, claude.has_documents) == (True, True)
    assert (haiku.has_system_messages, haiku.has_documents) == (False, True)
    assert (grok.images, grok.has_documents) == (frozenset({"png", "jpeg"}), False)


counts = st.integers(0, 200_000)


@given(fresh=counts, read=counts, written=counts, said=counts)
def test_a_call_told_in_two_parts_costs_what_it_costs_in_one(
    fresh: int, read: int, written: int, said: int
) -> None:
    whole = TokenUsage(
        input_tokens=fresh + read + written,
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    begun = TokenUsage(
        input_tokens=whole.input_tokens, cache_read_tokens=read, cache_write_tokens=written
    )
    first = priced("claude-haiku-5-5", begun, TokenUsage())
    rest = priced("claude-haiku-5-5", whole, begun)
    assert first.plus(rest) == priced("claude-haiku-5-5", whole, TokenUsage())
    assert first.plus(rest).cost_usd == cost_of("claude-haiku-5-5", whole)
