"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta


class FixedClock:
    """Starts at `start`; wall clock and monotonic clock advance together."""

    def __init__(self, start: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 1_000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: timedelta) -> None:
        """Move on by `by`; a negative one moves only the wall clock back."""
        self._now += by
        self._monotonic += max(0.0, by.total_seconds())

    def jump(self, by: timedelta) -> None:
        """Set the wall clock alone, as somebody sets a clock."""
        self._now += by
