"""What a venue says and is told: listings, balances, quotes, requests, answers and facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from minara_core.actions import MoveKind, PlacedOrder, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentRules:
    """A venue's listing and its limits; increments are positive, a maximum of None is none."""

    symbol: str
    base: str
    quote: str
    quantity_increment: Decimal
    price_increment: Decimal
    min_quantity: Decimal
    min_notional: Decimal
    max_quantity: Decimal | None = None
    max_notional: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetNetwork:
    """A chain by which an asset leaves the venue. `address_format` is "evm", "bitcoin", "solana" or
    "tron"; `fee` and `min_amount` are in the asset."""

    asset: str
    chain: str
    address_format: str
    needs_memo: bool
    fee: Decimal
    min_amount: Decimal
    amount_increment: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueAccount:
    """An account that the venue itself lists for a user. `purpose` is "spot" or "perps"."""

    account: str
    purpose: str
    is_primary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """`available` is free at the venue, `held` is what its open orders hold."""

    asset: str
    available: Decimal
    held: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueQuote:
    """What a market order would do now. `quantity` is what the book holds of the base quantity
    asked for. `cost` is all that leaves the account, `receipt` all that arrives: a fee charged in
    the quote asset is in a purchase's cost and off a sale's receipt, one charged in the base asset
    off a purchase's receipt. `receipt` and `fee` are in their assets; `price_impact` is a fraction,
    average against best price."""

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


class ClientIdLife(StrEnum):
    """How long a client id stays taken."""

    WHILE_OPEN = "while_open"
    FOR_EVER = "for_ever"


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueCapabilities:
    """What a venue can do (safety.md §5). `client_id_found_for` is how long an order can be found
    by its client id; `request_validity` is None where a request never lapses."""

    client_id_alphabet: str
    client_id_length: int
    client_id_life: ClientIdLife
    client_id_found_for: timedelta
    request_validity: timedelta | None
    has_native_protections: bool
    has_transfer_id: bool
    has_testnet: bool
    position_modes: frozenset[str]
    margin_modes: frozenset[str]

    @property
    def moves_are_provable(self) -> bool:
        """Whether it can be proven at this venue that a request was never taken."""
        is_long_found = self.client_id_found_for >= timedelta(hours=24)
        return is_long_found and self.request_validity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueRequest:
    """A request, built and signed, that nobody has sent yet. The venue takes it no later than
    `not_after` (None: whenever it arrives); `deadline` is that time on the monotonic clock,
    checked right before the first byte leaves."""

    kind: MoveKind
    account: str
    client_order_id: str
    body: str
    signature: str
    sign_time: datetime
    not_after: datetime | None
    deadline: float | None


class FactKind(StrEnum):
    """What happened at the venue."""

    FILL = "fill"
    FEE = "fee"
    REBATE = "rebate"
    FUNDING = "funding"
    LIQUIDATION = "liquidation"
    TRANSFER_OUT = "transfer_out"
    TRANSFER_IN = "transfer_in"
    DEPOSIT = "deposit"
    WITHDRAWAL = "withdrawal"


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueFact:
    """One thing that happened to an account. `changes` is what it adds to each asset (negative:
    takes away). A trade is a FILL and, with the same trade id, a FEE of its own.

    (account, instrument, trade_id, venue_order_id, kind) is unique for ever. `instrument` is the
    asset for what is no trade; `client_order_id` is empty for what no order of ours caused.
    """

    kind: FactKind
    account: str
    instrument: str
    trade_id: str
    venue_order_id: str
    client_order_id: str
    changes: Mapping[str, Decimal]
    time: datetime
    quantity: Decimal = Decimal(0)
    price: Decimal = Decimal(0)
    counterparty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueAnswer:
    """What a venue answers to a request: the order as it is then, and the facts it told with it,
    which may be fewer than there are."""

    order: PlacedOrder
    facts: tuple[VenueFact, ...] = ()
