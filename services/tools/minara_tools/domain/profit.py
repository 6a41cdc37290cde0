"""Profit and loss of what a person has traded, at average cost, from their booked facts.

Money is any verified stablecoin, counted as one dollar. What came in without a price (an opening
balance, a deposit of coins) has no cost, so it makes neither profit nor loss; a sale takes from
both kinds in proportion. A trade of one coin for another carries the cost over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from minara_core.money import add, divide, multiply, subtract
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.postings import OWNED, LedgerAccount, Posting, PostingKind

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """`costed` of the asset was bought for `cost` USD, `uncosted` came without a price; `realised`
    is what sales brought beyond the cost of what they sold, before fees."""

    costed: Decimal = _ZERO
    uncosted: Decimal = _ZERO
    cost: Decimal = _ZERO
    realised: Decimal = _ZERO

    @property
    def quantity(self) -> Decimal:
        return add(self.costed, self.uncosted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profit:
    """By asset; money has no holding. `fees` are in the asset they were charged in."""

    holdings: Mapping[str, Holding]
    fees: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class _Tally:
    """Grows while one history is read; lives for one call of `profit`."""

    holdings: dict[str, Holding] = field(default_factory=dict[str, Holding])
    fees: dict[str, Decimal] = field(default_factory=dict[str, Decimal])

    def take(self, posting: Posting) -> None:
        changes = _changes(posting)
        match posting.kind:
            case PostingKind.FILL:
                self._trade(changes)
            case PostingKind.FEE | PostingKind.REBATE:
                for asset, change in changes.items():
                    self.fees[asset] = subtract(self.fees.get(asset, _ZERO), change)
                    self._remove(asset, change)
            case _:
                for asset, change in changes.items():
                    self._come_or_go(asset, change)

    def _trade(self, changes: Mapping[str, Decimal]) -> None:
        money = _ZERO
        for asset, change in changes.items():
            money = add(money, change) if is_stablecoin(asset) else money
        coins = {a: c for a, c in changes.items() if not is_stablecoin(a)}
        carried = _ZERO
        share_costed = Decimal(1)
        for asset, change in coins.items():
            if change < 0:
                before = self.holdings.get(asset, Holding())
                share_costed = _costed_share(before)
                carried = self._remove(asset, change)
                if money > 0:
                    self._realise(asset, subtract(multiply(money, share_costed), carried))
        for asset, change in coins.items():
            if change > 0:
                cost = subtract(_ZERO, money) if money < 0 else carried
                share = Decimal(1) if money < 0 else share_costed
                self._add(asset, change, cost, share)

    def _come_or_go(self, asset: str, change: Decimal) -> None:
        if is_stablecoin(asset):
            return
        if change > 0:
            self._add(asset, change, _ZERO, _ZERO)
        else:
            self._remove(asset, change)

    def _add(self, asset: str, change: Decimal, cost: Decimal, share_costed: Decimal) -> None:
        before = self.holdings.get(asset, Holding())
        costed = multiply(change, share_costed)
        self.holdings[asset] = Holding(
            costed=add(before.costed, costed),
            uncosted=add(before.uncosted, subtract(change, costed)),
            cost=add(before.cost, cost),
            realised=before.realised,
        )

    def _remove(self, asset: str, change: Decimal) -> Decimal:
        """Take `change` (negative) out; the cost of it."""
        before = self.holdings.get(asset)
        if before is None or is_stablecoin(asset) or before.quantity <= 0:
            return _ZERO
        share = min(Decimal(1), divide(subtract(_ZERO, change), before.quantity))
        left = subtract(Decimal(1), share)
        cost = multiply(before.cost, share)
        self.holdings[asset] = Holding(
            costed=multiply(before.costed, left),
            uncosted=multiply(before.uncosted, left),
            cost=subtract(before.cost, cost),
            realised=before.realised,
        )
        return cost

    def _realise(self, asset: str, gain: Decimal) -> None:
        before = self.holdings.get(asset, Holding())
        self.holdings[asset] = Holding(
            costed=before.costed,
            uncosted=before.uncosted,
            cost=before.cost,
            realised=add(before.realised, gain),
        )


def profit(postings: Iterable[Posting]) -> Profit:
    """Of all facts of one person, oldest first."""
    tally = _Tally()
    for posting in postings:
        tally.take(posting)
    return Profit(holdings=tally.holdings, fees=tally.fees)


def _changes(posting: Posting) -> dict[str, Decimal]:
    """What the person owns more of each asset; nothing for what goes between their own accounts."""
    if any(one.ledger_account is LedgerAccount.IN_TRANSIT for one in posting.entries):
        return {}
    changes: dict[str, Decimal] = {}
    for entry in posting.entries:
        if entry.ledger_account in OWNED:
            changes[entry.asset] = add(changes.get(entry.asset, _ZERO), entry.amount)
    return {asset: change for asset, change in changes.items() if change != 0}


def _costed_share(holding: Holding) -> Decimal:
    quantity = holding.quantity
    return divide(holding.costed, quantity) if quantity > 0 else _ZERO
