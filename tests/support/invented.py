"""Whether an answer has a number that nobody gave."""

import re
from collections.abc import Iterable

from minara_core.lexicon import parse
from minara_core.money import canonical

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_GROUPED = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")


def numbers_in(text: str) -> frozenset[str]:
    """Every run of digits with its decimals, as written; grouped ones also without commas."""
    plain = _GROUPED.sub(lambda match: match.group().replace(",", ""), text)
    return frozenset(_NUMBER.findall(text)) | frozenset(_NUMBER.findall(plain))


def numbers_meant(message: str) -> frozenset[str]:
    """The numbers of a person's message, and what they come to ("1.5k" is 1500)."""
    parsed = parse(message)
    meant = (canonical(one.value) for one in (*parsed.amounts, *parsed.prices))
    return numbers_in(message) | frozenset(meant)


def invented_numbers(answer: str, message: str, envelopes: Iterable[str]) -> list[str]:
    """The numbers of `answer` that stand whole neither in the message nor in an envelope."""
    known = numbers_meant(message).union(*(numbers_in(one) for one in envelopes))
    return sorted(frozenset(_NUMBER.findall(_without_groups(answer))) - known)


def no_invented_numbers(answer: str, message: str, envelopes: Iterable[str]) -> bool:
    """Whether every number of `answer` stands in the message or in an envelope."""
    return not invented_numbers(answer, message, envelopes)


def _without_groups(text: str) -> str:
    return _GROUPED.sub(lambda match: match.group().replace(",", ""), text)
