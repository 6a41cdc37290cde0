"""What is known of each model: its window, its limits, its price. The numbers are in the data file.

An unknown model has no price; a call of it costs None, never zero.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from minara_core.events import TokenUsage
from minara_core.money import add, divide, multiply

UNKNOWN_WINDOW = 128_000
"""Context window of a model that the table does not name."""

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens, for requests whose prompt is over `above` tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    above: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """`rates` have the longest prompts first. `effort_with_tools` is empty when any will do.

    `images` are the types it reads, without `image/`. `has_system_messages`: it takes messages of
    the role `system` within a conversation. `binds_thinking`: a thought sent back must stand behind
    all that it was thought behind.
    """

    context_window: int
    max_output: int
    rates: tuple[Rates, ...]
    has_adaptive_thinking: bool = False
    effort_with_tools: str = ""
    images: frozenset[str] = frozenset()
    has_documents: bool = False
    has_system_messages: bool = False
    binds_thinking: bool = False


def facts_of(model: str) -> ModelFacts | None:
    """What is known of a model, by its own id, a gateway's ("vendor/model") or a dated one."""
    table = _table()
    own = model.rpartition("/")[2]
    for name in (model, own, own.replace(".", "-"), own.removesuffix(":free")):
        if name in table:
            return table[name]
    return next((table[name] for name in table if _is_dated(own, name)), None)


def cost_of(model: str, usage: TokenUsage) -> Decimal | None:
    """Dollars of one call's whole usage; None when the model's price is not known."""
    facts = facts_of(model)
    if facts is None:
        return None
    rates = next(each for each in facts.rates if usage.input_tokens > each.above or not each.above)
    fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    parts = (
        (fresh, rates.input),
        (usage.cache_read_tokens, rates.cache_read),
        (usage.cache_write_tokens, rates.cache_write),
        (usage.output_tokens, rates.output),
    )
    total = Decimal(0)
    for tokens, rate in parts:
        total = add(total, multiply(Decimal(max(0, tokens)), rate))
    return divide(total, _MILLION)


def priced(model: str, usage: TokenUsage, before: TokenUsage) -> TokenUsage:
    """What `usage` adds to `before`, both counted from the start of one call, with its cost."""
    total, told = cost_of(model, usage), cost_of(model, before)
    return TokenUsage(
        input_tokens=usage.input_tokens - before.input_tokens,
        output_tokens=usage.output_tokens - before.output_tokens,
        cache_read_tokens=usage.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens - before.cache_write_tokens,
        cost_usd=None if total is None or told is None else total - told,
    )


def _is_dated(model: str, name: str) -> bool:
    """Whether `model` is `name` with a date behind it, such as `-20251001` or `-2026-04-23`."""
    rest = model.removeprefix(f"{name}-")
    return rest != model and rest.replace("-", "").isdecimal() and len(rest) >= len("20251001")


@cache
def _table() -> Mapping[str, ModelFacts]:
    raw = tomllib.loads((files("minara_llm") / "prices.toml").read_text(encoding="utf-8"))
    return {name: _facts(entry) for name, entry in raw["models"].items()}


def _facts(entry: dict[str, Any]) -> ModelFacts:
    rates = [_rates(entry)]
    if "long" in entry:
        rates.insert(0, _rates(entry["long"]))
    return ModelFacts(
        context_window=entry["window"],
        max_output=entry["max_output"],
        rates=tuple(rates),
        has_adaptive_thinking=entry.get("adaptive_thinking", False),
        effort_with_tools=entry.get("effort_with_tools", ""),
        images=frozenset(entry.get("images", ())),
        has_documents=entry.get("documents", False),
        has_system_messages=entry.get("system_messages", False),
        binds_thinking=entry.get("binds_thinking", False),
    )


def _rates(entry: dict[str, Any]) -> Rates:
    return Rates(
        input=Decimal(entry["input"]),
        output=Decimal(entry["output"]),
        cache_read=Decimal(entry["cache_read"]),
        cache_write=Decimal(entry.get("cache_write", entry["input"])),
        above=entry.get("above", 0),
    )
