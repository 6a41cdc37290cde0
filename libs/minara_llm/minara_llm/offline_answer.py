"""Sentences from tool results. Every number is repeated as it stands in the envelope."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from minara_llm.offline_phrases import Phrases

Fields = Mapping[str, Any]
_LONGEST_VALUE = 80
_LONGEST_TEXT = 2000
_MOST_LINES = 20
_ENDS = (".", "!", "?", "。", "！", "？")


def _load(text: str) -> Fields | None:
    try:
        loaded = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return cast("Fields", loaded) if isinstance(loaded, dict) else None


def _text(fields: Fields, key: str, limit: int = _LONGEST_VALUE) -> str:
    """A value on one line; text from outside is cut and never markup."""
    value = fields.get(key)
    if value is None or isinstance(value, dict | list):
        return ""
    return " ".join(str(value).split())[:limit]


def _rows(fields: Fields, key: str) -> list[Fields]:
    rows = fields.get(key)
    if not isinstance(rows, list):
        return []
    kept = cast("list[Any]", rows)[:_MOST_LINES]
    return [cast("Fields", row) for row in kept if isinstance(row, dict)]


def _optional(phrases: Phrases, key: str, **values: str) -> str:
    return phrases[key].format(**values) if all(values.values()) else ""


def _common(phrases: Phrases, fields: Fields) -> dict[str, str]:
    is_simulated = _text(fields, "source") == "simulated"
    return {
        "change": _optional(phrases, "change", percent=_text(fields, "change_24h_percent")),
        "as_of": _optional(phrases, "as_of", time=_text(fields, "as_of")),
        "simulated": phrases["simulated"] if is_simulated else "",
    }


def _price(phrases: Phrases, fields: Fields) -> str:
    return phrases["price"].format(
        symbol=_text(fields, "symbol"),
        price=_text(fields, "price"),
        currency=_text(fields, "currency"),
        **_common(phrases, fields),
    )


def _trending(phrases: Phrases, fields: Fields) -> str:
    common = _common(phrases, fields)
    head = phrases["trending"].format(as_of=common["as_of"], simulated=common["simulated"])
    lines = [
        phrases["trending_line"].format(
            symbol=_text(row, "symbol"),
            name=_text(row, "name"),
            price=_text(row, "price"),
            change=_optional(phrases, "change", percent=_text(row, "change_24h_percent")),
        )
        for row in _rows(fields, "tokens")
    ]
    return "\n".join([head, *(lines or [phrases["nothing_found"]])])


def _fear_greed(phrases: Phrases, fields: Fields) -> str:
    common = _common(phrases, fields)
    return phrases["fear_greed"].format(
        value=_text(fields, "value"),
        classification=_text(fields, "classification"),
        as_of=common["as_of"],
        simulated=common["simulated"],
    )


def _search(phrases: Phrases, fields: Fields) -> str:
    lines = [
        phrases["search_line"].format(
            symbol=_text(row, "symbol"),
            name=_text(row, "name"),
            asset_class=_text(row, "asset_class"),
        )
        for row in _rows(fields, "tokens")
    ]
    if not lines:
        return phrases["nothing_found"]
    simulated = _common(phrases, fields)["simulated"]
    return "\n".join([phrases["search"].format(simulated=simulated), *lines])


def _portfolio(phrases: Phrases, fields: Fields) -> str:
    common = _common(phrases, fields)
    head = phrases["portfolio"].format(
        mode=_text(fields, "mode"),
        venue=_text(fields, "venue"),
        account=_text(fields, "account"),
        equity_usd=_text(fields, "equity_usd"),
        as_of=common["as_of"],
        simulated=common["simulated"],
    )
    lines = [
        phrases["portfolio_line"].format(
            asset=_text(row, "asset"),
            available=_text(row, "available"),
            held=_text(row, "held"),
            value_usd=_text(row, "value_usd"),
        )
        for row in _rows(fields, "balances")
    ]
    return "\n".join([head, *(lines or [phrases["portfolio_empty"]])])


def _file(phrases: Phrases, fields: Fields) -> str:
    content = fields.get("content", fields.get("text", ""))
    head = phrases["file"].format(path=_text(fields, "path"))
    return f"{head}\n{str(content)[:_LONGEST_TEXT]}"


_RENDERERS: Mapping[str, Callable[[Phrases, Fields], str]] = MappingProxyType(
    {
        "get_price": _price,
        "get_trending": _trending,
        "get_fear_greed": _fear_greed,
        "search_tokens": _search,
        "get_portfolio": _portfolio,
        "read_file": _file,
    }
)


def _failed(phrases: Phrases, tool: str, error: str) -> str:
    code, separator, sentence = error.partition(": ")
    if not separator:
        code, sentence = "", error
    sentence = sentence if sentence.endswith(_ENDS) else f"{sentence}."
    said = phrases["failed"].format(tool=tool, sentence=sentence, code=code)
    return said.removesuffix(" ()").removesuffix("（）")


def tell_result(phrases: Phrases, tool: str, envelope: str) -> str:
    """What one tool result says; a failed, denied or unreadable one is told as such."""
    loaded = _load(envelope)
    if loaded is None or "ok" not in loaded:
        return phrases["unreadable"].format(tool=tool)
    if loaded["ok"] is not True:
        return _failed(phrases, tool, _text(loaded, "error", _LONGEST_TEXT))
    data = loaded.get("data")
    if not isinstance(data, dict):
        return phrases["result"].format(tool=tool, text=_text(loaded, "data", _LONGEST_TEXT))
    fields = cast("Fields", data)
    if fields.get("state") == "pending_confirmation":
        return phrases["pending"]
    renderer = _RENDERERS.get(tool)
    if renderer is None:
        text = json.dumps(fields, ensure_ascii=False)[:_LONGEST_TEXT]
        return phrases["result"].format(tool=tool, text=text)
    return renderer(phrases, fields)


def tell_outcome(phrases: Phrases, outcome: Fields) -> str:
    """One sentence on a decided action, from its recorded outcome."""
    state = _text(outcome, "state")
    key = f"state_{state}" if f"state_{state}" in phrases else "state_other"
    filled = phrases["filled"].format(
        quantity=_text(outcome, "filled_quantity") or "0", asset=_text(outcome, "filled_asset")
    )
    return (
        phrases[key]
        .format(
            state=state,
            message=_text(outcome, "message", _LONGEST_TEXT),
            filled=filled,
            price=_optional(phrases, "average", price=_nonzero(outcome, "average_price")),
            spent=_optional(
                phrases,
                "spent",
                amount=_nonzero(outcome, "spent"),
                asset=_text(outcome, "spent_asset"),
            ),
        )
        .strip()
    )


def _nonzero(fields: Fields, key: str) -> str:
    text = _text(fields, key)
    return text if text.strip("0.") else ""


def read_outcome(block: str) -> Fields | None:
    """The outcome in the text of a decided_action block: its first line that is a JSON object."""
    for line in block.splitlines():
        loaded = _load(line.strip())
        if loaded is not None and "state" in loaded:
            return loaded
    return None


def join_parts(parts: Sequence[str]) -> str:
    """Paragraphs of an answer; empty ones are left out."""
    return "\n".join(part for part in parts if part)
