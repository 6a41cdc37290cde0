"""What tools need from the world, in their own words."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from minara_core.actions import PlacedOrder, ResolvedOrder, Side, TradingMode
from minara_core.ids import UserId
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    Balance,
    InstrumentRules,
    VenueAccount,
    VenueAnswer,
    VenueCapabilities,
    VenueFact,
    VenueQuote,
    VenueRequest,
)


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


class Venue(Protocol):
    """Where orders go (safety.md §5). Adding one: write the adapter against the contract suite."""

    @property
    def name(self) -> str: ...

    @property
    def mode(self) -> TradingMode: ...

    @property
    def capabilities(self) -> VenueCapabilities: ...

    async def instruments(self) -> tuple[InstrumentRules, ...]: ...

    async def networks(self) -> tuple[AssetNetwork, ...]:
        """The chains by which assets leave the venue."""
        ...

    async def account(self, user_id: UserId) -> str:
        """The user's primary account; opened with its starting balances on first use."""
        ...

    async def accounts(self, user_id: UserId) -> tuple[VenueAccount, ...]:
        """All accounts that the venue lists for the user, the primary one first."""
        ...

    async def balances(self, account: str) -> tuple[Balance, ...]: ...

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        """Raises ToolFailed (PRICE_UNAVAILABLE, MARKET_CLOSED) when there is no usable price."""
        ...

    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        """The request for this move, signed with a fixed time and the shortest validity the venue
        has. Sends nothing. Raises ToolFailed (ORDER_UNSUPPORTED) for what the venue has no request
        for."""
        ...

    async def send(self, request: VenueRequest) -> VenueAnswer:
        """Send it once. The same client id is the same move: it is answered, not repeated.

        Raises ToolFailed for a refusal that the venue did not record (REQUEST_EXPIRED when the
        deadline was over before the first byte, or the venue refused it as late), Unavailable,
        OSError and TimeoutError for all else. None of them is certain for the one who asks: a
        second copy of the request may be on its way.
        """
        ...

    async def cancel_order(self, account: str, client_order_id: str) -> VenueAnswer:
        """End an order of ours; what was filled stays. Cancelling what is over answers what it is.
        Raises ToolFailed (ORDER_NOT_FOUND), and as `send`."""
        ...

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        """The order, transfer or withdrawal of that client id as the venue knows it, or None.
        Raises Unavailable when it cannot be known."""
        ...

    async def open_orders(self, account: str) -> tuple[PlacedOrder, ...]: ...

    async def closed_orders(self, account: str, since: datetime) -> tuple[PlacedOrder, ...]:
        """What ended, or was created, at `since` or later."""
        ...

    async def facts(self, account: str, since: datetime) -> tuple[VenueFact, ...]:
        """Everything that happened to the account at `since` or later, oldest first."""
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
