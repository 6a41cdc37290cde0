"""How a money tool refuses: a denial with a documented reason and the values it speaks of."""

from decimal import Decimal

from minara_core.money import canonical
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolCallBlockedError

GATE = "quote"


def refused(reason: DenialReason, message: str, **metadata: str) -> ToolCallBlockedError:
    """The refusal to quote; `metadata` has the keys that minara_core/denials.toml documents."""
    return ToolCallBlockedError(reason, gate=GATE, message=message, metadata=metadata)


def insufficient(asset: str, *, available: Decimal, needed: Decimal) -> ToolCallBlockedError:
    """Everything was asked for, of what there is too little of to move."""
    return refused(
        DenialReason.BALANCE_INSUFFICIENT,
        f"{asset}: {canonical(available)} available, {canonical(needed)} needed",
        asset=asset,
        available=canonical(available),
        needed=canonical(needed),
    )
