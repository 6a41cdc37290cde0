"""Finding amounts, prices and leverage in a message."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from minara_core.lexicon_tables import AmountTable, amount_table
from minara_core.lexicon_terms import AmountMention, AssetMention
from minara_core.money import multiply
from minara_core.number_words import number_words
from minara_core.spans import Spans
from minara_core.taxonomy import AssetClass

_NUMBER = re.compile(r"(?<![a-z0-9_])(?<![0-9][.,])\.?[0-9]+(?:[.,][0-9]+)*")
_READABLE = re.compile(
    r"[0-9]{1,21}(?:\.[0-9]{1,18})?|[0-9]{1,3}(?:,[0-9]{3}){1,6}(?:\.[0-9]{1,18})?"
)
_BARE_FRACTION = re.compile(r"\.[0-9]{1,18}")
_NO_AMOUNT = re.compile(
    r"\s?-?(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|yrs?|am|pm|st|nd|rd"
    r"|th|d|h|w|y|m|s|ma|ema|sma|times|step|steps)(?![a-z0-9])"
    r"|\s?(?:秒|分鐘|分钟|小時|小时|天|日|週|周|個月|个月|月|年|點|点|次|초|분|시간|일|개월|년|월|시|번)"
)
_TENTHS = re.compile(r"\s?成(?!本|功|交|為|为|立|長|长)")
_JOINED = re.compile(r"\s?(?:的|of\s)?\s?")
_RANGE = re.compile(r"\s?(?:[-~/⁄]|to|至|到|에서)\s?[$]?[0-9]|[_'’][0-9]")
_BEFORE_UNREAD = re.compile(
    r"(?:[-+~/⁄]|(?<![a-z0-9])(?:minus|negative)[ -]?|[負负]\s?|마이너스\s?)$"
)
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_MOST_MULTIPLIERS = 3
_HUNDREDTHS: Mapping[str, Decimal] = MappingProxyType({"half": Decimal(50), "quarter": Decimal(25)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """All numbers of a message, by what they say."""

    amounts: tuple[AmountMention, ...]
    prices: tuple[AmountMention, ...]
    leverage: Decimal | None
    leverage_spans: tuple[tuple[int, int], ...]
    has_unread: bool


def _value(text: str) -> Decimal | None:
    if _BARE_FRACTION.fullmatch(text):
        return Decimal(f"0{text}")
    if _READABLE.fullmatch(text):
        return Decimal(text.replace(",", ""))
    return None


class _Reader:
    """Reads the numbers of one message; lives for one call of `read_numbers`."""

    def __init__(self, folded: str, assets: Sequence[AssetMention], table: AmountTable) -> None:
        self._folded = folded
        self._table = table
        self._asset_at = {asset.start: asset for asset in assets}
        self._names = Spans((asset.start, asset.end) for asset in assets)
        self._dollars = {a.symbol for a in assets if a.asset_class is AssetClass.STABLECOIN}
        self._spans = sorted(assets, key=lambda asset: asset.end)
        self._ends = [asset.end for asset in self._spans]
        self.amounts: list[AmountMention] = []
        self.prices: list[AmountMention] = []
        self.has_unread = False

    def is_taken(self, start: int) -> bool:
        """Whether an asset's own name covers this position."""
        return self._names.covers(start)

    def _sign(self, start: int) -> tuple[str | None, int]:
        before = self._folded[max(0, start - 5) : start]
        match = self._table.sign.search(before)
        if match is None:
            return None, start
        return self._table.sign_of[match.group(1).strip()], start - (len(before) - match.start(1))

    def _factor(self, position: int, *, has_sign: bool) -> tuple[Decimal, int]:
        factor = Decimal(1)
        for _ in range(_MOST_MULTIPLIERS):
            match = self._table.multiplier.match(self._folded, position)
            if match is None:
                break
            factor = multiply(factor, self._table.factor_of[match.group(1)])
            position = match.end()
        match = self._table.beside_currency.match(self._folded, position)
        if match and (has_sign or self._table.units.match(self._folded, match.end())):
            factor = multiply(factor, self._table.factor_of[match.group(1)])
            position = match.end()
        return factor, position

    def _asset_from(self, position: int) -> AssetMention | None:
        gap = _JOINED.match(self._folded, position)
        return self._asset_at.get(gap.end() if gap else position)

    def _asset_before(self, position: int) -> AssetMention | None:
        index = bisect_right(self._ends, position) - 1
        return self._spans[index] if index >= 0 else None

    def _unit(self, position: int) -> tuple[str | None, Decimal, int]:
        """Unit, factor and end of what follows a number at `position`."""
        one = Decimal(1)
        following = self._asset_at.get(position) or (
            self._asset_at.get(position + 1)
            if self._folded[position : position + 1].isspace()
            else None
        )
        if following is not None:
            return following.symbol, one, following.end
        if tenths := _TENTHS.match(self._folded, position):
            return "percent", Decimal(10), tenths.end()
        if counter := self._table.counters.match(self._folded, position):
            counted = self._asset_from(counter.end()) or self._asset_before(position)
            return (counted.symbol if counted else None), one, counter.end()
        if unit := self._table.units.match(self._folded, position):
            return self._table.unit_of[unit.group(1)], one, unit.end()
        return None, one, position

    def _keep(self, value: Decimal, unit: str | None, start: int, end: int) -> None:
        mention = AmountMention(value=value, unit=unit, start=start, end=end)
        before = self._folded[max(0, start - 32) : start]
        is_price = self._table.price_before.search(before) or self._table.price_after.match(
            self._folded[end : end + 20]
        )
        (self.prices if is_price else self.amounts).append(mention)

    def read_digits(self, start: int, end: int) -> None:
        value = _value(self._folded[start:end])
        sign, first = self._sign(start)
        if value is None or self._is_signed(first) or _RANGE.match(self._folded, end):
            self.has_unread = True
            return
        factor, position = self._factor(end, has_sign=sign is not None)
        unit, share, position = self._unit(position)
        if sign is not None and unit != "percent":
            is_dollar = unit in self._dollars
            position = position if unit in {None, "usd"} or is_dollar else end
            unit = unit if is_dollar else sign
            if position not in self._asset_at and self._goes_on(position):
                self.has_unread = True  # "$1e9" is no one dollar
                return
        if unit is None and self._is_no_amount(position, has_factor=factor != 1):
            return
        self._keep(multiply(multiply(value, factor), share), unit, first, position)

    def _is_no_amount(self, position: int, *, has_factor: bool) -> bool:
        if not has_factor and _NO_AMOUNT.match(self._folded, position):
            return True
        if self._goes_on(position):
            self.has_unread = True
            return True
        if has_factor and re.match(r"\s?[0-9]", self._folded[position : position + 2]):
            self.has_unread = True
            return True
        return False

    def _is_signed(self, start: int) -> bool:
        """Whether a sign stands before it, in a character or spelled out, so that it is no size."""
        return _BEFORE_UNREAD.search(self._folded[max(0, start - 10) : start]) is not None

    def _goes_on(self, position: int) -> bool:
        """Whether a letter or digit follows at once, so that no number ends here."""
        follows = self._folded[position : position + 1]
        return follows.isascii() and follows.isalnum()

    def read_words(self, value: Decimal, start: int, end: int) -> None:
        unit, share, position = self._unit(end)
        counter = self._table.counters.match(self._folded, end)
        if counter and self._asset_from(counter.end()) is None:
            return  # "사주세요" asks to buy, it does not count four shares
        if unit is None or self.is_taken(start):
            return
        if self._is_signed(start):
            self.has_unread = True
        else:
            self._keep(multiply(value, share), unit, start, position)

    def read_shares(self) -> None:
        for name, pattern in self._table.shares.items():
            for match in pattern.finditer(self._folded):
                if name == "third":
                    self.has_unread = True
                    continue
                value = _HUNDREDTHS.get(name, Decimal(1))
                unit = "percent" if name in _HUNDREDTHS else "all"
                self.amounts.append(
                    AmountMention(value=value, unit=unit, start=match.start(), end=match.end())
                )


def read_numbers(folded: str, assets: Sequence[AssetMention]) -> Numbers:
    """Every number of the message. Digits are ASCII here, since the text went through NFKC."""
    table = amount_table()
    leverages = list(table.leverage.finditer(folded))
    leverage_spans = Spans(match.span() for match in leverages)
    reader = _Reader(folded, assets, table)
    for match in _NUMBER.finditer(folded):
        if not leverage_spans.covers(match.start()) and not reader.is_taken(match.start()):
            reader.read_digits(match.start(), match.end())
    for value, start, end in number_words(folded):
        reader.read_words(value, start, end)
    reader.read_shares()
    return Numbers(
        amounts=tuple(sorted(reader.amounts, key=lambda amount: amount.start)),
        prices=tuple(reader.prices),
        leverage=Decimal(leverages[0].group(leverages[0].lastgroup or 0)) if leverages else None,
        leverage_spans=tuple(match.span() for match in leverages),
        has_unread=reader.has_unread or _FOREIGN_DIGIT.search(folded) is not None,
    )
