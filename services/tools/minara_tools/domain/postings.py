"""The books: double-entry postings, each a fact of the venue or a change of a hold.

The entries of a posting sum to zero for each asset. Facts are booked first and judged afterwards:
nothing here refuses one (safety.md §4).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

from minara_core.money import add, subtract
from minara_tools.domain.operations import Operation
from minara_tools.domain.venue_terms import FactKind, VenueFact

_ZERO = Decimal(0)


class LedgerAccount(StrEnum):
    """Where an asset stands. `REALISED` is the other side of our own trades, `EXTERNAL` of all that
    we did not cause, `SUSPENSE` of what nobody can explain."""

    AVAILABLE = "available"
    HELD = "held"
    MARGIN = "margin"
    IN_TRANSIT = "in_transit"
    FEES = "fees"
    REALISED = "realised"
    FUNDING = "funding"
    EXTERNAL = "external"
    SUSPENSE = "suspense"


OWNED = (
    LedgerAccount.AVAILABLE,
    LedgerAccount.HELD,
    LedgerAccount.MARGIN,
)
"""What the venue reports as the account's balance."""


class PostingKind(StrEnum):
    """The venue's facts, and what only the books know."""

    FILL = "fill"
    FEE = "fee"
    REBATE = "rebate"
    FUNDING = "funding"
    LIQUIDATION = "liquidation"
    TRANSFER_OUT = "transfer_out"
    TRANSFER_IN = "transfer_in"
    DEPOSIT = "deposit"
    WITHDRAWAL = "withdrawal"
    OPENING = "opening"
    HOLD = "hold"
    RELEASE = "release"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`amount` of `asset` added to one ledger account of one venue account."""

    account: str
    ledger_account: LedgerAccount
    asset: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """(venue, account, instrument, trade_id, order_id, kind) is unique: booking twice is once.
    `operation_id` is empty for what no operation of ours caused."""

    kind: PostingKind
    venue: str
    account: str
    instrument: str
    trade_id: str
    order_id: str
    operation_id: str
    time: datetime
    entries: tuple[Entry, ...]
    client_order_id: str = ""
    quantity: Decimal = _ZERO
    price: Decimal = _ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A posting, and what its operation is after it."""

    posting: Posting
    operation: Operation | None


def opening(venue: str, account: str, balances: Mapping[str, Decimal], time: datetime) -> Posting:
    """What an account held when its books were opened; it came from outside."""
    entries = [
        entry
        for asset, amount in sorted(balances.items())
        if amount
        for entry in _pair(account, asset, amount, LedgerAccount.AVAILABLE, LedgerAccount.EXTERNAL)
    ]
    return _own(PostingKind.OPENING, venue, account, "", entries, time)


def included(venue: str, fact: VenueFact) -> Posting:
    """A fact that the opening balances hold already: known, and it moves nothing."""
    return replace(of_fact(venue, fact, None).posting, entries=())


def hold(operation: Operation, now: datetime) -> Posting:
    """Reserve the most that the operation may take."""
    order = operation.order
    entries = _pair(
        order.account,
        operation.hold_asset,
        operation.hold_amount,
        LedgerAccount.HELD,
        LedgerAccount.AVAILABLE,
    )
    return _own(PostingKind.HOLD, order.venue, order.account, operation.operation_id, entries, now)


def release(operation: Operation, now: datetime) -> Booked | None:
    """Give back what is still held; None when nothing is."""
    if not operation.hold_left:
        return None
    order = operation.order
    entries = _pair(
        order.account,
        operation.hold_asset,
        operation.hold_left,
        LedgerAccount.AVAILABLE,
        LedgerAccount.HELD,
    )
    posting = _own(
        PostingKind.RELEASE, order.venue, order.account, operation.operation_id, entries, now
    )
    return Booked(posting=posting, operation=replace(operation, hold_left=_ZERO))


def difference(
    venue: str, account: str, changes: Mapping[str, Decimal], now: datetime, *, number: str
) -> Posting:
    """What the venue has more (or less) than the books, unexplained."""
    entries = [
        entry
        for asset, change in sorted(changes.items())
        for entry in _pair(account, asset, change, LedgerAccount.AVAILABLE, LedgerAccount.SUSPENSE)
    ]
    return _own(PostingKind.DIFFERENCE, venue, account, "", entries, now, trade_id=number)


def of_fact(venue: str, fact: VenueFact, operation: Operation | None) -> Booked:
    """What a fact does to the books; with the operation whose order caused it, if it is ours."""
    taker = _Taker(fact, operation)
    for asset, change in sorted(fact.changes.items()):
        taker.take(asset, change)
    after = taker.operation
    if after is not None and fact.kind is FactKind.FILL:
        after = replace(after, filled_quantity=add(after.filled_quantity, fact.quantity))
    elif after is not None and fact.kind in {FactKind.TRANSFER_OUT, FactKind.WITHDRAWAL}:
        after = replace(after, filled_quantity=fact.quantity)
    posting = Posting(
        kind=PostingKind(fact.kind.value),
        venue=venue,
        account=fact.account,
        instrument=fact.instrument,
        trade_id=fact.trade_id,
        order_id=fact.venue_order_id,
        operation_id=operation.operation_id if operation else "",
        time=fact.time,
        entries=tuple(taker.entries),
        client_order_id=fact.client_order_id,
        quantity=fact.quantity,
        price=fact.price,
    )
    return Booked(posting=posting, operation=after)


_OTHER_SIDE: Mapping[FactKind, LedgerAccount] = MappingProxyType(
    {
        FactKind.FILL: LedgerAccount.REALISED,
        FactKind.LIQUIDATION: LedgerAccount.REALISED,
        FactKind.FEE: LedgerAccount.FEES,
        FactKind.REBATE: LedgerAccount.FEES,
        FactKind.FUNDING: LedgerAccount.FUNDING,
        FactKind.TRANSFER_OUT: LedgerAccount.IN_TRANSIT,
        FactKind.TRANSFER_IN: LedgerAccount.IN_TRANSIT,
        FactKind.DEPOSIT: LedgerAccount.EXTERNAL,
        FactKind.WITHDRAWAL: LedgerAccount.EXTERNAL,
    }
)
_CAUSED_BY_THE_VENUE = frozenset({FactKind.FUNDING, FactKind.LIQUIDATION})


class _Taker:
    """Builds a fact's entries: what leaves comes out of the operation's hold first."""

    def __init__(self, fact: VenueFact, operation: Operation | None) -> None:
        self.operation = operation
        self.entries: list[Entry] = []
        self._fact = fact
        is_ours = operation is not None or fact.kind in _CAUSED_BY_THE_VENUE
        self._other = _OTHER_SIDE[fact.kind] if is_ours else LedgerAccount.EXTERNAL

    def take(self, asset: str, change: Decimal) -> None:
        account = self._fact.account
        from_hold = self._out_of_hold(asset, change)
        if from_hold:
            self._add(account, LedgerAccount.HELD, asset, negated(from_hold))
        self._add(account, LedgerAccount.AVAILABLE, asset, add(change, from_hold))
        self._add(self._other_account(), self._other, asset, negated(change))

    def _out_of_hold(self, asset: str, change: Decimal) -> Decimal:
        operation = self.operation
        is_held = operation is not None and (operation.order.account, operation.hold_asset) == (
            self._fact.account,
            asset,
        )
        if operation is None or not is_held or change >= 0:
            return _ZERO
        taken = min(operation.hold_left, negated(change))
        self.operation = replace(operation, hold_left=subtract(operation.hold_left, taken))
        return taken

    def _other_account(self) -> str:
        # What is in transit stands with the account it left.
        is_arrival = self._fact.kind is FactKind.TRANSFER_IN and self.operation is not None
        return self._fact.counterparty if is_arrival else self._fact.account

    def _add(
        self, account: str, ledger_account: LedgerAccount, asset: str, amount: Decimal
    ) -> None:
        if amount:
            self.entries.append(
                Entry(account=account, ledger_account=ledger_account, asset=asset, amount=amount)
            )


def differences(
    balances: Mapping[tuple[LedgerAccount, str], Decimal], totals: Mapping[str, Decimal]
) -> dict[str, Decimal]:
    """What the venue's totals have more than the books (or less), by asset; equal ones left out."""
    ours: dict[str, Decimal] = {}
    for (ledger_account, asset), amount in balances.items():
        if ledger_account in OWNED:
            ours[asset] = add(ours.get(asset, _ZERO), amount)
    found = {
        asset: subtract(totals.get(asset, _ZERO), ours.get(asset, _ZERO))
        for asset in sorted(set(ours) | set(totals))
    }
    return {asset: amount for asset, amount in found.items() if amount}


def negated(amount: Decimal) -> Decimal:
    """Exactly; the operator would round to the default context."""
    return subtract(_ZERO, amount)


def totals(entries: Iterable[Entry]) -> dict[str, Decimal]:
    """The sum of all entries for each asset; zero for whole postings."""
    sums: dict[str, Decimal] = {}
    for entry in entries:
        sums[entry.asset] = add(sums.get(entry.asset, _ZERO), entry.amount)
    return sums


def _pair(
    account: str, asset: str, amount: Decimal, to: LedgerAccount, out_of: LedgerAccount
) -> Sequence[Entry]:
    return (
        Entry(account=account, ledger_account=to, asset=asset, amount=amount),
        Entry(account=account, ledger_account=out_of, asset=asset, amount=negated(amount)),
    )


def _own(
    kind: PostingKind,
    venue: str,
    account: str,
    operation_id: str,
    entries: Sequence[Entry],
    time: datetime,
    *,
    trade_id: str = "",
) -> Posting:
    return Posting(
        kind=kind,
        venue=venue,
        account=account,
        instrument="",
        trade_id=trade_id or operation_id,
        order_id="",
        operation_id=operation_id,
        time=time,
        entries=tuple(entries),
    )
