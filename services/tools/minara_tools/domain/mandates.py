"""Mandates: what a person allowed a strategy to do without being asked (safety.md §2).

The grant is signed by the gateway when the person confirms; this is what was stored of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from minara_core.actions import MoveKind, ResolvedOrder, Side, TradingMode
from minara_core.errors import NotAuthenticated
from minara_core.grant import Grant, GrantType
from minara_core.ids import UserId
from minara_core.money import add, canonical, parse_amount
from minara_core.reasons import DenialReason, ErrorReason
from minara_tools.domain.exits import is_exit
from minara_tools.domain.outcomes import ToolCallBlockedError

GATE = "mandate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """Amounts are in USD. It ends by `end_time`, by `revoke_time`, or when the strategy's
    definition is another one."""

    mandate_id: str
    user_id: UserId
    strategy: str
    definition_hash: str
    mode: TradingMode
    account: str
    instruments: frozenset[str]
    sides: frozenset[Side]
    max_per_move: Decimal
    max_per_day: Decimal
    max_total: Decimal
    max_loss: Decimal
    create_time: datetime
    end_time: datetime
    revoke_time: datetime | None = None
    revoke_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateUse:
    """What a mandate was used for so far, in USD; uncertain orders count."""

    moved_today: Decimal = Decimal(0)
    moved_in_all: Decimal = Decimal(0)
    lost: Decimal = Decimal(0)


def mandate_of(grant: Grant) -> Mandate:
    """The mandate that a verified grant is. Raises NotAuthenticated (GRANT_WRONG_TYPE) for another
    one, InvalidRequest (AMOUNT_INVALID) for amounts that are none."""
    if grant.grant_type is not GrantType.MANDATE:
        raise NotAuthenticated("this grant is no mandate", reason=ErrorReason.GRANT_WRONG_TYPE)
    return Mandate(
        mandate_id=grant.grant_id,
        user_id=UserId(grant.subject),
        strategy=grant.strategy,
        definition_hash=grant.definition_hash,
        mode=TradingMode(grant.mode),
        account=grant.account,
        instruments=grant.instruments,
        sides=frozenset(Side(side) for side in grant.sides),
        max_per_move=parse_amount(grant.max_per_move),
        max_per_day=parse_amount(grant.max_per_day),
        max_total=parse_amount(grant.max_total),
        max_loss=parse_amount(grant.max_loss),
        create_time=grant.issue_time,
        end_time=grant.expire_time,
    )


def covers(
    mandate: Mandate,
    order: ResolvedOrder,
    *,
    notional_usd: Decimal,
    used: MandateUse,
    definition_hash: str,
    now: datetime,
) -> None:
    """Returns when the mandate allows this order. Raises ToolCallBlockedError (MANDATE_EXCEEDED).

    It never covers a transfer, a withdrawal or more leverage. An exit uses up none of its amounts.
    """
    _check_life(mandate, definition_hash, now)
    _check_kind(mandate, order)
    if is_exit(order):
        return
    amounts = {
        "max_per_move": (mandate.max_per_move, notional_usd),
        "max_per_day": (mandate.max_per_day, add(used.moved_today, notional_usd)),
        "max_total": (mandate.max_total, add(used.moved_in_all, notional_usd)),
        "max_loss": (mandate.max_loss, used.lost),
    }
    if notional_usd <= 0:
        raise _exceeded("max_per_move", mandate.max_per_move, "unknown")
    for name, (most, needed) in amounts.items():
        if needed > most:
            raise _exceeded(name, most, canonical(needed))


def _check_life(mandate: Mandate, definition_hash: str, now: datetime) -> None:
    if mandate.revoke_time is not None:
        raise _outside("revoked", mandate.revoke_reason or "revoked", "in force")
    if now >= mandate.end_time:
        raise _outside("end_time", mandate.end_time.isoformat(), now.isoformat())
    if definition_hash != mandate.definition_hash:
        raise _outside("definition", mandate.definition_hash, definition_hash)


def _check_kind(mandate: Mandate, order: ResolvedOrder) -> None:
    if order.kind not in {MoveKind.TRADE, MoveKind.CANCEL}:
        raise _outside("kind", "trade, cancel", order.kind.value)
    if order.leverage != 1:
        raise _outside("leverage", "1", canonical(order.leverage))
    bound: Mapping[str, tuple[frozenset[str], str]] = {
        "mode": (frozenset({mandate.mode.value}), order.mode.value),
        "account": (frozenset({mandate.account}), order.account),
        "instrument": (mandate.instruments, order.instrument.symbol),
        "side": (frozenset(side.value for side in mandate.sides), order.side.value),
    }
    for name, (allowed, asked) in bound.items():
        if asked not in allowed:
            raise _outside(name, ", ".join(sorted(allowed)), asked)


def _exceeded(limit: str, most: Decimal, needed: str) -> ToolCallBlockedError:
    return _outside(limit, canonical(most), needed)


def _outside(limit: str, value: str, needed: str) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.MANDATE_EXCEEDED,
        gate=GATE,
        message=f"outside the mandate: {limit} is {value}, this needs {needed}",
        metadata={"limit": limit, "value": value, "needed": needed},
    )
