from decimal import Context, Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.errors import InvalidRequest
from minara_core.money import (
    Amount,
    Price,
    Rounding,
    add,
    canonical,
    divide,
    finite,
    multiply,
    parse_amount,
    quantize,
    subtract,
)
from minara_core.reasons import ErrorReason

_AMOUNTS = st.from_regex(r"(0|[1-9][0-9]{0,20})(\.[0-9]{1,18})?", fullmatch=True).filter(
    lambda text: text.isascii()
)
_DECIMALS = st.decimals(
    min_value=Decimal(-(10**20)), max_value=Decimal(10**20), places=18, allow_nan=False
)
_WIDE = Context(prec=80)
_INCREMENTS = st.sampled_from(
    [
        Decimal("0.00000001"),
        Decimal("0.001"),
        Decimal("0.05"),
        Decimal("0.3"),
        Decimal(1),
        Decimal(25),
    ]
)


@given(_AMOUNTS)
def test_an_amount_survives_the_way_to_text_and_back(text: str) -> None:
    value = parse_amount(text)
    assert parse_amount(canonical(value)) == value == Decimal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1e5",
        "1E5",
        "NaN",
        "Infinity",
        "inf",
        "01",
        "00",
        ".5",
        "1.",
        "1,000",
        "１２",
        "1_000",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "1" * 22,
        "0." + "1" * 19,
        "٥",
        "1.2.3",
        "$50",
    ],
)
def test_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_amount(text)
    assert caught.value.reason is ErrorReason.AMOUNT_INVALID


@pytest.mark.parametrize("value", [0.1, 1, None, True, Decimal("NaN"), Decimal("Infinity"), "1"])
def test_what_is_no_finite_decimal_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        finite(cast("Any", value))


@pytest.mark.parametrize("value", [0.1, 1, None, Decimal(1)])
def test_only_text_is_parsed(value: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_amount(cast("Any", value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.500"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0"), "0"),
        (Decimal("0.000"), "0"),
        (Decimal("100"), "100"),
        (Decimal("-2.50"), "-2.5"),
        (Decimal("1E-18"), "0.000000000000000001"),
    ],
)
def test_canonical_text_has_no_exponent_and_no_trailing_zero(value: Decimal, text: str) -> None:
    assert canonical(value) == text


@given(_DECIMALS, st.integers(min_value=0, max_value=6))
def test_equal_values_have_equal_canonical_text(value: Decimal, zeros: int) -> None:
    padded = Decimal(f"{value:f}" + "0" * zeros) if "." in f"{value:f}" else value
    assert canonical(padded) == canonical(value)


@given(_DECIMALS, _DECIMALS)
def test_subtracting_what_was_added_gives_the_value_back(left: Decimal, right: Decimal) -> None:
    assert subtract(add(left, right), right) == left


@given(st.integers(0, 10**30 - 1), st.integers(0, 10**30 - 1), st.integers(0, 18))
def test_a_product_of_up_to_sixty_digits_is_exact(left: int, right: int, places: int) -> None:
    product = multiply(Decimal(left), Decimal(right).scaleb(-places, _WIDE))
    assert int(product.scaleb(places, _WIDE)) == left * right


@given(_DECIMALS, _INCREMENTS, st.sampled_from(Rounding))
def test_quantize_gives_a_multiple_less_than_one_increment_away(
    value: Decimal, increment: Decimal, rounding: Rounding
) -> None:
    rounded = quantize(value, increment, rounding)
    steps = divide(rounded, increment)
    assert steps == steps.to_integral_value()
    distance = subtract(rounded, value)
    if rounding is Rounding.UP:
        assert Decimal(0) <= distance < increment
    else:
        assert -increment < distance <= Decimal(0)


@given(_DECIMALS, _INCREMENTS, st.sampled_from(Rounding))
def test_quantizing_twice_changes_nothing(
    value: Decimal, increment: Decimal, rounding: Rounding
) -> None:
    once = quantize(value, increment, rounding)
    assert quantize(once, increment, rounding) == once


@pytest.mark.parametrize("increment", [Decimal(0), Decimal("-0.1")])
def test_an_increment_must_be_positive(increment: Decimal) -> None:
    with pytest.raises(InvalidRequest):
        quantize(Decimal(1), increment, Rounding.DOWN)


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        divide(Decimal(1), Decimal(0))


def test_two_assets_do_not_add_or_compare() -> None:
    eth, btc = Amount(value=Decimal(1), asset="ETH"), Amount(value=Decimal(1), asset="BTC")
    for operation in (lambda: eth + btc, lambda: eth - btc, lambda: eth < btc, lambda: eth <= btc):
        with pytest.raises(InvalidRequest):
            operation()
    assert str(eth + eth) == "2 ETH"
    assert (eth - eth).value == 0
    assert eth <= eth
    assert not eth < eth


def test_a_price_converts_both_ways_and_only_its_own_assets() -> None:
    price = Price(value=Decimal(2000), base="ETH", quote="USDC")
    assert price.cost(Amount(value=Decimal("0.5"), asset="ETH")) == Amount(
        value=Decimal(1000), asset="USDC"
    )
    assert price.quantity(Amount(value=Decimal(50), asset="USDC")) == Amount(
        value=Decimal("0.025"), asset="ETH"
    )
    with pytest.raises(InvalidRequest):
        price.cost(Amount(value=Decimal(1), asset="BTC"))
    with pytest.raises(InvalidRequest):
        price.quantity(Amount(value=Decimal(1), asset="ETH"))


@pytest.mark.parametrize("value", [Decimal(0), Decimal(-1), Decimal("NaN")])
def test_a_price_is_positive(value: Decimal) -> None:
    with pytest.raises(InvalidRequest):
        Price(value=value, base="ETH", quote="USDC")
