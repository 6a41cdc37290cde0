"""No text leaves an adapter that a wire or a store cannot take."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_llm.clean_text import PairJoiner, cleaned, cleaned_json, parsed_object, wire_name

anything = st.text(st.characters(exclude_categories=()), max_size=40)
sound = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("\ud83c\udf78", "\U0001f378"),
        ("\ud83c", "\ufffd"),
        ("\udf78\ud83c", "\ufffd\ufffd"),
        ("a\ud83cb", "a\ufffdb"),
        ("a\0b", "a\ufffdb"),
        ("\ufeffa\ud83c", "\ufeffa\ufffd"),
        ("\\u0000 \u2028 以太", "\\u0000 \u2028 以太"),
    ],
)
def test_pairs_are_joined_and_what_is_broken_replaced(text: str, clean: str) -> None:
    assert cleaned(text) == clean


@given(anything)
def test_clean_text_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    clean = cleaned(text)
    assert clean.encode("utf-8", "strict").decode() == clean
    assert cleaned(clean) == clean
    assert "\0" not in clean


@given(sound)
def test_sound_text_is_not_touched(text: str) -> None:
    assert cleaned(text) == text


@given(anything, st.lists(st.integers(0, 40), max_size=6).map(sorted))
def test_however_a_text_is_cut_its_parts_clean_to_the_same(text: str, places: list[int]) -> None:
    joiner = PairJoiner()
    ends = [*places, len(text)]
    parts = [text[start:end] for start, end in zip([0, *places], ends, strict=True)]
    told = [joiner.take(part) for part in parts]
    assert "".join([*told, joiner.rest()]) == cleaned(text)


def test_names_and_values_inside_of_json_are_cleaned() -> None:
    assert cleaned_json({"a\ud83c": ["\0", 1, None, {"b": "\ud83c\udf78"}]}) == {
        "a\ufffd": ["\ufffd", 1, None, {"b": "\U0001f378"}]
    }


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("{}", {}),
        ('{"a": 0.10, "b": [1, {"c": null}]}', {"a": 0.1, "b": [1, {"c": None}]}),
        ('{"a":"\\ud83c"}', {"a": "\ufffd"}),
        ("", None),
        ("[]", None),
        ("1", None),
        ('{"a":NaN}', None),
        ('{"a":1e999}', None),
        ('{"a":' * 100 + "1" + "}" * 100, None),
        ("[" * 1_000_000, None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_arguments_are_an_object_that_any_encoder_takes_or_none(arguments: str, value: Any) -> None:
    assert parsed_object(arguments) == value


@given(st.recursive(st.none() | st.integers() | anything, st.lists, max_leaves=20))
def test_whatever_is_parsed_can_be_encoded(value: Any) -> None:
    parsed = parsed_object(json.dumps({"a": value}))
    assert json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode("utf-8", "strict")


@given(anything)
def test_every_name_becomes_one_that_every_provider_takes(name: str) -> None:
    made = wire_name(name)
    assert 1 <= len(made) <= 64
    assert made.isascii()
    assert made.replace("-", "_").replace("_", "a").isalnum()
