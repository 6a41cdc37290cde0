"""Stage "exposure": balance, the venue's own limits, sanity of the price, concentration.

Exits keep balance, precision and sanity of price, and nothing else.
"""

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from minara_core.actions import MoveKind, Side, TimeInForce
from minara_core.money import Rounding, add, canonical, divide, multiply, quantize
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.domain.assets import asset_class
from minara_tools.domain.equity import worst_case
from minara_tools.domain.exits import is_exit, is_spot
from minara_tools.domain.funds import StageInput
from minara_tools.domain.operations import hold_of
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.stage_listing import check_listing
from minara_tools.domain.warning_codes import WarningCode

GATE = "exposure"
MOST_OPEN_ORDERS = 100
"""How many orders of a person may rest: all of them are looked at again and again."""
SMALLEST_POSITION_USD = Decimal(250)
"""A position up to this is never too much of an account."""
MAJOR_SHARE = Decimal("0.6")

_ZERO = Decimal(0)
_TENTH = Decimal("0.1")
_SHARES: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_ALT: Decimal("0.25"),
        AssetClass.CRYPTO_MEME: _TENTH,
        AssetClass.COMMODITY: Decimal("0.4"),
        AssetClass.FX: Decimal("0.4"),
        AssetClass.EQUITY: Decimal("0.4"),
        AssetClass.TOKENIZED_EQUITY: Decimal("0.4"),
        AssetClass.MACRO: Decimal("0.4"),
        AssetClass.PREDICTION: _TENTH,
        AssetClass.NFT: _TENTH,
    }
)


def exposure(given: StageInput) -> tuple[str, ...]:
    """Before a preview: what other previews would take counts too.

    Denies REDUCE_ONLY_INCREASES, MARKET_CLOSED, QUANTITY_*, PRICE_*, EQUITY_UNKNOWN,
    POSITION_CONCENTRATION, BALANCE_INSUFFICIENT and BALANCE_INSUFFICIENT_CUMULATIVE.
    """
    warnings = exposure_when_sending(given)
    asset, needed = hold_of(given.order)
    pending = given.funds.pending_spends.get(asset, _ZERO)
    available = _free(given, asset)
    # An exit competes with nothing that only waits: what is confirmed second finds nothing left.
    if needed > 0 and not is_exit(given.order) and add(needed, pending) > available:
        raise ToolCallBlockedError(
            DenialReason.BALANCE_INSUFFICIENT_CUMULATIVE,
            gate=GATE,
            message=(
                f"{asset}: {canonical(available)} available, {canonical(needed)} needed, and the "
                f"previews that wait for you would take {canonical(pending)}; reject one first"
            ),
            metadata=_amounts(asset, available, needed) | {"pending": canonical(pending)},
        )
    if needed <= 0 or pending <= 0:
        return warnings
    return (*warnings, WarningCode.PENDING_TOO.about(f"{canonical(pending)} {asset}"))


def exposure_when_sending(given: StageInput) -> tuple[str, ...]:
    """As `exposure`, but only what is held counts, which is out of what is free already."""
    _check_reduce_only(given)
    _check_open_orders(given)
    warnings = check_listing(given)
    warnings += _concentration(given)
    _check_balance(given)
    return warnings


def _check_reduce_only(given: StageInput) -> None:
    order = given.order
    if order.reduce_only and is_spot(order) and order.side is Side.BUY:
        raise ToolCallBlockedError(
            DenialReason.REDUCE_ONLY_INCREASES,
            gate=GATE,
            message="a spot purchase reduces nothing",
            metadata={"instrument": order.instrument.symbol},
        )


def _check_open_orders(given: StageInput) -> None:
    order = given.order
    rests = order.kind is MoveKind.TRADE and order.time_in_force is TimeInForce.GTC
    if rests and given.funds.open_orders >= MOST_OPEN_ORDERS:
        raise ToolCallBlockedError(
            DenialReason.RATE_LIMITED,
            gate=GATE,
            message=f"{given.funds.open_orders} orders rest already; cancel one first",
            metadata={"limit": str(MOST_OPEN_ORDERS)},
        )


def _check_balance(given: StageInput) -> None:
    asset, needed = hold_of(given.order)
    available = _free(given, asset)
    if needed > 0 and needed > available:
        raise ToolCallBlockedError(
            DenialReason.BALANCE_INSUFFICIENT,
            gate=GATE,
            message=f"{asset}: {canonical(available)} available, {canonical(needed)} needed",
            metadata=_amounts(asset, available, needed),
        )


def _concentration(given: StageInput) -> tuple[str, ...]:
    order = given.order
    if order.kind is not MoveKind.TRADE or is_exit(order):
        return ()
    asset = order.instrument.base if order.side is Side.BUY else order.instrument.quote
    known = given.funds.assets.get(asset)
    kind = asset_class(asset) if known is None else known.asset_class
    if kind is AssetClass.STABLECOIN:
        return ()
    position = _position_after(given, asset)
    if position <= SMALLEST_POSITION_USD:
        return ()
    equity = _known_equity(given)
    if kind is AssetClass.CRYPTO_MAJOR:
        is_much = position > multiply(equity, MAJOR_SHARE)
        return (WarningCode.CONCENTRATED.about(asset),) if is_much else ()
    limit = _TENTH if kind is None else _SHARES.get(kind, _TENTH)
    if position <= max(SMALLEST_POSITION_USD, multiply(equity, limit)):
        return ()
    share = divide(position, equity) if equity > 0 else Decimal(1)
    raise ToolCallBlockedError(
        DenialReason.POSITION_CONCENTRATION,
        gate=GATE,
        message=(
            f"{asset} would be ${canonical(_cents(position))} of ${canonical(_cents(equity))}: "
            f"{_percent(share)} %, and {_percent(limit)} % is the most for its kind"
        ),
        metadata={
            "asset": asset,
            "share": canonical(_cents(share)),
            "limit": canonical(limit),
            "position": canonical(_cents(position)),
            "equity": canonical(_cents(equity)),
        },
    )


def _position_after(given: StageInput, asset: str) -> Decimal:
    """What of `asset` may be held after the trade, in USD."""
    funds = given.funds
    quantity = worst_case(funds, asset)
    known = funds.assets.get(asset)
    price = None if known is None else known.usd_price
    if quantity > 0 and price is None:
        raise ToolCallBlockedError(
            DenialReason.PRICE_UNAVAILABLE,
            gate=GATE,
            message=f"nobody prices the {asset} of this account",
            metadata={"instrument": given.order.instrument.symbol},
        )
    held = _ZERO if price is None else multiply(quantity, price)
    buying = funds.buying_usd.get(asset, _ZERO)
    return add(add(held, buying), given.preview.notional_usd)


def _known_equity(given: StageInput) -> Decimal:
    equity = given.funds.equity_usd
    if equity is None:
        unpriced = sorted(one.asset for one in given.funds.assets.values() if one.usd_price is None)
        raise ToolCallBlockedError(
            DenialReason.EQUITY_UNKNOWN,
            gate=GATE,
            message="more than 5 % of this account has no price, so its size is not known",
            metadata={"assets": ", ".join(unpriced)},
        )
    return equity


def _free(given: StageInput, asset: str) -> Decimal:
    known = given.funds.assets.get(asset)
    return _ZERO if known is None else known.free


def _amounts(asset: str, available: Decimal, needed: Decimal) -> dict[str, str]:
    return {"asset": asset, "available": canonical(available), "needed": canonical(needed)}


def _cents(amount: Decimal) -> Decimal:
    return quantize(amount, Decimal("0.01"), Rounding.UP)


def _percent(share: Decimal) -> str:
    return canonical(quantize(multiply(share, Decimal(100)), Decimal("0.1"), Rounding.UP))
