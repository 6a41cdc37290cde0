"""Smooth bounded walks: where a simulated price stands at a minute, from a hash alone.

A walk is value noise in several octaves: each octave has a hashed knot in [-1, 1] every `period`
minutes and eases from knot to knot, and their weights sum to 1. So a walk needs no state, never
leaves [-1, 1], and is the same in every process with the same seed.
"""

import hashlib
from decimal import Decimal
from functools import lru_cache

from minara_core.money import add, divide, multiply, subtract

_OCTAVES = (
    (43_200, Decimal("0.5")),
    (5_760, Decimal("0.25")),
    (1_440, Decimal("0.14")),
    (180, Decimal("0.07")),
    (20, Decimal("0.034")),
    (3, Decimal("0.006")),
)
_HALF = Decimal(2**47)
_TWO = Decimal(2)
_THREE = Decimal(3)


@lru_cache(maxsize=1_024)  # a quote, its preview and the caps ask for the same minute
def walk(seed: str, symbol: str, minute: int) -> Decimal:
    """The walk's value in [-1, 1] at `minute` (since 1970-01-01T00:00Z)."""
    value = Decimal(0)
    for period, weight in _OCTAVES:
        value = add(value, multiply(weight, _octave(f"{seed}|{symbol}|{period}", period, minute)))
    return value


def _octave(name: str, period: int, minute: int) -> Decimal:
    index, past = divmod(minute, period)
    left = _knot(name, index)
    if not past:
        return left
    share = divide(Decimal(past), Decimal(period))
    # Smoothstep: no kink at a knot.
    eased = multiply(multiply(share, share), subtract(_THREE, multiply(_TWO, share)))
    return add(left, multiply(eased, subtract(_knot(name, index + 1), left)))


def _knot(name: str, index: int) -> Decimal:
    digest = hashlib.sha256(f"{name}|{index}".encode()).digest()
    return subtract(divide(Decimal(int.from_bytes(digest[:6])), _HALF), Decimal(1))
