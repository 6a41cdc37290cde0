"""Numbers written as words, in English, Chinese and Korean.

They count only where a unit follows directly ("fifty dollars", "五十美元", "오십 달러"), since most
of these words also mean something else.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType

_ENGLISH: Mapping[str, int] = MappingProxyType(
    {
        "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
        "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
        "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
        "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
        "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000, "million": 1_000_000,
    }
)  # fmt: skip
_CHARACTERS: Mapping[str, int] = MappingProxyType(
    {
        "零": 0, "一": 1, "二": 2, "兩": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7,
        "八": 8, "九": 9, "十": 10, "百": 100, "千": 1000, "萬": 10_000, "万": 10_000,
        "일": 1, "이": 2, "삼": 3, "사": 4, "오": 5, "육": 6, "칠": 7, "팔": 8, "구": 9,
        "십": 10, "백": 100, "천": 1000, "만": 10_000,
    }
)  # fmt: skip
_ENGLISH_RUN = re.compile(
    rf"(?<![a-z0-9_.])(?:an? (?=hundred|thousand|million))?(?:{'|'.join(_ENGLISH)})"
    rf"(?:(?:[ -]| and )(?:{'|'.join(_ENGLISH)}))*(?![a-z])"
)
_CHARACTER_RUN = re.compile(
    "(?<![0-9零一二兩两三四五六七八九十百千萬万.])(?<![0-9] )[零一二兩两三四五六七八九十百千萬万]+"
    "|(?<![0-9가-힣.])(?<![0-9] )[일이삼사오육칠팔구십백천만]+"
)
_LARGE = 1000
_MYRIAD = 10_000
_SMALLEST_FACTOR = 10
_MOST_CHARACTERS = 12


def _english_value(text: str) -> int:
    total, part = 0, 0
    for word in re.findall(r"[a-z]+", text):
        number = _ENGLISH.get(word, 0)
        if number >= _LARGE:
            total, part = total + (part or 1) * number, 0
        elif number == _ENGLISH["hundred"]:
            part = (part or 1) * number
        else:
            part += number
    return total + part


def _character_value(text: str) -> int:
    total, section, digit = 0, 0, 0
    for character in text:
        number = _CHARACTERS[character]
        if number < _SMALLEST_FACTOR:
            digit = number
        elif number == _MYRIAD:
            total, section, digit = total + (section + digit or 1) * number, 0, 0
        else:
            section, digit = section + (digit or 1) * number, 0
    return total + section + digit


def number_words(folded: str) -> Iterator[tuple[Decimal, int, int]]:
    """Value, start and end of each run of number words; the caller looks for the unit."""
    for match in _ENGLISH_RUN.finditer(folded):
        yield Decimal(_english_value(match.group())), match.start(), match.end()
    if folded.isascii():
        return
    for match in _CHARACTER_RUN.finditer(folded):
        if len(match.group()) <= _MOST_CHARACTERS:
            yield Decimal(_character_value(match.group())), match.start(), match.end()
