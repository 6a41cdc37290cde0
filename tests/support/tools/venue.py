"""A venue whose answers a test chooses; it remembers every order it was sent."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from minara_core.actions import PlacedOrder, PlacedState, ResolvedOrder, Side, TradingMode
from minara_core.ids import UserId
from minara_tools.app.ports import Balance, InstrumentRules, VenueQuote
from support.actions import NOW


def placed(
    order: ResolvedOrder,
    client_order_id: str,
    *,
    state: PlacedState = PlacedState.FILLED,
    filled: str = "0.02",
    reason: str = "",
) -> PlacedOrder:
    """What a venue says of an order that filled at 2500."""
    quantity = Decimal(filled)
    return PlacedOrder(
        client_order_id=client_order_id,
        venue_order_id=f"venue-{client_order_id[:6]}",
        state=state,
        filled_quantity=quantity,
        average_price=Decimal(2500) if quantity else Decimal(0),
        spent=quantity * 2500,
        spent_asset=order.max_spend_asset,
        received=quantity,
        received_asset=order.min_receipt_asset,
        fee=Decimal("0.05") if quantity else Decimal(0),
        fee_asset=order.max_fee_asset,
        reason=reason,
    )


class ScriptedVenue:
    """Implements Venue. `answer` makes what `place` returns or raises; `gate`, when set, is waited
    for first. `sent` counts each order that reached it, also repeated ones."""

    def __init__(self) -> None:
        self.name = "paper"
        self.mode = TradingMode.PAPER
        self.account_of: Callable[[UserId], str] = lambda user: f"paper-{user}"
        self.sent: list[str] = []
        self.orders: dict[str, PlacedOrder] = {}
        self.arrived = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.answer: Callable[[ResolvedOrder, str], PlacedOrder] = placed

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return (
            InstrumentRules(
                symbol="ETH/USDC",
                base="ETH",
                quote="USDC",
                quantity_increment=Decimal("0.0001"),
                price_increment=Decimal("0.01"),
                min_quantity=Decimal("0.0001"),
                min_notional=Decimal(1),
            ),
        )

    async def account(self, user_id: UserId) -> str:
        return self.account_of(user_id)

    async def balances(self, account: str) -> tuple[Balance, ...]:
        return (Balance(asset="USDC", available=Decimal(100_000), held=Decimal(0)),)

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        return VenueQuote(
            instrument=symbol,
            side=side,
            quantity=quantity,
            average_price=Decimal(2500),
            best_price=Decimal(2500),
            cost=quantity * 2500,
            receipt=quantity,
            receipt_asset="ETH",
            fee=Decimal("0.05"),
            fee_asset="USDC",
            price_impact=Decimal(0),
            quote_time=NOW,
            source="test",
        )

    async def place(self, order: ResolvedOrder, client_order_id: str) -> PlacedOrder:
        self.sent.append(client_order_id)
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        if client_order_id not in self.orders:
            self.orders[client_order_id] = self.answer(order, client_order_id)
        return self.orders[client_order_id]

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        return self.orders.get(client_order_id)
