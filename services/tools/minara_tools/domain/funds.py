"""The fund context: what a person has, has promised and has moved, as one value for all stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from minara_core.actions import ActionPreview, ResolvedOrder, Side
from minara_core.ids import UserId
from minara_core.taxonomy import AssetClass, PermissionTier, TradingState
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.limits import Limits
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    InstrumentRules,
    VenueAccount,
    VenueQuote,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFunds:
    """One asset of an account. `free` is what the ledger lets be spent, `held` what open operations
    hold; `usd_price` is None when nobody prices it. `listed` when the venue itself lists it."""

    asset: str
    free: Decimal
    held: Decimal
    usd_price: Decimal | None
    asset_class: AssetClass | None
    is_listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainMove:
    """An operation that may or may not have happened: what it takes if it has, what it brings."""

    instrument: str
    side: Side
    notional_usd: Decimal
    takes: Mapping[str, Decimal]
    brings: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class FundContext:
    """Read in one go before a move is judged. `time` is the database's clock.

    `pending_spends` is what the user's other open previews would take, by asset; `moved_usd` and
    `moves` are those of the last 24 h, uncertain ones included, exits left out; `submits` are those
    of the last minute; `buying_usd` is what open orders may still add to each base asset.
    `equity_usd` is None when more than 5 % of the account cannot be priced. The move being judged
    is in none of them. `cooldown_until` is when the pause after the last move is over.
    """

    time: datetime
    user_id: UserId
    venue: str
    account: str
    trading_state: TradingState
    assets: Mapping[str, AssetFunds]
    equity_usd: Decimal | None
    limits: Limits
    moved_usd: Decimal = Decimal(0)
    moves: int = 0
    open_orders: int = 0
    submits: int = 0
    pending_spends: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    buying_usd: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    uncertain: tuple[UncertainMove, ...] = ()
    pair_locks: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    cooldown_until: datetime | None = None
    is_autopilot_active: bool = False
    addresses: tuple[AddressEntry, ...] = ()
    own_accounts: tuple[VenueAccount, ...] = ()
    networks: tuple[AssetNetwork, ...] = ()
    listings: Mapping[str, InstrumentRules] = field(default_factory=dict[str, InstrumentRules])


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInput:
    """A move and what it is judged by. `fresh` is the venue's quote at execution, None when asking
    and for what is no trade; `is_manual` when a person filled the move in by hand; `by_mandate`
    when nobody is there to be asked. `ceiling` is what the turn may do at most."""

    order: ResolvedOrder
    preview: ActionPreview
    funds: FundContext
    fresh: VenueQuote | None = None
    is_manual: bool = False
    by_mandate: bool = False
    ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM
