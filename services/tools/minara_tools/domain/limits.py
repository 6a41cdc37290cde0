"""A person's limits: what one move, one day and one new recipient may take at most.

Lowering one takes effect at once, raising one an hour later; the first choice, made before anything
was moved, at once. Every change is a person's act.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from minara_core.errors import InvalidRequest
from minara_core.money import Rounding, canonical, parse_amount, quantize
from minara_core.reasons import ErrorReason

RAISED_AFTER = timedelta(hours=1)
CHANGE_ROUTE = "PATCH /v1/limits"

_ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """In USD, but for counts and the leverage. Exits are exempt from all of them."""

    max_move_usd: Decimal = Decimal(5_000)
    max_day_usd: Decimal = Decimal(10_000)
    max_day_moves: int = 20
    max_new_recipient_usd: Decimal = Decimal(100)
    max_leverage: Decimal = Decimal(10)
    max_submits_a_minute: int = 10


STANDARD = Limits()
SMALL = Limits(
    max_move_usd=Decimal(500),
    max_day_usd=Decimal(1_000),
    max_day_moves=10,
    max_new_recipient_usd=Decimal(50),
    max_leverage=Decimal(2),
)
PRESETS: Mapping[str, Limits] = MappingProxyType({"small": SMALL, "standard": STANDARD})

HIGHEST = Limits(
    max_move_usd=Decimal(1_000_000),
    max_day_usd=Decimal(5_000_000),
    max_day_moves=500,
    max_new_recipient_usd=Decimal(10_000),
    max_leverage=Decimal(10),
    max_submits_a_minute=60,
)
"""Nobody may set more."""

LIMIT_NAMES = tuple(one.name for one in fields(Limits))
COUNTS = frozenset({"max_day_moves", "max_submits_a_minute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRaise:
    """A limit that will be `value` from `effective_time` on."""

    limit: str
    value: Decimal
    effective_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsRecord:
    """A person's limits as they are stored. `is_chosen` is false while they are the standard ones
    that nobody chose."""

    limits: Limits = STANDARD
    raises: tuple[PendingRaise, ...] = ()
    is_chosen: bool = False
    update_time: datetime | None = None


def values_of(limits: Limits) -> Mapping[str, Decimal]:
    """By name, counts as whole Decimals."""
    return MappingProxyType({name: Decimal(value) for name, value in asdict(limits).items()})


def limits_from(values: Mapping[str, Decimal]) -> Limits:
    """Limits of these values; what is missing is the standard."""
    return replace(STANDARD, **{n: int(v) if n in COUNTS else v for n, v in values.items()})


def settled(record: LimitsRecord, now: datetime) -> LimitsRecord:
    """The record with every raise whose time has come in effect."""
    due = {one.limit: one.value for one in record.raises if one.effective_time <= now}
    if not due:
        return record
    return replace(
        record,
        limits=limits_from({**values_of(record.limits), **due}),
        raises=tuple(one for one in record.raises if one.limit not in due),
    )


def changed(
    record: LimitsRecord, wanted: Mapping[str, Decimal], now: datetime, *, has_moved: bool
) -> LimitsRecord:
    """What choosing `wanted` makes of the record. `has_moved` is whether any money of this person
    was ever moved: until then their first choice takes effect at once.

    A limit set to what it is, or lower, loses the raise that waited for it; the same raise again
    changes nothing.
    """
    current = settled(record, now)
    is_first = not current.is_chosen and not has_moved
    values = dict(values_of(current.limits))
    waiting = {one.limit: one for one in current.raises}
    for name, value in wanted.items():
        before = waiting.pop(name, None)
        if value <= values[name] or is_first:
            values[name] = value
        elif before is not None and before.value == value:
            waiting[name] = before
        else:
            waiting[name] = PendingRaise(limit=name, value=value, effective_time=now + RAISED_AFTER)
    return LimitsRecord(
        limits=limits_from(values),
        raises=tuple(sorted(waiting.values(), key=lambda one: one.limit)),
        is_chosen=True,
        update_time=now,
    )


def parse_changes(texts: Mapping[str, str]) -> Mapping[str, Decimal]:
    """Values by limit. Raises InvalidRequest for an unknown name (REQUEST_INVALID), for text that
    is no amount (AMOUNT_INVALID), and for what is zero, not whole or too high (LIMIT_INVALID)."""
    unknown = sorted(set(texts) - set(LIMIT_NAMES))
    if unknown:
        raise InvalidRequest(
            f"no limit is named {unknown[0][:60]}; there are {', '.join(LIMIT_NAMES)}",
            metadata={"field": unknown[0][:60]},
        )
    return {name: _checked(name, parse_amount(text)) for name, text in texts.items()}


def how_to_change(limit: str, needed: Decimal) -> str:
    """The command and the route by which a person raises a limit far enough, or that nobody can."""
    highest = values_of(HIGHEST)[limit]
    if needed > highest:
        return f"it can be {canonical(highest)} at most, which is not enough for this"
    step = Decimal("0.1") if limit == "max_leverage" else _ONE
    value = canonical(min(highest, quantize(needed, step, Rounding.UP)))
    return (
        f"to raise it: minara limits set {limit}={value}, or {CHANGE_ROUTE}; "
        "it takes effect an hour later"
    )


def _checked(name: str, value: Decimal) -> Decimal:
    highest = values_of(HIGHEST)[name]
    is_whole = value == value.to_integral_value()
    if value <= 0 or value > highest or (name in COUNTS and not is_whole):
        kind = "a whole number" if name in COUNTS else "a number"
        raise InvalidRequest(
            f"{name} is {kind} over 0 and up to {canonical(highest)}",
            reason=ErrorReason.LIMIT_INVALID,
            metadata={"limit": name, "highest": canonical(highest)},
        )
    if name == "max_leverage" and value < 1:
        raise InvalidRequest(
            "max_leverage is 1 or more",
            reason=ErrorReason.LIMIT_INVALID,
            metadata={"limit": name, "highest": canonical(highest)},
        )
    return value
