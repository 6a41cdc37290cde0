"""Money is Decimal from the wire to the venue.

Amounts enter as text of one ASCII grammar (safety.md §1) and leave as canonical plain text.
Arithmetic runs in a context of 60 digits, since 21 integer and 18 fractional digits multiply to
more than Decimal's default of 28. Floats, NaN and infinities are refused everywhere.
"""

import re
from dataclasses import dataclass
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from enum import StrEnum
from typing import Self

from minara_core.errors import InvalidRequest
from minara_core.reasons import ErrorReason

AMOUNT_PATTERN = r"^(0|[1-9][0-9]{0,20})(\.[0-9]{1,18})?$"
"""What an amount written by a model, a page or a person must match before Decimal sees it."""

_AMOUNT = re.compile(AMOUNT_PATTERN.strip("^$"), re.ASCII)
_EXACT = Context(
    prec=60, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation, DivisionByZero, Overflow]
)


def parse_amount(text: str) -> Decimal:
    """The exact value of `text`.

    Raises InvalidRequest (`AMOUNT_INVALID`) for anything outside the grammar: signs, exponents,
    separators, NaN, full-width digits, more than 21 integer or 18 fractional digits.
    """
    if not isinstance(text, str) or _AMOUNT.fullmatch(text) is None:  # pyright: ignore[reportUnnecessaryIsInstance] - callers outside the type checker pass floats
        raise InvalidRequest(
            "an amount is plain digits with an optional fraction, such as 50 or 0.25",
            reason=ErrorReason.AMOUNT_INVALID,
            metadata={"value": repr(text)[:64]},
        )
    return Decimal(text)


def finite(value: Decimal) -> Decimal:
    """`value` itself; raises InvalidRequest if it is no Decimal, NaN or infinite."""
    if not isinstance(value, Decimal) or not value.is_finite():  # pyright: ignore[reportUnnecessaryIsInstance] - floats arrive from outside the type checker
        raise InvalidRequest(
            f"money is a finite Decimal, not {value!r}", reason=ErrorReason.AMOUNT_INVALID
        )
    return value


def canonical(value: Decimal) -> str:
    """Plain decimal text: no exponent, trailing zeros or negative zero. Equal values agree."""
    text = format(finite(value), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def add(left: Decimal, right: Decimal) -> Decimal:
    return _EXACT.add(finite(left), finite(right))


def subtract(left: Decimal, right: Decimal) -> Decimal:
    return _EXACT.subtract(finite(left), finite(right))


def multiply(left: Decimal, right: Decimal) -> Decimal:
    return _EXACT.multiply(finite(left), finite(right))


def divide(left: Decimal, right: Decimal) -> Decimal:
    """Raises InvalidRequest for a zero divisor."""
    if not finite(right):
        raise InvalidRequest("division by zero", reason=ErrorReason.AMOUNT_INVALID)
    return _EXACT.divide(finite(left), right)


class Rounding(StrEnum):
    """Which way the one quantiser rounds. What a person spends rounds up, what they get down."""

    UP = "up"
    DOWN = "down"


def quantize(value: Decimal, increment: Decimal, rounding: Rounding) -> Decimal:
    """`value` as a multiple of `increment` (> 0), rounded towards plus or minus infinity.

    This is the only place that rounds money. An order's quantity and what a person receives round
    DOWN; what a person spends, holds and pays as a fee rounds UP.
    """
    if finite(increment) <= 0:
        raise InvalidRequest("an increment is positive", reason=ErrorReason.AMOUNT_INVALID)
    direction = ROUND_CEILING if rounding is Rounding.UP else ROUND_FLOOR
    steps = _EXACT.divide(finite(value), increment)
    return _EXACT.multiply(steps.to_integral_value(rounding=direction, context=_EXACT), increment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A quantity of one asset. Adding or comparing two assets raises InvalidRequest."""

    value: Decimal
    asset: str

    def __post_init__(self) -> None:
        finite(self.value)

    def _same(self, other: Self) -> None:
        if self.asset != other.asset:
            raise InvalidRequest(
                f"{self.asset} and {other.asset} do not add", reason=ErrorReason.AMOUNT_INVALID
            )

    def __add__(self, other: Self) -> "Amount":
        self._same(other)
        return Amount(value=add(self.value, other.value), asset=self.asset)

    def __sub__(self, other: Self) -> "Amount":
        self._same(other)
        return Amount(value=subtract(self.value, other.value), asset=self.asset)

    def __lt__(self, other: Self) -> bool:
        self._same(other)
        return self.value < other.value

    def __le__(self, other: Self) -> bool:
        self._same(other)
        return self.value <= other.value

    def __str__(self) -> str:
        return f"{canonical(self.value)} {self.asset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """How much `quote` one unit of `base` costs; always positive."""

    value: Decimal
    base: str
    quote: str

    def __post_init__(self) -> None:
        if finite(self.value) <= 0:
            raise InvalidRequest("a price is positive", reason=ErrorReason.AMOUNT_INVALID)

    def cost(self, quantity: Amount) -> Amount:
        """What `quantity` of the base costs in the quote asset, not rounded."""
        if quantity.asset != self.base:
            raise InvalidRequest(
                f"a price of {self.base} does not value {quantity.asset}",
                reason=ErrorReason.AMOUNT_INVALID,
            )
        return Amount(value=multiply(quantity.value, self.value), asset=self.quote)

    def quantity(self, cost: Amount) -> Amount:
        """How much of the base `cost` of the quote asset buys, not rounded."""
        if cost.asset != self.quote:
            raise InvalidRequest(
                f"a price in {self.quote} does not take {cost.asset}",
                reason=ErrorReason.AMOUNT_INVALID,
            )
        return Amount(value=divide(cost.value, self.value), asset=self.base)
