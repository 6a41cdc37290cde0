"""When a model is asked again, when the next one is, and when a provider is left alone."""

import pytest

from minara_llm.failover import LONGEST_WAIT_SECONDS, Breakers, CircuitBreaker, wait_before_retry
from minara_llm.model import FailureKind, ModelFailure

RETRYABLE = [
    FailureKind.RATE_LIMITED,
    FailureKind.OVERLOADED,
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
    FailureKind.MALFORMED_STREAM,
]


def failed(kind: FailureKind, retry_after: float | None = None) -> ModelFailure:
    return ModelFailure("it broke", kind=kind, retry_after_seconds=retry_after)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_what_may_pass_is_tried_once_more_and_nothing_else(kind: FailureKind) -> None:
    first = wait_before_retry(failed(kind), tries=1, key="turn-1:1")
    assert (first is not None) is (kind in RETRYABLE)
    assert wait_before_retry(failed(kind), tries=2, key="turn-1:1") is None


def test_the_wait_is_spread_and_the_same_each_time() -> None:
    failure = failed(FailureKind.OVERLOADED)
    waits = [wait_before_retry(failure, tries=1, key=f"turn-{n}:1") for n in range(50)]
    assert all(wait is not None and 0.25 <= wait < 0.75 for wait in waits)
    assert len(set(waits)) == 50
    assert waits == [wait_before_retry(failure, tries=1, key=f"turn-{n}:1") for n in range(50)]


def test_a_provider_that_says_when_to_come_back_is_obeyed_or_passed_over() -> None:
    soon = failed(FailureKind.RATE_LIMITED, 3.0)
    late = failed(FailureKind.RATE_LIMITED, LONGEST_WAIT_SECONDS + 1)
    assert wait_before_retry(soon, tries=1, key="k") == 3.0
    assert wait_before_retry(late, tries=1, key="k") is None


def test_five_failures_in_a_minute_leave_a_provider_alone_for_half_a_minute() -> None:
    breaker = CircuitBreaker()
    for second in range(5):
        assert breaker.allows(float(second))
        breaker.fail(failed(FailureKind.OVERLOADED), float(second))
    assert not breaker.allows(4.5)
    assert not breaker.allows(33.9)
    assert breaker.allows(34.0)


def test_failures_over_a_minute_apart_do_not_add_up() -> None:
    breaker = CircuitBreaker()
    for number in range(20):
        breaker.fail(failed(FailureKind.TIMEOUT), number * 15.1)
        assert breaker.allows(number * 15.1)


def test_an_answer_ends_the_count() -> None:
    breaker = CircuitBreaker()
    for second in range(4):
        breaker.fail(failed(FailureKind.CONNECTION), float(second))
    breaker.succeed()
    breaker.fail(failed(FailureKind.CONNECTION), 5.0)
    assert breaker.allows(5.0)


@pytest.mark.parametrize("kind", [FailureKind.BAD_REQUEST, FailureKind.CONTEXT_OVERFLOW])
def test_a_request_that_was_at_fault_says_nothing_of_the_provider(kind: FailureKind) -> None:
    breaker = CircuitBreaker()
    for _ in range(20):
        breaker.fail(failed(kind), 1.0)
    assert breaker.allows(1.0)


def test_one_call_alone_tries_whether_a_provider_is_back() -> None:
    breaker = an_open_breaker()
    assert breaker.allows(40.0)
    breaker.begin(40.0)
    assert not breaker.allows(40.0)
    breaker.succeed()
    assert breaker.allows(40.0)


def test_a_trial_that_fails_leaves_it_alone_again() -> None:
    breaker = an_open_breaker()
    breaker.begin(40.0)
    breaker.fail(failed(FailureKind.OVERLOADED), 41.0)
    assert not breaker.allows(70.9)
    assert breaker.allows(71.0)


def test_a_trial_that_never_ends_does_not_close_it_for_good() -> None:
    breaker = an_open_breaker()
    breaker.begin(40.0)
    assert not breaker.allows(69.9)
    assert breaker.allows(70.0)


def test_providers_have_breakers_of_their_own() -> None:
    breakers = Breakers()
    for _ in range(5):
        breakers.of("anthropic").fail(failed(FailureKind.OVERLOADED), 1.0)
    assert not breakers.of("anthropic").allows(1.0)
    assert breakers.of("openai").allows(1.0)


def an_open_breaker() -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(5):
        breaker.fail(failed(FailureKind.OVERLOADED), 0.0)
    return breaker
