"""Builders of what stages judge: a person with money at the paper venue, and their moves."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from minara_core.actions import (
    ActionPreview,
    Instrument,
    MoveKind,
    OrderType,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.denial_docs import denial_docs
from minara_core.ids import UserId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import TradingState
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.assets import asset_class
from minara_tools.domain.funds import AssetFunds, FundContext, StageInput
from minara_tools.domain.limits import STANDARD
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    InstrumentRules,
    VenueAccount,
    VenueQuote,
)
from support.actions import NOW, an_action, an_order

EVM_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
BITCOIN_ADDRESS = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
PRICES: Mapping[str, str] = {
    "USDC": "1",
    "ETH": "2500",
    "BTC": "100000",
    "DOGE": "0.2",
    "SOL": "150",
}


def funds_of(asset: str, free: str = "0", *, held: str = "0", **changes: Any) -> AssetFunds:
    known = AssetFunds(
        asset=asset,
        free=Decimal(free),
        held=Decimal(held),
        usd_price=Decimal(PRICES[asset]) if asset in PRICES else None,
        asset_class=asset_class(asset),
        is_listed=True,
    )
    return replace(known, **changes)


def rules_of(base: str, quote: str = "USDC", **changes: Any) -> InstrumentRules:
    known = InstrumentRules(
        symbol=f"{base}/{quote}",
        base=base,
        quote=quote,
        quantity_increment=Decimal("0.0001"),
        price_increment=Decimal("0.01"),
        min_quantity=Decimal("0.0001"),
        min_notional=Decimal(1),
    )
    return replace(known, **changes)


def a_fund_context(*assets: AssetFunds, **changes: Any) -> FundContext:
    """100,000 USDC at the paper venue, nothing pending, standard limits; with `assets`, those."""
    owned = {one.asset: one for one in assets or (funds_of("USDC", "100000"),)}
    priced = {asset: funds_of(asset) for asset in PRICES}
    known = FundContext(
        time=NOW,
        user_id=UserId("local"),
        venue="paper",
        account="paper-1",
        trading_state=TradingState.ACTIVE,
        assets=priced | owned,
        equity_usd=Decimal(100_000),
        limits=STANDARD,
        own_accounts=(
            VenueAccount(account="paper-1", purpose="spot", is_primary=True),
            VenueAccount(account="paper-2", purpose="perps", is_primary=False),
        ),
        networks=(
            a_network("ETH", "ethereum", "evm"),
            a_network("USDC", "ethereum", "evm"),
            a_network("BTC", "bitcoin", "bitcoin"),
            a_network("SOL", "solana", "solana", needs_memo=True),
        ),
        listings={one.symbol: one for one in map(rules_of, ("ETH", "BTC", "DOGE", "SOL"))},
    )
    return replace(known, **changes)


def a_network(
    asset: str, chain: str, address_format: str, *, needs_memo: bool = False
) -> AssetNetwork:
    return AssetNetwork(
        asset=asset,
        chain=chain,
        address_format=address_format,
        needs_memo=needs_memo,
        fee=Decimal("0.001"),
        min_amount=Decimal("0.01"),
        amount_increment=Decimal("0.0001"),
    )


def an_entry(address: str = EVM_ADDRESS, **changes: Any) -> AddressEntry:
    known = AddressEntry(
        address_id="address-1",
        name="my wallet",
        chain="ethereum",
        address=address,
        memo="",
        create_time=NOW - timedelta(days=2),
    )
    return replace(known, **changes)


def a_trade(
    side: Side = Side.BUY,
    base: str = "ETH",
    quote: str = "USDC",
    *,
    quantity: str = "0.02",
    **changes: Any,
) -> ResolvedOrder:
    """A market order at the price of `PRICES`, its limit 1 % away."""
    price = Decimal(PRICES[base]) / Decimal(PRICES[quote])
    worth = price * Decimal(quantity)
    is_buy = side is Side.BUY
    known = replace(
        an_order(side),
        instrument=Instrument(symbol=f"{base}/{quote}", base=base, quote=quote),
        quantity=Decimal(quantity),
        limit_price=round(price * (Decimal("1.01") if is_buy else Decimal("0.99")), 2),
        max_spend=worth if is_buy else Decimal(quantity),
        max_spend_asset=quote if is_buy else base,
        min_receipt=Decimal(quantity) if is_buy else worth,
        min_receipt_asset=base if is_buy else quote,
        max_fee=Decimal(0),
        max_fee_asset=quote,
    )
    return replace(known, **changes)


def a_limit_order(side: Side = Side.BUY, *, price: str, **changes: Any) -> ResolvedOrder:
    return a_trade(
        side,
        order_type=OrderType.LIMIT,
        time_in_force=TimeInForce.GTC,
        limit_price=Decimal(price),
        **changes,
    )


def a_cancel(side: Side = Side.BUY, **changes: Any) -> ResolvedOrder:
    return a_trade(side, kind=MoveKind.CANCEL, cancels="ab" * 16, **changes)


def a_transfer(recipient: str = "paper-2", **changes: Any) -> ResolvedOrder:
    return _leaving(MoveKind.TRANSFER, "USDC", "50", recipient=recipient, **changes)


def a_withdrawal(
    recipient: str = EVM_ADDRESS, *, asset: str = "ETH", chain: str = "ethereum", **changes: Any
) -> ResolvedOrder:
    moved = Instrument(symbol=asset, base=asset, quote="", chain=chain)
    told = {"recipient": recipient, "instrument": moved, "max_spend": Decimal("0.021")} | changes
    return _leaving(MoveKind.WITHDRAWAL, asset, "0.02", **told)


def _leaving(kind: MoveKind, asset: str, amount: str, **changes: Any) -> ResolvedOrder:
    known = replace(
        an_order(Side.SELL),
        kind=kind,
        instrument=Instrument(symbol=asset, base=asset, quote=""),
        quantity=Decimal(amount),
        max_spend=Decimal(amount),
        max_spend_asset=asset,
        min_receipt=Decimal(amount),
        min_receipt_asset=asset,
        max_fee=Decimal("0.001"),
        max_fee_asset=asset,
    )
    return replace(known, **changes)


def a_preview(notional: str = "50", **changes: Any) -> ActionPreview:
    return replace(an_action().preview, notional_usd=Decimal(notional), **changes)


def given(
    order: ResolvedOrder | None = None,
    funds: FundContext | None = None,
    *,
    notional: str = "50",
    **changes: Any,
) -> StageInput:
    """A move to be judged: unless said otherwise a purchase of 0.02 ETH for 50 USDC."""
    return StageInput(
        order=order or a_trade(),
        preview=changes.pop("preview", a_preview(notional)),
        funds=funds or a_fund_context(),
        **changes,
    )


def a_quote(order: ResolvedOrder, *, price: str = "2500", **changes: Any) -> VenueQuote:
    known = VenueQuote(
        instrument=order.instrument.symbol,
        side=order.side,
        quantity=order.quantity,
        average_price=Decimal(price),
        best_price=Decimal(price),
        cost=Decimal(50),
        receipt=order.quantity,
        receipt_asset=order.instrument.base,
        fee=Decimal("0.05"),
        fee_asset=order.instrument.quote,
        price_impact=Decimal(0),
        quote_time=NOW,
        source="test",
    )
    return replace(known, **changes)


def denied(
    reason: DenialReason, stage: Callable[[StageInput], object], judged: StageInput
) -> ToolCallBlockedError:
    """The stage's refusal, which is for this reason and holds exactly the documented metadata."""
    with pytest.raises(ToolCallBlockedError) as refused:
        stage(judged)
    assert refused.value.reason is reason
    assert denial_docs()[reason].allows(refused.value.metadata), refused.value.metadata
    return refused.value
