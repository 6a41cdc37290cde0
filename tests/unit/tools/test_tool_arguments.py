"""What a model may write as arguments, and what is refused before anybody looks at it."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from minara_core.money import canonical, parse_amount
from minara_core.reasons import DenialReason
from minara_tools.domain.arguments import AmountText, read_object, validated
from minara_tools.domain.outcomes import ToolCallBlockedError
from support.tools.entries import a_tool


class Move(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    amount: AmountText | None = None
    limit: int = 0
    symbol: str = ""


ENTRY = a_tool(arguments=Move)


def refusal(text: str) -> ToolCallBlockedError:
    with pytest.raises(ToolCallBlockedError) as caught:
        validated(ENTRY, text)
    assert caught.value.reason is DenialReason.ARGUMENTS_INVALID
    return caught.value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"50"', "50"),
        ("50", "50"),
        ("0.25", "0.25"),
        ("0.0000001", "0.0000001"),
        ("9007199254740993", "9007199254740993"),
        ("12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"),
        ("1.10", "1.10"),
        ("null", None),
    ],
)
def test_an_amount_is_taken_by_its_exact_text(written: str, expected: str | None) -> None:
    arguments = validated(ENTRY, f'{{"amount":{written}}}')
    assert isinstance(arguments, Move)
    assert arguments.amount == expected


@pytest.mark.parametrize(
    "written",
    [
        '"１０"', '"1_000"', '"1,000"', '"-0"', '"-1"', '"+1"', '" 1"', '"1 "', '"1e3"', '"NaN"',
        '"Infinity"', '"0x10"', '"01"', '".5"', '"1."', '""', '"1\\n"', "1e3", "1E-30", "-0", "-1",
        "-0.0", "NaN", "Infinity", "-Infinity", "true", "false", "[]", "{}",
        '"1234567890123456789012"', '"0.1234567890123456789"', "0.1234567890123456789",
    ],
)  # fmt: skip
def test_anything_else_is_no_amount(written: str) -> None:
    refusal(f'{{"amount":{written}}}')


@given(st.decimals(min_value=0, max_value=10**20, allow_nan=False, places=18))
def test_every_amount_of_the_grammar_comes_through_unchanged(value: Decimal) -> None:
    text = canonical(value)
    for written in (json.dumps(text), text):
        arguments = validated(ENTRY, f'{{"amount":{written}}}')
        assert isinstance(arguments, Move)
        assert arguments.amount == text
        assert parse_amount(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        '"text"',
        "5",
        '{"amount":"5"',
        '{"amount":"5"}{}',
        '{"amount":"5","amount":"500"}',
        '{"limit":' + "9" * 5000 + "}",
    ],
)
def test_only_one_json_object_is_read(text: str) -> None:
    if not text:
        assert read_object(text) == {}
        return
    refusal(text)


def test_unknown_fields_and_wrong_types_are_named() -> None:
    assert refusal('{"recipient":"0xabc"}').metadata == {"field": "recipient"}
    assert refusal('{"limit":"many"}').metadata == {"field": "limit"}
    assert refusal('{"limit":1.5}').metadata == {"field": "limit"}


def test_arguments_have_a_size_and_a_depth() -> None:
    refusal(json.dumps({"symbol": "x" * 65_536}))
    refusal('{"symbol":' + "[" * 40 + "]" * 40 + "}")
    refusal("[" * 60_000)
    brackets = json.dumps({"symbol": '\\"[[' + "[" * 100})
    arguments = validated(ENTRY, brackets)
    assert isinstance(arguments, Move)
    assert arguments.symbol.endswith("[" * 100)


def test_half_of_a_character_pair_is_refused_and_a_whole_one_is_text() -> None:
    refusal('{"symbol":"\\ud800"}')
    refusal('{"\\udfff":"x"}')
    refusal('{"symbol":["\\ud800"]}')
    arguments = validated(ENTRY, '{"symbol":"\\ud83d\\ude00"}')
    assert isinstance(arguments, Move)
    assert arguments.symbol == "\U0001f600"
