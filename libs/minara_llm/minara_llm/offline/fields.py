"""Reading tool results for sentences: every number stays the text that stands in the envelope."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from minara_llm.offline.phrases import Phrases

Fields = Mapping[str, Any]
Renderer = Callable[[Phrases, Fields], str]

NO_FIELDS: Fields = MappingProxyType({})
LONGEST_TEXT = 2000
_LONGEST_VALUE = 80
_MOST_LINES = 20


def load(text: str) -> Fields | None:
    """The JSON object in `text`, its numbers as text; None for anything else."""
    try:
        loaded = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return cast("Fields", loaded) if isinstance(loaded, dict) else None


def text_of(fields: Fields, key: str, limit: int = _LONGEST_VALUE) -> str:
    """A value on one line; text from outside is cut and never markup."""
    value = fields.get(key)
    if value is None or isinstance(value, dict | list):
        return ""
    return " ".join(str(value).split())[:limit]


def object_of(fields: Fields, key: str) -> Fields:
    """An object within, empty where there is none."""
    value = fields.get(key)
    return cast("Fields", value) if isinstance(value, dict) else NO_FIELDS


def rows_of(fields: Fields, key: str) -> list[Fields]:
    """The objects of a list."""
    rows = fields.get(key)
    if not isinstance(rows, list):
        return []
    return [cast("Fields", row) for row in cast("list[Any]", rows) if isinstance(row, dict)]


def amounts_of(fields: Fields, key: str) -> str:
    """An object of numbers by asset, such as `{"ETH":"1"}`, as "1 ETH, …"; empty for none."""
    held = object_of(fields, key)
    return ", ".join(f"{text_of(held, name)} {name[:_LONGEST_VALUE]}" for name in held)


def listed(phrases: Phrases, rows: list[Fields], line: Callable[[Fields], str]) -> list[str]:
    """A line for each row, as many as are shown; the last one says if there are more."""
    lines = [line(row) for row in rows[:_MOST_LINES]]
    return [*lines, phrases["more"]] if len(rows) > _MOST_LINES else lines


def optional(phrases: Phrases, key: str, **values: str) -> str:
    """The phrase, or nothing where one of its values is missing."""
    return phrases[key].format(**values) if all(values.values()) else ""


def is_nothing(number: str) -> bool:
    """Whether a number is zero, or not there."""
    return not number.strip("0.")


def as_of(phrases: Phrases, fields: Fields) -> str:
    return optional(phrases, "as_of", time=text_of(fields, "as_of"))


def where(phrases: Phrases, fields: Fields) -> str:
    """The venue, and the mode if the venue is not named after it."""
    venue, mode = text_of(fields, "venue"), text_of(fields, "mode")
    return venue if venue == mode else phrases["where"].format(venue=venue, mode=mode)


def paper(phrases: Phrases, fields: Fields) -> str:
    return phrases["paper"] if text_of(fields, "mode") == "paper" else ""
