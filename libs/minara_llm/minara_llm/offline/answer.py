"""Sentences from tool results. Every number is repeated as it stands in the envelope."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from minara_core.reasons import DenialReason
from minara_llm.offline import books, market
from minara_llm.offline.fields import (
    LONGEST_TEXT,
    NO_FIELDS,
    Fields,
    Renderer,
    is_nothing,
    load,
    object_of,
    optional,
    text_of,
)
from minara_llm.offline.phrases import Phrases

_ENDS = (".", "!", "?", "。", "！", "？")
_DENIALS = frozenset(DenialReason)
_MOST_LINES = 40
_PLAINLY_DONE = frozenset({"", "filled"})
_FILLS_NOTHING = frozenset({"cancel_order", "transfer_token", "withdraw_token", "send_external"})
"""Moves of which no fill is told."""

RENDERERS: Mapping[str, tuple[Renderer, tuple[str, ...]]] = MappingProxyType(
    {
        "get_price": (market.price, ("symbol", "price", "currency")),
        "get_trending": (market.trending, ("tokens",)),
        "get_fear_greed": (market.fear_greed, ("value", "classification")),
        "search_tokens": (market.search, ("tokens",)),
        "read_file": (market.file, ("path", "content")),
        "read_result": (market.part, ("tool", "part")),
        "get_portfolio": (books.portfolio, ("mode", "venue", "account", "equity_usd", "balances")),
        "minara_total_balance": (books.total_balance, ("mode", "venue", "total_usd", "accounts")),
        "minara_account": (books.account, ("mode", "venue", "accounts")),
        "minara_pnl": (books.pnl, ("realised_usd", "unrealised_usd", "assets")),
        "get_orders": (books.orders, ("mode", "venue", "open_order_count", "open_orders")),
        "get_fills": (books.fills, ("fills",)),
        "get_limits": (books.limits, ("limits",)),
        "get_trading_state": (books.trading_state, ("state",)),
    }
)
"""How each reading tool's data are told, and the fields without which nothing is."""


def _failed(phrases: Phrases, tool: str, error: str) -> str:
    code, separator, sentence = error.partition(": ")
    if not separator:
        code, sentence = "", error
    sentence = sentence if sentence.endswith(_ENDS) else f"{sentence}."
    key = "denied" if code in _DENIALS else "failed"
    said = phrases[key].format(tool=tool, sentence=sentence, code=code)
    return said.removesuffix(" ()").removesuffix("（）")


def tell_result(phrases: Phrases, tool: str, envelope: str) -> str:
    """What one tool result says; a failed, denied or unreadable one is told as such."""
    loaded = load(envelope)
    if loaded is None or "ok" not in loaded:
        return phrases["unreadable"].format(tool=tool)
    if loaded["ok"] is not True:
        return _failed(phrases, tool, text_of(loaded, "error", LONGEST_TEXT))
    data = loaded.get("data")
    if not isinstance(data, dict):
        return phrases["result"].format(tool=tool, text=text_of(loaded, "data", LONGEST_TEXT))
    fields = cast("Fields", data)
    if fields.get("state") == "pending_confirmation":
        return phrases["pending"]
    if fields.get("is_cut") is True:
        return _cut(phrases, tool, fields)
    return _told(phrases, tool, fields) or phrases["unreadable"].format(tool=tool)


def is_simulated(envelope: str) -> bool:
    """Whether the data are of no real market."""
    return text_of(object_of(load(envelope) or NO_FIELDS, "data"), "source") == "simulated"


def _told(phrases: Phrases, tool: str, fields: Fields) -> str:
    """The data in words; empty where they are not what the tool gives."""
    if tool not in RENDERERS:
        plain = _plain(fields)
        return phrases["result"].format(tool=tool, text=f"\n{plain}") if plain else ""
    renderer, needed = RENDERERS[tool]
    if any(fields.get(key) is None for key in needed):
        return ""
    return renderer(phrases, fields)


def _cut(phrases: Phrases, tool: str, fields: Fields) -> str:
    told = phrases["cut"].format(tool=tool, text=text_of(fields, "beginning", LONGEST_TEXT))
    whole = optional(phrases, "cut_whole", uri=text_of(fields, "whole", 240))
    return join_parts([told, whole])


def _plain(fields: Fields) -> str:
    """The values of a result nobody has words for, line by line."""
    lines: list[str] = []
    rest: list[tuple[str, Any]] = list(reversed(list(fields.items())))
    while rest and len(lines) < _MOST_LINES:
        key, value = rest.pop()
        if isinstance(value, dict):
            below = cast("Fields", value)
            rest += [(f"{key} {name}", below[name]) for name in reversed(list(below))]
        elif isinstance(value, list):
            rest += [(key, one) for one in reversed(cast("list[Any]", value))]
        elif value is not None:
            lines.append(f"- {key[:80]}: {text_of({'value': value}, 'value')}")
    return "\n".join(lines)


def open_orders_of(envelope: str) -> Fields | None:
    """The data of a `get_orders` answer that lists orders; None for any other."""
    loaded = load(envelope)
    if loaded is None or loaded.get("ok") is not True:
        return None
    data = object_of(loaded, "data")
    return data if isinstance(data.get("open_orders"), list) else None


def tell_outcome(phrases: Phrases, outcome: Fields) -> str:
    """One sentence on a decided action, from its recorded outcome."""
    state = text_of(outcome, "state")
    message = text_of(outcome, "message", LONGEST_TEXT)
    if state == "done":
        return _told_done(phrases, outcome, message)
    key = f"state_{state}" if f"state_{state}" in phrases else "state_other"
    return phrases[key].format(state=state, message=message).strip()


def _told_done(phrases: Phrases, outcome: Fields, message: str) -> str:
    quantity = _nonzero(outcome, "filled_quantity")
    if not quantity or text_of(outcome, "tool") in _FILLS_NOTHING:
        return phrases["state_done_told"].format(message=message or "done")
    told = phrases["state_done"].format(
        filled=phrases["filled"].format(quantity=quantity, asset=text_of(outcome, "filled_asset")),
        price=optional(phrases, "average", price=_nonzero(outcome, "average_price")),
        spent=optional(
            phrases,
            "spent",
            amount=_nonzero(outcome, "spent"),
            asset=text_of(outcome, "spent_asset"),
        ),
    )
    return told if message in _PLAINLY_DONE else f"{told} ({message})"


def _nonzero(fields: Fields, key: str) -> str:
    text = text_of(fields, key)
    return "" if is_nothing(text) else text


def read_outcome(block: str) -> Fields | None:
    """The outcome in the text of a decided_action block: its first line that is a JSON object."""
    for line in block.splitlines():
        loaded = load(line.strip())
        if loaded is not None and "state" in loaded:
            return loaded
    return None


def join_parts(parts: Sequence[str]) -> str:
    """Paragraphs of an answer; empty ones are left out."""
    return "\n".join(part for part in parts if part)
