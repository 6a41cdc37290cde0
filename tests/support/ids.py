"""Ids that a test can predict."""

import itertools


class SequentialIds:
    """`<prefix>-1`, `<prefix>-2`, …"""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def new(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"
