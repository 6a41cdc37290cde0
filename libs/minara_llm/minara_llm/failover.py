"""What to do when a model fails: try it once more, ask the next one, leave a provider alone."""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from minara_llm.model import FailureKind, ModelFailure

TRIES = 2
"""How often one model is asked for one message."""

LONGEST_WAIT_SECONDS = 10.0
"""A provider that wants more time than this is passed over."""

_BACK_OFF_SECONDS = 0.5
_MOST_FAILURES = 5
_WINDOW_SECONDS = 60.0
_OPEN_SECONDS = 30.0
_NOT_THE_PROVIDERS = frozenset({FailureKind.BAD_REQUEST, FailureKind.CONTEXT_OVERFLOW})


def wait_before_retry(failure: ModelFailure, *, tries: int, key: str) -> float | None:
    """Seconds until the same model is asked again after `tries` failed ones; None for not at all.

    What the provider asked for is honoured. Else it is half a second, more or less: `key` spreads
    those who were refused together, and gives the same answer each time.
    """
    if not failure.is_retryable or tries >= TRIES:
        return None
    if failure.retry_after_seconds is not None:
        wanted = failure.retry_after_seconds
        return wanted if wanted <= LONGEST_WAIT_SECONDS else None
    digest = hashlib.sha256(key.encode()).digest()
    spread = int.from_bytes(digest[:4], "big") / 2**32
    return _BACK_OFF_SECONDS * (0.5 + spread)


@dataclass(slots=True)
class CircuitBreaker:
    """Keeps calls away from a provider that fails: after 5 failures in 60 s none for 30 s, then
    one at a time until one succeeds. Times are monotonic seconds."""

    _failures: deque[float] = field(default_factory=deque[float])
    _opened: float | None = None
    _trial: float | None = None

    def allows(self, now: float) -> bool:
        """Whether a call may be made now."""
        if self._opened is None:
            return True
        if now < self._opened + _OPEN_SECONDS:
            return False
        return self._trial is None or now >= self._trial + _OPEN_SECONDS

    def begin(self, now: float) -> None:
        """A call is made; of an open breaker it is the one that tries whether it goes again."""
        if self._opened is not None:
            self._trial = now

    def succeed(self) -> None:
        """A call was answered."""
        self._failures.clear()
        self._opened = self._trial = None

    def fail(self, failure: ModelFailure, now: float) -> None:
        """A call failed. A request that was itself at fault says nothing of the provider."""
        if failure.kind in _NOT_THE_PROVIDERS:
            self._trial = None
            return
        self._failures.append(now)
        while self._failures[0] <= now - _WINDOW_SECONDS:
            self._failures.popleft()
        if self._trial is not None or len(self._failures) >= _MOST_FAILURES:
            self._opened, self._trial = now, None


@dataclass(slots=True)
class Breakers:
    """One breaker for each provider, shared by all turns of a process."""

    _of: dict[str, CircuitBreaker] = field(default_factory=dict[str, CircuitBreaker])

    def of(self, provider: str) -> CircuitBreaker:
        return self._of.setdefault(provider, CircuitBreaker())
