"""What tools need from the world, in their own words."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from minara_core.actions import PlacedOrder, ResolvedOrder, Side, TradingMode
from minara_core.ids import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """`price` in USD, positive; `change_24h_percent` may be negative; `source` such as
    "simulated"."""

    symbol: str
    name: str
    price: Decimal
    change_24h_percent: Decimal
    as_of: datetime
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FearGreed:
    """0 (extreme fear) to 100 (extreme greed)."""

    value: int
    classification: str
    as_of: datetime
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenListing:
    symbol: str
    name: str
    asset_class: str
    source: str


class MarketData(Protocol):
    """Prices and market moods. Never returns a NaN, negative or undated price."""

    async def prices(self, symbols: tuple[str, ...]) -> tuple[PricePoint, ...]:
        """One point per symbol, in order. Raises ToolFailed (PRICE_UNAVAILABLE) for an unknown
        one."""
        ...

    async def trending(self, limit: int) -> tuple[PricePoint, ...]: ...

    async def fear_greed(self) -> FearGreed: ...

    async def search(self, query: str, limit: int) -> tuple[TokenListing, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentRules:
    """A venue's listing and its limits; increments are positive."""

    symbol: str
    base: str
    quote: str
    quantity_increment: Decimal
    price_increment: Decimal
    min_quantity: Decimal
    min_notional: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    asset: str
    available: Decimal
    held: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueQuote:
    """What a market order would do now. `quantity` is what the book holds of the base quantity
    asked for. `cost` is all that leaves the account, `receipt` all that arrives: a fee charged in
    the quote asset is in a purchase's cost and off a sale's receipt. `receipt` and `fee` are in
    their assets; `price_impact` is a fraction, average against best price."""

    instrument: str
    side: Side
    quantity: Decimal
    average_price: Decimal
    best_price: Decimal
    cost: Decimal
    receipt: Decimal
    receipt_asset: str
    fee: Decimal
    fee_asset: str
    price_impact: Decimal
    quote_time: datetime
    source: str


class Venue(Protocol):
    """Where orders go. One account per user."""

    @property
    def name(self) -> str: ...

    @property
    def mode(self) -> TradingMode: ...

    async def instruments(self) -> tuple[InstrumentRules, ...]: ...

    async def account(self, user_id: UserId) -> str:
        """The user's account id; opened with its starting balances on first use."""
        ...

    async def balances(self, account: str) -> tuple[Balance, ...]: ...

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        """Raises ToolFailed (PRICE_UNAVAILABLE, MARKET_CLOSED) when there is no usable price."""
        ...

    async def place(self, order: ResolvedOrder, client_order_id: str) -> PlacedOrder:
        """Send the order. The same client id is the same order: it is answered, not repeated."""
        ...

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        """The order of that client id as the venue knows it, or None."""
        ...


class FileBox(Protocol):
    """A user's own folder; no path leads out of it."""

    async def read(self, user_id: UserId, path: str) -> bytes:
        """Raises SandboxEscapeError, ToolFailed (NOT_FOUND, FILE_TOO_LARGE)."""
        ...

    async def write(self, user_id: UserId, path: str, content: bytes) -> str:
        """Replace or make the file; returns its canonical relative path. Raises as `read`, and
        ToolFailed (QUOTA_EXCEEDED)."""
        ...
