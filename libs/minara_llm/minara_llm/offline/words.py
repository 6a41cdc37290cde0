"""Small talk, and what the offline model can do nothing about: words that no gate reads.

What a message says about markets and money is the lexicon's (`minara_core.lexicon`).
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from minara_core.lexicon_terms import Parsed

_WHOLE = ("thanks", "greeting")
_ANYWHERE = ("help", "who")
_SHORTFALLS = ("past", "currency", "why", "alert")
_AROUND = " \t\n.!?~。！？～…"


@cache
def _words() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    raw = tomllib.loads((files("minara_llm.offline") / "words.toml").read_text(encoding="utf-8"))
    return {
        name: tuple(_compiled(language, patterns) for language, patterns in entry.items())
        for name, entry in raw.items()
    }


def _compiled(language: str, patterns: list[str]) -> re.Pattern[str]:
    joined = "|".join(patterns)
    return re.compile(rf"(?<![a-z0-9_])(?:{joined})(?![a-z0-9_])" if language == "en" else joined)


def small_talk(parsed: Parsed) -> str | None:
    """ "greeting", "thanks", "help" or "who" when the message is nothing but that."""
    text = parsed.folded.strip(_AROUND)
    for name in _WHOLE:
        if any(pattern.fullmatch(text) for pattern in _words()[name]):
            return name
    return next((name for name in _ANYWHERE if _found(name, parsed.folded)), None)


def halt_asked(parsed: Parsed) -> bool:
    """Whether it asks to halt or resume trading."""
    return _found("halt", parsed.folded) is not None


def beyond(parsed: Parsed) -> str:
    """The first thing named that no tool does, as the person wrote it; empty for none."""
    found = _found("beyond", parsed.folded)
    return parsed.plain[found.start() : found.end()] if found else ""


def shortfalls(parsed: Parsed) -> tuple[str, ...]:
    """What is asked about a market that goes beyond today's price in USD: "past", "currency", "why"
    and "alert", as far as they are asked for."""
    return tuple(name for name in _SHORTFALLS if _found(name, parsed.folded))


def _found(name: str, folded: str) -> re.Match[str] | None:
    matches = (pattern.search(folded) for pattern in _words()[name])
    return min((one for one in matches if one), key=lambda one: one.start(), default=None)
