"""A person's limits: lowering at once, raising an hour later, the first choice at once."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minara_core.errors import InvalidRequest
from minara_core.reasons import ErrorReason
from minara_tools.domain.limits import (
    HIGHEST,
    LIMIT_NAMES,
    PRESETS,
    RAISED_AFTER,
    STANDARD,
    LimitsRecord,
    PendingRaise,
    changed,
    how_to_change,
    limits_from,
    parse_changes,
    settled,
    values_of,
)
from support.actions import NOW

CHOSEN = LimitsRecord(is_chosen=True)
LATER = NOW + RAISED_AFTER


def raised(value: str, since: timedelta = timedelta()) -> PendingRaise:
    return PendingRaise(
        limit="max_move_usd", value=Decimal(value), effective_time=NOW + since + RAISED_AFTER
    )


def test_lowering_holds_at_once() -> None:
    after = changed(CHOSEN, {"max_move_usd": Decimal(100)}, NOW, has_moved=True)
    assert after.limits == replace(STANDARD, max_move_usd=Decimal(100))
    assert after.raises == ()
    assert after.update_time == NOW


def test_raising_holds_an_hour_later() -> None:
    after = changed(CHOSEN, {"max_move_usd": Decimal(8_000)}, NOW, has_moved=True)
    assert after.limits == STANDARD
    assert after.raises == (raised("8000"),)
    assert settled(after, LATER - timedelta(microseconds=1)).limits == STANDARD
    assert settled(after, LATER).limits.max_move_usd == 8_000
    assert settled(after, LATER).raises == ()


def test_lowering_ends_a_raise_that_waits() -> None:
    waiting = replace(CHOSEN, raises=(raised("8000"),))
    for value in (Decimal(4_000), STANDARD.max_move_usd):
        after = changed(waiting, {"max_move_usd": value}, NOW, has_moved=True)
        assert after.raises == ()
        assert after.limits.max_move_usd == value


def test_another_raise_starts_its_own_hour_and_the_same_one_does_not() -> None:
    waiting = replace(CHOSEN, raises=(raised("8000"),))
    now = NOW + timedelta(minutes=30)
    same = changed(waiting, {"max_move_usd": Decimal(8_000)}, now, has_moved=True)
    assert same.raises == (raised("8000"),)
    other = changed(waiting, {"max_move_usd": Decimal(9_000)}, now, has_moved=True)
    assert other.raises == (raised("9000", timedelta(minutes=30)),)


def test_a_change_of_one_limit_leaves_the_raise_of_another() -> None:
    waiting = replace(CHOSEN, raises=(raised("8000"),))
    after = changed(waiting, {"max_day_moves": Decimal(5)}, NOW, has_moved=True)
    assert after.raises == (raised("8000"),)
    assert after.limits.max_day_moves == 5


def test_a_raise_counts_from_what_is_in_effect_by_then() -> None:
    waiting = replace(CHOSEN, raises=(raised("8000"),))
    after = changed(waiting, {"max_move_usd": Decimal(7_000)}, LATER, has_moved=True)
    assert after.limits.max_move_usd == 7_000
    assert after.raises == ()


@pytest.mark.parametrize(
    ("is_chosen", "has_moved", "at_once"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, False)],
)
def test_only_the_first_choice_before_any_move_raises_at_once(
    is_chosen: bool, has_moved: bool, at_once: bool
) -> None:
    record = LimitsRecord(is_chosen=is_chosen)
    after = changed(record, {"max_move_usd": Decimal(9_000)}, NOW, has_moved=has_moved)
    assert (after.limits.max_move_usd == 9_000) is at_once
    assert bool(after.raises) is not at_once
    assert after.is_chosen


_VALUES = st.dictionaries(
    st.sampled_from(LIMIT_NAMES), st.integers(min_value=1, max_value=9).map(Decimal), max_size=3
)


@settings(deadline=None)
@given(st.lists(st.tuples(_VALUES, st.integers(min_value=0, max_value=90)), max_size=8))
def test_no_sequence_of_changes_raises_a_limit_within_the_hour(
    steps: list[tuple[dict[str, Decimal], int]],
) -> None:
    record, now = LimitsRecord(limits=limits_from(dict.fromkeys(LIMIT_NAMES, Decimal(5)))), NOW
    record = replace(record, is_chosen=True)
    asked: dict[tuple[str, Decimal], list[timedelta]] = {}
    for wanted, minutes in steps:
        now += timedelta(minutes=minutes)
        stored, before = values_of(record.limits), values_of(settled(record, now).limits)
        for name, value in before.items():
            if value > stored[name]:
                assert any(now - NOW - when >= RAISED_AFTER for when in asked[name, value])
        for name, value in wanted.items():
            asked.setdefault((name, value), []).append(now - NOW)
        record = changed(record, wanted, now, has_moved=True)
        assert all(value <= before[name] for name, value in values_of(record.limits).items())


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"max_mvoe_usd": "5"}, ErrorReason.REQUEST_INVALID),
        ({"max_move_usd": "1e3"}, ErrorReason.AMOUNT_INVALID),
        ({"max_move_usd": "１０"}, ErrorReason.AMOUNT_INVALID),
        ({"max_move_usd": "-5"}, ErrorReason.AMOUNT_INVALID),
        ({"max_move_usd": "NaN"}, ErrorReason.AMOUNT_INVALID),
        ({"max_move_usd": "0"}, ErrorReason.LIMIT_INVALID),
        ({"max_move_usd": "1000000.01"}, ErrorReason.LIMIT_INVALID),
        ({"max_day_moves": "2.5"}, ErrorReason.LIMIT_INVALID),
        ({"max_leverage": "10.1"}, ErrorReason.LIMIT_INVALID),
        ({"max_leverage": "0.5"}, ErrorReason.LIMIT_INVALID),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(texts: dict[str, str], reason: ErrorReason) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_changes({"max_day_usd": "100", **texts})
    assert refused.value.reason is reason


def test_the_highest_values_can_be_set() -> None:
    texts = {name: str(value) for name, value in values_of(HIGHEST).items()}
    assert limits_from(parse_changes(texts)) == HIGHEST


def test_no_preset_is_over_what_anybody_may_set() -> None:
    for preset in PRESETS.values():
        for name, value in values_of(preset).items():
            assert value <= values_of(HIGHEST)[name]
    assert all(values_of(PRESETS["small"])[n] <= v for n, v in values_of(STANDARD).items())


@given(st.sampled_from(LIMIT_NAMES), st.decimals(min_value="0.01", max_value=60, places=3))
def test_the_command_that_is_named_is_enough(name: str, needed: Decimal) -> None:
    text = how_to_change(name, needed)
    if needed > values_of(HIGHEST)[name]:
        assert "set" not in text
    else:
        word = text.split("limits set ")[1].split(",")[0]
        named, _, value = word.partition("=")
        wanted = parse_changes({named: value}) if Decimal(value) >= 1 else {named: needed}
        assert wanted[name] >= needed
