"""Stretches of a text, with a fast answer to "is this position inside one?"."""

from bisect import bisect_right
from collections.abc import Iterable


class Spans:
    """Stretches [start, end) that do not overlap."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._pairs = sorted(pairs)
        self._starts = [start for start, _ in self._pairs]

    def covers(self, position: int) -> bool:
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position < self._pairs[index][1]
