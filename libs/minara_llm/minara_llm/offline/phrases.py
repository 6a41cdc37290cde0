"""The offline model's sentences, read once on first use; the words are in the data file."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from minara_core.script import locale_of

Phrases = Mapping[str, str]


@cache
def all_phrases() -> Mapping[str, Phrases]:
    """Every section of the data file, by language and script."""
    path = files("minara_llm.offline") / "phrases.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def phrases_for(text: str) -> Phrases:
    """The sentences in the language of `text`; Chinese follows its script, traditional if even."""
    return all_phrases()[locale_of(text)]
