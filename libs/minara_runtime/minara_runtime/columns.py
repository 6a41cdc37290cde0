"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine
from typing_extensions import override

from minara_core.errors import InvalidRequest
from minara_core.money import canonical
from minara_core.reasons import ErrorReason

_PRECISION = 38
_SCALE = 18
_INTEGER_DIGITS = _PRECISION - _SCALE


class DecimalText(TypeDecorator[Decimal]):
    """An exact decimal: canonical text on SQLite, NUMERIC(38,18) on PostgreSQL.

    Refuses (InvalidRequest, `AMOUNT_INVALID`) floats, NaN, infinities and what 20 integer and 18
    fractional digits cannot hold. SQL may compare for equality only: order and sums differ between
    the dialects, so they are done in Python. `money_column` adds the database's own check.
    """

    impl = sa.Text
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.Numeric(_PRECISION, _SCALE))
        return dialect.type_descriptor(sa.Text())

    @override
    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        text = canonical(value)
        whole, _, fraction = text.lstrip("-").partition(".")
        if len(whole) > _INTEGER_DIGITS or len(fraction) > _SCALE:
            raise InvalidRequest(
                "an amount has at most 20 integer and 18 fractional digits",
                reason=ErrorReason.AMOUNT_INVALID,
                metadata={"value": text[:64]},
            )
        return Decimal(text) if dialect.name == "postgresql" else text

    @override
    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Decimal | None:
        return None if value is None else Decimal(canonical(Decimal(value)))


class UtcTime(TypeDecorator[datetime]):
    """An instant, time zone UTC, to the microsecond: sortable ISO text on SQLite, timestamptz on
    PostgreSQL. Refuses (ValueError) naive times and other zones.
    """

    impl = sa.Text
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(sa.Text())

    @override
    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None or value.utcoffset():
            raise ValueError(f"a stored time is in UTC, not {value!r}")
        return value if dialect.name == "postgresql" else utc_text(value)

    @override
    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return read.astimezone(UTC)


def utc_text(value: datetime) -> str:
    """ISO 8601 with microseconds and offset: of two such texts the greater is the later."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def money_column(name: str, *, nullable: bool = False) -> sa.Column[Decimal]:
    """A column of exact decimals in which the database itself refuses NaN."""
    return sa.Column(name, DecimalText(), sa.CheckConstraint(f"{name} <> 'NaN'"), nullable=nullable)
