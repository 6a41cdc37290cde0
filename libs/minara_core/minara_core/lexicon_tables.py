"""The lexicon's data files, read and compiled once on first use."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from minara_core.lexicon_terms import Direction, Language
from minara_core.taxonomy import AssetClass

WORD = re.compile(r"[a-z0-9]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


LanguagePatterns = Mapping[Language, re.Pattern[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetName:
    """One way to write an asset. `needs_case`: in lower case it is an everyday word."""

    text: str
    symbol: str
    asset_class: AssetClass
    needs_case: bool
    is_ambiguous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetTable:
    """Names by first word (spaced scripts) and by first character (Chinese and Korean), longest
    first, and the class of each symbol."""

    by_word: Mapping[str, tuple[AssetName, ...]]
    by_character: Mapping[str, tuple[AssetName, ...]]
    classes: Mapping[str, AssetClass]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTable:
    """`verbs` have one named group per direction."""

    verbs: Mapping[Language, re.Pattern[str]]
    negated_before: re.Pattern[str]
    negated_after: re.Pattern[str]
    openers: Mapping[Language, re.Pattern[str]]
    polite: Mapping[Language, re.Pattern[str]]
    korean_request: re.Pattern[str]
    korean_stems: tuple[str, ...]
    cancel: LanguagePatterns


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountTable:
    units: re.Pattern[str]
    unit_of: Mapping[str, str]
    sign: re.Pattern[str]
    sign_of: Mapping[str, str]
    counters: re.Pattern[str]
    multiplier: re.Pattern[str]
    factor_of: Mapping[str, Decimal]
    beside_currency: re.Pattern[str]
    shares: Mapping[str, re.Pattern[str]]
    price_before: re.Pattern[str]
    price_after: re.Pattern[str]
    leverage: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTable:
    yes: frozenset[str]
    no: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """`continuation` matches a whole message."""

    question: LanguagePatterns
    evaluate: LanguagePatterns
    manage: LanguagePatterns
    discover: LanguagePatterns
    continuation: LanguagePatterns
    topics: Mapping[str, LanguagePatterns]


def _read(name: str) -> dict[str, Any]:
    path = files("minara_core") / "lexicon_data" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def is_cjk(text: str) -> bool:
    """Whether `text` holds a Chinese, Japanese or Korean character."""
    return _CJK.search(text) is not None


def _bordered(pattern: str) -> str:
    return rf"(?<![a-z0-9_])(?:{pattern})(?![a-z0-9_])"


def _left_bordered(pattern: str) -> str:
    return pattern if is_cjk(pattern) else rf"(?<![a-z0-9_]){pattern}"


def _literals(words: Iterable[str]) -> str:
    """Longest first; words of spaced scripts end on a word border."""
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(
        re.escape(word) + ("(?![a-z0-9])" if word[-1].isascii() and word[-1].isalnum() else "")
        for word in ordered
    )


def _by_language(entry: Mapping[str, Sequence[str]]) -> LanguagePatterns:
    return {
        language: re.compile(
            _bordered("|".join(entry[language]))
            if language is Language.EN
            else "|".join(entry[language])
        )
        for language in Language
        if entry.get(language)
    }


@cache
def asset_table() -> AssetTable:
    raw = _read("assets")
    word_like, ambiguous = frozenset(raw["word_like"]), frozenset(raw["ambiguous"])
    by_word: dict[str, list[AssetName]] = {}
    by_character: dict[str, list[AssetName]] = {}
    classes: dict[str, AssetClass] = {}
    for asset_class in AssetClass:
        for symbol, others in raw.get(asset_class, {}).items():
            classes[symbol] = asset_class
            for text in (symbol.casefold(), *others):
                name = AssetName(
                    text=text,
                    symbol=symbol,
                    asset_class=asset_class,
                    needs_case=text == symbol.casefold() and symbol in word_like,
                    is_ambiguous=text == symbol.casefold() and symbol in ambiguous,
                )
                if is_cjk(text):
                    by_character.setdefault(text[0], []).append(name)
                else:
                    by_word.setdefault(WORD.findall(text)[0], []).append(name)
    return AssetTable(
        by_word={key: _longest_first(names) for key, names in by_word.items()},
        by_character={key: _longest_first(names) for key, names in by_character.items()},
        classes=classes,
    )


def _longest_first(names: list[AssetName]) -> tuple[AssetName, ...]:
    return tuple(sorted(names, key=lambda name: len(name.text), reverse=True))


@cache
def move_table() -> MoveTable:
    raw = _read("directions")
    verbs: dict[Language, re.Pattern[str]] = {}
    for language in Language:
        groups = "|".join(
            f"(?P<{direction}>{'|'.join(raw[language][direction])})"
            for direction in Direction
            if raw[language].get(direction)
        )
        verbs[language] = re.compile(_bordered(groups) if language is Language.EN else groups)
    return MoveTable(
        verbs=verbs,
        negated_before=re.compile(raw["negation"]["before"]),
        negated_after=re.compile(raw["negation"]["after"]),
        openers={
            Language.EN: re.compile(raw["opener"]["en"]),
            Language.ZH: re.compile(raw["opener"]["zh"]),
        },
        polite={language: re.compile(raw["polite"][language]) for language in Language},
        korean_request=re.compile(raw["ko_request"]["after"]),
        korean_stems=tuple(raw["ko_request"]["stems"]),
        cancel=_by_language(raw["cancel"]),
    )


@cache
def amount_table() -> AmountTable:
    raw = _read("amounts")
    unit_of = {word: unit for unit, words in raw["units"].items() for word in words}
    sign_of = {word.strip(): unit for unit, words in raw["signs"].items() for word in words}
    factor_of = {
        word: Decimal(factor)
        for group in ("multipliers", "beside_currency")
        for factor, words in raw[group].items()
        for word in words
    }
    letters = "|".join(word for words in raw["beside_currency"].values() for word in words)
    signs = _literals([word for words in raw["signs"].values() for word in words])
    return AmountTable(
        units=re.compile(rf"\s?({_literals(unit_of)})"),
        unit_of=unit_of,
        sign=re.compile(rf"(?:^|(?<![a-z0-9]))({signs})\s?$"),
        sign_of=sign_of,
        counters=re.compile(rf"\s?(?:{_literals(raw['counters']['words'])})(?!月)"),
        multiplier=re.compile(
            rf"\s?({_literals([w for words in raw['multipliers'].values() for w in words])})"
        ),
        factor_of=factor_of,
        beside_currency=re.compile(rf"({letters})(?![a-z0-9])"),
        shares={
            name: re.compile("|".join(_left_bordered(pattern) for pattern in patterns))
            for name, patterns in raw["shares"].items()
        },
        price_before=re.compile(raw["price"]["before"]),
        price_after=re.compile(raw["price"]["after"]),
        leverage=re.compile("|".join(raw["leverage"]["patterns"])),
    )


@cache
def condition_table() -> LanguagePatterns:
    """What puts a move off, so that it is not to be made now."""
    return _by_language(_read("conditions"))


@cache
def decision_table() -> DecisionTable:
    raw = _read("decisions")
    return DecisionTable(yes=frozenset(raw["yes"]), no=frozenset(raw["no"]))


@cache
def stage_table() -> StageTable:
    raw = _read("stages")
    return StageTable(
        question=_by_language(raw["question"]),
        evaluate=_by_language(raw["evaluate"]),
        manage=_by_language(raw["manage"]),
        discover=_by_language(raw["discover"]),
        continuation=_by_language(raw["continuation"]),
        topics={topic: _by_language(entry) for topic, entry in raw["topics"].items()},
    )
