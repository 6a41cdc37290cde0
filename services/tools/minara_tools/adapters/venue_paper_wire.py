"""The paper venue's HTTP: `POST /v1/<call>` with a signed JSON body, JSON back, decimals as text.

A move travels as the very body that was prepared. Every other call is `{"arguments": …}` with sign
time and end of validity, signed alike. Refusals are 422 `{"reason", "message"}` and mean that the
venue certainly took nothing; every other answer that is not 200 says nothing about that.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from minara_core.actions import Side

T = TypeVar("T")

SIGNATURE_HEADER = "Minara-Signature"
REFUSED = 422
SEND = "send"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    """Of calls about the venue itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfUser:
    user_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAccount:
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOrder:
    account: str
    client_order_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    account: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ToQuote:
    symbol: str
    side: Side
    quantity: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDeposit:
    account: str
    asset: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    reason: str
    message: str


def to_json(value: object, kind: Any) -> bytes:
    """`value`, which is a `kind`, as JSON text."""
    return _adapter(kind).dump_json(value)


def to_plain(value: object, kind: Any) -> Any:
    """`value`, which is a `kind`, as what JSON knows."""
    return json.loads(to_json(value, kind))


def from_json(text: bytes | str, kind: type[T]) -> T:
    """The `kind` in `text`. Raises pydantic's ValidationError, a ValueError."""
    return _adapter(kind).validate_json(text)


def from_plain(value: object, kind: type[T]) -> T:
    """As `from_json`, from what JSON knows."""
    return _adapter(kind).validate_json(json.dumps(value))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
