"""Stage "risk officer": a person's limits, autopilot, locks and cooldowns.

Exits pass all of it. What a limit refuses names the limit, its value, what was needed, and how a
person changes it.
"""

from decimal import Decimal

from minara_core.actions import MoveKind
from minara_core.money import add, canonical
from minara_core.reasons import DenialReason
from minara_tools.domain.exits import is_exit
from minara_tools.domain.funds import StageInput
from minara_tools.domain.limits import how_to_change
from minara_tools.domain.lookalikes import known_entry
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.warning_codes import WarningCode

GATE = "risk_officer"


def caps(given: StageInput) -> tuple[str, ...]:
    """Denies AUTOPILOT_ACTIVE, LEVERAGE_EXCEEDS_CAP, NOTIONAL_EXCEEDS_MAX, DAILY_CAP_REACHED,
    RECIPIENT_NEW_LIMIT, PRICE_UNAVAILABLE; under a mandate PAIR_LOCKED and COOLDOWN_ACTIVE too, of
    which people are only warned. A cancel uses up nothing."""
    if is_exit(given.order) or given.order.kind is MoveKind.CANCEL:
        return ()
    _autopilot(given)
    _leverage(given)
    _notional(given)
    _day(given)
    _new_recipient(given)
    return _breakers(given)


def caps_when_sending(given: StageInput) -> tuple[str, ...]:
    """As `caps`, and RATE_LIMITED by what was sent in the last minute."""
    if is_exit(given.order) or given.order.kind is MoveKind.CANCEL:
        return ()
    warnings = caps(given)
    limit, submits = given.funds.limits.max_submits_a_minute, given.funds.submits
    if submits >= limit:
        raise _over(
            DenialReason.RATE_LIMITED,
            "max_submits_a_minute",
            value=Decimal(limit),
            needed=Decimal(submits + 1),
            what=f"{submits} moves were sent in the last minute",
        )
    return warnings


def _autopilot(given: StageInput) -> None:
    if given.funds.is_autopilot_active and not given.by_mandate:
        raise ToolCallBlockedError(
            DenialReason.AUTOPILOT_ACTIVE,
            gate=GATE,
            message="autopilot trades on this account; pause it first",
            metadata={"account": given.funds.account},
        )


def _leverage(given: StageInput) -> None:
    leverage, cap = given.order.leverage, given.funds.limits.max_leverage
    if leverage > cap:
        raise _over(
            DenialReason.LEVERAGE_EXCEEDS_CAP,
            "max_leverage",
            value=cap,
            needed=leverage,
            what=f"a leverage of {canonical(leverage)}",
        )


def _notional(given: StageInput) -> None:
    notional, cap = given.preview.notional_usd, given.funds.limits.max_move_usd
    if notional <= 0:
        raise ToolCallBlockedError(
            DenialReason.PRICE_UNAVAILABLE,
            gate=GATE,
            message="nobody knows what this move is worth, so no limit can be checked",
            metadata={"instrument": given.order.instrument.symbol},
        )
    if notional > cap:
        raise _over(
            DenialReason.NOTIONAL_EXCEEDS_MAX,
            "max_move_usd",
            value=cap,
            needed=notional,
            what=f"a move of ${canonical(notional)}",
        )


def _day(given: StageInput) -> None:
    funds, limits = given.funds, given.funds.limits
    after = add(funds.moved_usd, given.preview.notional_usd)
    if after > limits.max_day_usd:
        raise _over(
            DenialReason.DAILY_CAP_REACHED,
            "max_day_usd",
            value=limits.max_day_usd,
            needed=after,
            what=f"with it ${canonical(after)} would have moved in 24 hours",
        )
    if funds.moves >= limits.max_day_moves:
        raise _over(
            DenialReason.DAILY_CAP_REACHED,
            "max_day_moves",
            value=Decimal(limits.max_day_moves),
            needed=Decimal(funds.moves + 1),
            what=f"it would be move {funds.moves + 1} in 24 hours",
        )


def _new_recipient(given: StageInput) -> None:
    if given.order.kind is not MoveKind.WITHDRAWAL:
        return
    order = given.order
    entry = known_entry(given.funds.addresses, order.instrument.chain, order.recipient, order.memo)
    notional, cap = given.preview.notional_usd, given.funds.limits.max_new_recipient_usd
    if not (entry is not None and entry.used) and notional > cap:
        raise _over(
            DenialReason.RECIPIENT_NEW_LIMIT,
            "max_new_recipient_usd",
            value=cap,
            needed=notional,
            what=f"a first transfer of ${canonical(notional)} to this recipient",
        )


def _breakers(given: StageInput) -> tuple[str, ...]:
    funds, symbol = given.funds, given.order.instrument.symbol
    ends = {
        DenialReason.PAIR_LOCKED: funds.pair_locks.get(symbol),
        DenialReason.COOLDOWN_ACTIVE: funds.cooldown_until,
    }
    running = {reason: end for reason, end in ends.items() if end and end > funds.time}
    for reason, end in running.items():
        if given.by_mandate:
            raise ToolCallBlockedError(
                reason,
                gate=GATE,
                message=f"{symbol} waits until {end:%H:%M:%S} UTC",
                metadata={"instrument": symbol, "until": end.isoformat()},
            )
    return tuple(WarningCode(r.value).about(f"{end:%H:%M:%S} UTC") for r, end in running.items())


def _over(
    reason: DenialReason, limit: str, *, value: Decimal, needed: Decimal, what: str
) -> ToolCallBlockedError:
    change = how_to_change(limit, needed)
    return ToolCallBlockedError(
        reason,
        gate=GATE,
        message=f"{what}, and your limit {limit} is {canonical(value)}; {change}",
        metadata={
            "limit": limit,
            "value": canonical(value),
            "needed": canonical(needed),
            "change": change,
        },
    )
