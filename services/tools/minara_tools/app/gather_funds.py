"""The fund context of a move: what the venue and the market say, read in one go, and the books.

What the venue says is read outside of any transaction; the books are read again under the lock, so
the same snapshot serves a preview and the decision.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from minara_core.actions import MoveKind, PendingAction, ResolvedOrder, Side
from minara_core.ids import PendingActionId, UserId
from minara_core.money import add, divide, multiply, subtract
from minara_tools.app.fund_ledger import FundLedger, LedgerStanding
from minara_tools.app.open_books import BookOpening
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.assets import asset_class, usd_price
from minara_tools.domain.equity import equity
from minara_tools.domain.funds import AssetFunds, FundContext, UncertainMove
from minara_tools.domain.operations import Operation, OperationState, hold_of
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.postings import LedgerAccount
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    Balance,
    InstrumentRules,
    VenueAccount,
)

_ZERO = Decimal(0)
_A_DAY = timedelta(hours=24)
_A_MINUTE = timedelta(minutes=1)
_UNKNOWN_STATES = frozenset({OperationState.SENT, OperationState.UNCERTAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueSnapshot:
    """What the venue and the market say of a person's account. `prices` are in USD, by asset, as
    the market says them; assets without a price are left out."""

    account: str
    balances: Mapping[str, Balance]
    accounts: tuple[VenueAccount, ...]
    networks: tuple[AssetNetwork, ...]
    listings: Mapping[str, InstrumentRules]
    prices: Mapping[str, Decimal]

    @property
    def listed(self) -> frozenset[str]:
        """Every asset that the venue itself trades."""
        rules = self.listings.values()
        return frozenset(asset for one in rules for asset in (one.base, one.quote))


class FundGathering:
    def __init__(
        self, ledger: FundLedger, venue: Venue, market: MarketData, opening: BookOpening
    ) -> None:
        self._ledger = ledger
        self._venue = venue
        self._market = market
        self._opening = opening

    async def snapshot(self, user_id: UserId, account: str, assets: Iterable[str]) -> VenueSnapshot:
        """Read what the venue and the market say; `assets` are priced beside those held."""
        await self._opening.ensure(user_id)
        balances = await self._venue.balances(account)
        held = [one.asset for one in balances if one.available or one.held]
        wanted = tuple(sorted({*held, *(asset for asset in assets if asset)}))
        rules = await self._venue.instruments()
        return VenueSnapshot(
            account=account,
            balances={one.asset: one for one in balances},
            accounts=await self._venue.accounts(user_id),
            networks=await self._venue.networks(),
            listings={one.symbol: one for one in rules},
            prices=await self._prices(wanted),
        )

    async def context(
        self,
        user_id: UserId,
        snapshot: VenueSnapshot,
        is_replaced: Callable[[PendingAction], bool] = lambda action: False,
    ) -> FundContext:
        """The fund context of a move that is only asked for; what it replaces does not compete."""
        standing = await self._ledger.standing(user_id, self._venue.name, snapshot.account)
        left = tuple(action for action in standing.pending if not is_replaced(action))
        return context_of(replace(standing, pending=left), snapshot)

    async def _prices(self, assets: tuple[str, ...]) -> Mapping[str, Decimal]:
        if not assets:
            return {}
        try:
            points = await self._market.prices(assets)
        except (ToolFailed, TimeoutError, OSError):
            if len(assets) == 1:
                return {}
            async with asyncio.TaskGroup() as tasks:
                reads = [tasks.create_task(self._prices((asset,))) for asset in assets]
            return {asset: price for read in reads for asset, price in read.result().items()}
        return {point.symbol: point.price for point in points}


def context_of(
    standing: LedgerStanding,
    snapshot: VenueSnapshot,
    *,
    but: PendingActionId | None = None,
) -> FundContext:
    """Books and snapshot as the value that all stages judge by; `but` is the action being decided,
    which does not compete with itself."""
    others = [action for action in standing.pending if action.pending_action_id != but]
    unknown = tuple(_uncertain(one) for one in standing.operations if one.state in _UNKNOWN_STATES)
    since, minute = standing.time - _A_DAY, standing.time - _A_MINUTE
    capped = [
        one
        for one in standing.operations
        if (one.create_time > since or not one.state.is_final)
        and not one.is_exit
        and one.moved_usd > 0
    ]
    recent = [one for one in standing.operations if one.create_time > minute]
    return FundContext(
        time=standing.time,
        user_id=standing.user_id,
        venue=standing.venue,
        account=standing.account,
        trading_state=standing.trading.state,
        assets=_assets(standing, snapshot),
        equity_usd=equity(_owned(standing), snapshot.prices, unknown, verified=snapshot.listed),
        limits=standing.limits,
        pending_spends=_spends(others),
        uncertain=unknown,
        buying_usd=_buying(standing.operations),
        pair_locks={
            symbol: until for symbol, until in standing.pair_locks.items() if until > standing.time
        },
        addresses=standing.addresses,
        own_accounts=snapshot.accounts,
        networks=snapshot.networks,
        listings=snapshot.listings,
        moved_usd=_sum(one.moved_usd for one in capped),
        moves=len(capped),
        open_orders=sum(one.state is OperationState.OPEN for one in standing.operations),
        submits=len(recent),
    )


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    total = _ZERO
    for amount in amounts:
        total = add(total, amount)
    return total


def _assets(standing: LedgerStanding, snapshot: VenueSnapshot) -> Mapping[str, AssetFunds]:
    books = standing.balances
    names = {asset for _, asset in books} | set(snapshot.balances) | set(snapshot.prices)
    found: dict[str, AssetFunds] = {}
    for asset in sorted(names):
        ours = books.get((LedgerAccount.AVAILABLE, asset), _ZERO)
        theirs = snapshot.balances.get(asset)
        price = snapshot.prices.get(asset)
        found[asset] = AssetFunds(
            asset=asset,
            # The venue may know less than the books (a hold of ours not yet sent) or more.
            free=min(ours, theirs.available) if theirs else min(ours, _ZERO),
            held=books.get((LedgerAccount.HELD, asset), _ZERO),
            usd_price=None if price is None else usd_price(asset, price),
            asset_class=asset_class(asset),
            is_listed=asset in snapshot.listed,
        )
    return found


def _owned(standing: LedgerStanding) -> list[Balance]:
    books = standing.balances
    return [
        Balance(
            asset=asset,
            available=books.get((LedgerAccount.AVAILABLE, asset), _ZERO),
            held=books.get((LedgerAccount.HELD, asset), _ZERO),
        )
        for asset in sorted({asset for _, asset in books})
    ]


def _uncertain(operation: Operation) -> UncertainMove:
    order = operation.order
    return UncertainMove(
        instrument=order.instrument.symbol,
        side=order.side,
        notional_usd=operation.notional_usd,
        takes={operation.hold_asset: operation.hold_left} if operation.hold_asset else {},
        brings=_brings(order),
    )


def _brings(order: ResolvedOrder) -> Mapping[str, Decimal]:
    """A purchase may bring all of its quantity, which is worse for concentration than the least."""
    if order.kind is MoveKind.TRADE and order.side is Side.BUY:
        return {order.instrument.base: order.quantity}
    return {order.min_receipt_asset: order.min_receipt} if order.min_receipt_asset else {}


def _spends(actions: Iterable[PendingAction]) -> Mapping[str, Decimal]:
    spends: dict[str, Decimal] = {}
    for action in actions:
        asset, amount = hold_of(action.order)
        if asset:
            spends[asset] = add(spends.get(asset, _ZERO), amount)
    return spends


def _buying(operations: Iterable[Operation]) -> Mapping[str, Decimal]:
    buying: dict[str, Decimal] = {}
    for one in operations:
        order = one.order
        is_buying = one.state in {OperationState.HELD, OperationState.OPEN} and (
            order.side is Side.BUY and order.quantity > 0
        )
        if is_buying:
            rest = divide(subtract(order.quantity, one.filled_quantity), order.quantity)
            base, usd = order.instrument.base, multiply(one.notional_usd, rest)
            buying[base] = add(buying.get(base, _ZERO), usd)
    return buying
