"""The tier of one exact move: small and large ones differ, a withdrawal is a person's alone."""

from decimal import Decimal

from minara_core.actions import MoveKind, Side
from minara_core.money import multiply
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.domain.exits import is_spot
from minara_tools.domain.funds import StageInput
from minara_tools.domain.outcomes import ToolCallBlockedError

GATE = "permission"
SMALL_USD = Decimal(100)
SMALL_SHARE = Decimal("0.05")


def move_tier(given: StageInput) -> PermissionTier:
    """CONFIRM_ONCE for a spot trade of at most $100 and 5 % of the equity and for the cancel of an
    order to buy, MANUAL_ONLY for a withdrawal, ALWAYS_CONFIRM for all else: also where the price or
    the equity is unknown."""
    order = given.order
    match order.kind:
        case MoveKind.WITHDRAWAL:
            return PermissionTier.MANUAL_ONLY
        case MoveKind.TRANSFER:
            return PermissionTier.ALWAYS_CONFIRM
        case MoveKind.CANCEL:
            is_small = order.side is Side.BUY
        case MoveKind.TRADE:
            is_small = is_spot(order) and _is_small(given)
    return PermissionTier.CONFIRM_ONCE if is_small else PermissionTier.ALWAYS_CONFIRM


def tier_within_ceiling(given: StageInput) -> tuple[str, ...]:
    """Denies MANUAL_ONLY unless a person filled it in, and TIER_EXCEEDS_CEILING."""
    tier = move_tier(given)
    if tier is PermissionTier.MANUAL_ONLY:
        if not given.is_manual:
            raise ToolCallBlockedError(
                DenialReason.MANUAL_ONLY,
                gate=GATE,
                message="only a person does this, by hand: never through a tool call",
            )
    elif tier > given.ceiling:
        raise ToolCallBlockedError(
            DenialReason.TIER_EXCEEDS_CEILING,
            gate=GATE,
            message=f"this move is {tier.name}; this turn may use {given.ceiling.name} at most",
            metadata={"tier": tier.name, "ceiling": given.ceiling.name},
        )
    return ()


def _is_small(given: StageInput) -> bool:
    notional, equity = given.preview.notional_usd, given.funds.equity_usd
    if notional <= 0 or equity is None:
        return False
    return notional <= SMALL_USD and notional <= multiply(equity, SMALL_SHARE)
