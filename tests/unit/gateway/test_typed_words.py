"""What a typed message decides: the whole of it is one of a few words, or it decides nothing."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from minara_core.lexicon import typed_decision

CORPUS: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("typed_words.toml").read_text("utf-8")
)
PHRASES = [
    (language, expected, phrase)
    for language, groups in CORPUS.items()
    for expected, phrases in groups.items()
    for phrase in phrases
]
FEWEST = 120


@pytest.mark.parametrize(("language", "expected", "phrase"), PHRASES)
def test_a_phrase_decides_what_it_says_and_a_near_miss_nothing(
    language: str, expected: str, phrase: str
) -> None:
    decided = typed_decision(phrase)
    assert decided == (None if expected == "ordinary" else expected)


def test_the_corpus_is_large_and_half_of_it_are_near_misses() -> None:
    kinds = Counter(expected for _, expected, _ in PHRASES)
    assert len(set(PHRASES)) == len(PHRASES) >= FEWEST
    assert set(CORPUS) == {"en", "zh", "ko"}
    assert 2 * kinds["ordinary"] >= len(PHRASES)
    assert all(min(map(len, groups.values())) >= 5 for groups in CORPUS.values())


def test_words_of_both_chinese_scripts_decide() -> None:
    decided = {phrase for _, expected, phrase in PHRASES if expected != "ordinary"}
    assert {"確認", "确认", "拒絕", "拒绝"} <= decided
