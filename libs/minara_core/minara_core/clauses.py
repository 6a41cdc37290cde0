"""A message cut into clauses, so that amounts, assets and moves are read where they belong.

"Sell BTC and buy $50 of ETH" are two clauses; in "buy $50 of BTC and ETH" the second one takes
over the move and the amount of the first.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from minara_core.lexicon_terms import (
    AmountMention,
    AssetMention,
    MoveMention,
    Parsed,
    TopicMention,
)
from minara_core.spans import Spans
from minara_core.taxonomy import AssetClass

_BORDER = re.compile(
    r"[,;:!?](?=\s|$)|\.(?=\s|$)|[\n，。；、！？：]"
    r"|(?<![a-z0-9])(?:and|then|also|plus|but|&)(?![a-z0-9])"
    r"|和|跟|與|与|還有|还有|以及|然後|然后|接著|接着|並且|并且|(?<!合)並|(?<!合)并|順便|顺便"
    r"|(?<=[가-힣a-z0-9])(?:와|과|하고|랑|이랑|고)(?=\s)|그리고|또는|그런 다음|그다음"
)


class _Placed(Protocol):
    @property
    def start(self) -> int: ...


_P = TypeVar("_P", bound=_Placed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause. `is_inherited`: its moves and topics are those of a neighbour."""

    start: int
    end: int
    assets: tuple[AssetMention, ...]
    moves: tuple[MoveMention, ...]
    amounts: tuple[AmountMention, ...]
    prices: tuple[AmountMention, ...]
    topics: tuple[TopicMention, ...]
    is_inherited: bool = False

    @property
    def subjects(self) -> tuple[AssetMention, ...]:
        """What the clause is about: its assets, without the coin it pays in ("50 USDC of ETH") if
        there is another one, and without macro words."""
        real = tuple(asset for asset in self.assets if asset.is_tradeable)
        other = tuple(a for a in real if a.asset_class is not AssetClass.STABLECOIN)
        return other or real

    @property
    def pays_only(self) -> bool:
        """Whether its assets are nothing but the coin an amount is counted in."""
        units = {amount.unit for amount in self.amounts}
        return bool(self.amounts) and all(
            asset.asset_class is AssetClass.STABLECOIN and asset.symbol in units
            for asset in self.assets
        )

    @property
    def says_nothing(self) -> bool:
        return not self.moves and not self.topics and (not self.assets or self.pays_only)


def _cuts(parsed: Parsed) -> list[int]:
    held = Spans(
        _merged(
            [
                (m.start, m.end)
                for m in (*parsed.assets, *parsed.amounts, *parsed.prices, *parsed.topic_mentions)
            ]
        )
    )
    return [
        match.start()
        for match in _BORDER.finditer(parsed.folded)
        if match.start() and not held.covers(match.start())
    ]


def _merged(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _between(mentions: Sequence[_P], start: int, end: int) -> tuple[_P, ...]:
    first = bisect_left(mentions, start, key=lambda mention: mention.start)
    last = bisect_left(mentions, end, key=lambda mention: mention.start)
    return tuple(mentions[first:last])


def _clause(parsed: Parsed, start: int, end: int) -> Clause:
    return Clause(
        start=start,
        end=end,
        assets=_between(parsed.assets, start, end),
        moves=_between(parsed.moves, start, end),
        amounts=_between(parsed.amounts, start, end),
        prices=_between(parsed.prices, start, end),
        topics=_between(parsed.topic_mentions, start, end),
    )


def _join(parsed: Parsed, pieces: Sequence[Clause]) -> list[Clause]:
    """Pieces that say nothing of their own belong to the one before, else to the one after."""
    joined: list[Clause] = []
    for piece in pieces:
        if joined and (piece.says_nothing or joined[-1].says_nothing):
            joined[-1] = _clause(parsed, joined[-1].start, piece.end)
        else:
            joined.append(piece)
    return joined


def _inherit(clause: Clause, giver: Clause) -> Clause:
    return replace(
        clause,
        moves=giver.moves,
        topics=giver.topics,
        amounts=clause.amounts or giver.amounts,
        prices=clause.prices or giver.prices,
        is_inherited=True,
    )


def _is_bare(clause: Clause) -> bool:
    return not clause.moves and not clause.topics


def clauses(parsed: Parsed) -> tuple[Clause, ...]:
    """The message's clauses in order; together they cover it."""
    cuts = [0, *_cuts(parsed), len(parsed.folded)]
    pieces = [_clause(parsed, start, end) for start, end in pairwise(cuts)]
    found = _join(parsed, pieces)
    for index, clause in enumerate(found):
        if index and _is_bare(clause):
            found[index] = _inherit(clause, found[index - 1])
    for index in range(len(found) - 2, -1, -1):
        if _is_bare(found[index]):
            found[index] = _inherit(found[index], found[index + 1])
    return tuple(found)
