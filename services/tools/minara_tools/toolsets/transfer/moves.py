"""The order and preview of what leaves an account without being traded."""

from dataclasses import replace
from decimal import Decimal

from minara_core.actions import (
    ActionPreview,
    Instrument,
    MoveKind,
    OrderType,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.clock import Clock
from minara_core.lexicon import parse
from minara_core.money import Rounding, add
from minara_core.reasons import DenialReason
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.lookalikes import spelled
from minara_tools.domain.registry import Quotation
from minara_tools.toolsets.figures import usd_prices, usd_value
from minara_tools.toolsets.refusals import refused

LAST_CHARACTERS = 6

_SHOWN = 100
_ZERO = Decimal(0)


def asset_named(text: str) -> str:
    """The one asset that `text` names: a ticker, or a name of the lexicon. Raises
    ToolCallBlockedError (TOKEN_AMBIGUOUS) for several."""
    named = parse(text).symbols
    if len(named) > 1:
        shown = ", ".join(named[:6])
        raise refused(
            DenialReason.TOKEN_AMBIGUOUS,
            f"{text[:40]!r} names several assets: {shown}",
            symbol=text[:40],
            candidates=shown,
        )
    return named[0] if named else text.strip().removeprefix("$").upper()


def transfer_of(
    venue: Venue, *, account: str, asset: str, quantity: Decimal, recipient: str
) -> ResolvedOrder:
    """To another account of the same person, which costs nothing."""
    order = _leaving(venue, account, Instrument(symbol=asset, base=asset, quote=""), quantity)
    return replace(order, kind=MoveKind.TRANSFER, recipient=recipient)


async def withdrawal_of(
    venue: Venue,
    *,
    account: str,
    asset: str,
    quantity: Decimal,
    chain: str,
    recipient: str,
    memo: str,
) -> ResolvedOrder:
    """To an address. A chain that the venue has not for this asset is left to the stages."""
    fees = [one.fee for one in await venue.networks() if (one.asset, one.chain) == (asset, chain)]
    fee = fees[0] if fees else _ZERO
    instrument = Instrument(symbol=asset, base=asset, quote="", chain=chain)
    return replace(
        _leaving(venue, account, instrument, quantity),
        kind=MoveKind.WITHDRAWAL,
        max_spend=add(quantity, fee),
        max_fee=fee,
        recipient=recipient,
        memo=memo,
    )


async def quoted(market: MarketData, clock: Clock, order: ResolvedOrder) -> Quotation:
    """The order with what it is worth now; one that nobody prices is worth zero, and denied."""
    asset = order.instrument.base
    price = (await usd_prices(market, (asset,))).get(asset, _ZERO)
    preview = ActionPreview(
        price=price,
        notional_usd=usd_value(order.quantity, price, Rounding.UP),
        estimated_receipt=order.quantity,
        estimated_receipt_asset=asset,
        estimated_fee=order.max_fee,
        estimated_fee_asset=asset,
        price_impact=_ZERO,
        slippage_bound=_ZERO,
        quote_time=clock.now(),
        source=order.venue,
    )
    return Quotation(order=order, preview=preview)


def check_last_characters(recipient: str, typed: str) -> None:
    """Raises ToolCallBlockedError (ADDRESS_INVALID) unless the person typed the recipient's end;
    case counts where it does in the address."""
    if spelled(recipient[:-LAST_CHARACTERS] + typed) != spelled(recipient):
        raise refused(
            DenialReason.ADDRESS_INVALID,
            "the last six characters are not those of this recipient; compare the whole address",
            address=recipient[:_SHOWN],
            expected=f"its last {LAST_CHARACTERS} characters",
        )


def _leaving(
    venue: Venue, account: str, instrument: Instrument, quantity: Decimal
) -> ResolvedOrder:
    asset = instrument.base
    return ResolvedOrder(
        mode=venue.mode,
        venue=venue.name,
        account=account,
        instrument=instrument,
        side=Side.SELL,
        order_type=OrderType.MARKET,
        quantity=quantity,
        quantity_unit=QuantityUnit.BASE,
        limit_price=_ZERO,
        time_in_force=TimeInForce.IOC,
        max_spend=quantity,
        max_spend_asset=asset,
        min_receipt=quantity,
        min_receipt_asset=asset,
        max_fee=_ZERO,
        max_fee_asset=asset,
    )
