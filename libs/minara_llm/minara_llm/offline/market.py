"""Sentences from what tools read in the world: prices, moods, tokens, files."""

from minara_llm.offline.fields import (
    LONGEST_TEXT,
    Fields,
    as_of,
    is_nothing,
    listed,
    optional,
    rows_of,
    text_of,
)
from minara_llm.offline.phrases import Phrases


def _change(phrases: Phrases, fields: Fields) -> str:
    percent = text_of(fields, "change_24h_percent")
    is_rise = not percent.startswith(("-", "+")) and not is_nothing(percent)
    return optional(phrases, "change", percent=f"+{percent}" if is_rise else percent)


def price(phrases: Phrases, fields: Fields) -> str:
    return phrases["price"].format(
        symbol=text_of(fields, "symbol"),
        price=text_of(fields, "price"),
        currency=text_of(fields, "currency"),
        change=_change(phrases, fields),
        as_of=as_of(phrases, fields),
    )


def trending(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        return phrases["trending_line"].format(
            symbol=text_of(row, "symbol"),
            name=text_of(row, "name"),
            price=text_of(row, "price"),
            change=_change(phrases, row),
        )

    head = phrases["trending"].format(as_of=as_of(phrases, fields))
    lines = listed(phrases, rows_of(fields, "tokens"), line)
    return "\n".join([head, *(lines or [phrases["nothing_found"]])])


def fear_greed(phrases: Phrases, fields: Fields) -> str:
    said = text_of(fields, "classification")
    return phrases["fear_greed"].format(
        value=text_of(fields, "value"),
        classification=phrases.get(f"mood_{'_'.join(said.casefold().split())}", said),
        as_of=as_of(phrases, fields),
    )


def search(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        return phrases["search_line"].format(
            symbol=text_of(row, "symbol"),
            name=text_of(row, "name"),
            asset_class=text_of(row, "asset_class"),
        )

    lines = listed(phrases, rows_of(fields, "tokens"), line)
    if not lines:
        return phrases["nothing_found"]
    return "\n".join([phrases["search"], *lines])


def file(phrases: Phrases, fields: Fields) -> str:
    head = phrases["file"].format(path=text_of(fields, "path"))
    content = str(fields["content"])
    shown = f"{head}\n{content[:LONGEST_TEXT]}"
    return shown if len(content) <= LONGEST_TEXT else f"{shown}\n{phrases['more']}"


def part(phrases: Phrases, fields: Fields) -> str:
    """A result that is read again."""
    text = str(fields["part"])
    told = phrases["part"].format(tool=text_of(fields, "tool"), text=text[:LONGEST_TEXT])
    has_more = len(text) > LONGEST_TEXT or fields.get("next_offset") is not None
    return f"{told}\n{phrases['part_more']}" if has_more else told
