"""An account's balances and facts within one transaction, and the house on their other side.

Locks are taken in one order: accounts by name, then the balances of account and house by asset,
once, when everything is decided.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.actions import PlacedOrder, Side
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_tools.adapters import venue_paper_store as store
from minara_tools.adapters.venue_paper_book import booked
from minara_tools.adapters.venue_paper_listings import Listing
from minara_tools.adapters.venue_paper_orders import Recorded
from minara_tools.domain.venue_terms import FactKind, VenueFact

HOUSE = "house"
"""The venue's own account: the other side of every fact, so that all sums are zero."""

_ZERO = Decimal(0)
_AVERAGE_DIGITS = Decimal("0.01")


class Books:
    """What happens to a locked account; `write` puts it down, once and last."""

    def __init__(self, connection: sa.Connection, row: store.AccountRow, now: datetime) -> None:
        self.row = row
        self.now = now
        self._connection = connection
        self._standing = {
            balance.asset: balance for balance in store.balances_of(connection, row.account)
        }
        self._free: dict[str, Decimal] = {}
        self._held: dict[str, Decimal] = {}
        self._facts: list[VenueFact] = []

    def free(self, asset: str) -> Decimal:
        """What of `asset` no open order holds."""
        standing = self._standing[asset].available if asset in self._standing else _ZERO
        return add(standing, self._free.get(asset, _ZERO))

    def new_trade_id(self) -> str:
        """Unique for ever: of the account and the number of its next fact."""
        return f"{self.row.account}-{self.row.fact_count + len(self._facts)}"

    def hold(self, asset: str, change: Decimal) -> None:
        """Move `change` from free to held; a negative one back."""
        self._add(self._free, asset, subtract(_ZERO, change))
        self._add(self._held, asset, change)

    def book(
        self,
        kind: FactKind,
        changes: Mapping[str, Decimal],
        *,
        instrument: str,
        trade_id: str,
        placed: PlacedOrder | None = None,
        quantity: Decimal = _ZERO,
        price: Decimal = _ZERO,
        counterparty: str = "",
    ) -> None:
        """One fact; what it changes is added to what is free."""
        moved = {asset: change for asset, change in changes.items() if change != 0}
        for asset, change in moved.items():
            self._add(self._free, asset, change)
        fact = VenueFact(
            kind=kind,
            account=self.row.account,
            instrument=instrument,
            trade_id=trade_id,
            venue_order_id="" if placed is None else placed.venue_order_id,
            client_order_id="" if placed is None else placed.client_order_id,
            changes=moved,
            time=self.now,
            quantity=quantity,
            price=price,
            counterparty=counterparty,
        )
        self._facts.append(fact)

    def book_fill(self, before: Recorded, after: Recorded, listing: Listing) -> None:
        """FILL and FEE of what `after` has more than `before`, and what is held differently."""
        quantity = subtract(after.fills.quantity, before.fills.quantity)
        if quantity > 0:
            self._book_trade(before, after, listing, quantity)
        change = subtract(after.held, before.held)
        if change != 0:
            self.hold(after.placed.spent_asset, change)

    def write(self) -> None:
        """Put down facts, balances and the house's side of them."""
        for number, fact in enumerate(self._facts):
            store.insert_fact(self._connection, self.row.fact_count + number, fact)
        if self._facts:
            count = self.row.fact_count + len(self._facts)
            store.set_fact_count(self._connection, self.row.account, count)
        for asset in sorted({*self._free, *self._held}):
            free, held = self._free.get(asset, _ZERO), self._held.get(asset, _ZERO)
            if free != 0 or held != 0:
                store.change_balance(self._connection, self.row.account, asset, free, held)
            mirrored = subtract(_ZERO, add(free, held))
            if mirrored != 0:
                store.change_balance(self._connection, HOUSE, asset, mirrored, _ZERO)

    def _book_trade(
        self, before: Recorded, after: Recorded, listing: Listing, quantity: Decimal
    ) -> None:
        side, rules = after.order.side, listing.rules
        was, sums = (booked(listing, side, one.fills) for one in (before, after))
        turnover, fee = subtract(sums.turnover, was.turnover), subtract(sums.fee, was.fee)
        gives = subtract(_ZERO, turnover if side is Side.BUY else quantity)
        base, quote = (quantity, gives) if side is Side.BUY else (gives, turnover)
        trade_id = self.new_trade_id()
        self.book(
            FactKind.FILL,
            {rules.base: base, rules.quote: quote},
            instrument=rules.symbol,
            trade_id=trade_id,
            placed=after.placed,
            quantity=quantity,
            price=_average(before, after, listing, quantity),
        )
        if fee != 0:
            self.book(
                FactKind.FEE,
                {listing.fee_asset(side): subtract(_ZERO, fee)},
                instrument=rules.symbol,
                trade_id=trade_id,
                placed=after.placed,
            )

    def _add(self, sums: dict[str, Decimal], asset: str, change: Decimal) -> None:
        sums[asset] = add(sums.get(asset, _ZERO), change)


def _average(before: Recorded, after: Recorded, listing: Listing, quantity: Decimal) -> Decimal:
    exact = divide(subtract(after.fills.turnover, before.fills.turnover), quantity)
    step = multiply(listing.rules.price_increment, _AVERAGE_DIGITS)
    return quantize(exact, step, Rounding.UP if after.order.side is Side.BUY else Rounding.DOWN)
