"""What the paper venue does with a request inside one transaction, behind the account's lock."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.actions import MoveKind, PlacedState, ResolvedOrder, Side, TimeInForce
from minara_core.money import add, canonical, subtract
from minara_core.reasons import DenialReason
from minara_tools.adapters import venue_paper_orders as orders
from minara_tools.adapters import venue_paper_store as store
from minara_tools.adapters.venue_paper_book import book_side, crossing
from minara_tools.adapters.venue_paper_books import Books
from minara_tools.adapters.venue_paper_listings import paper_listings
from minara_tools.adapters.venue_paper_moves import (
    network_of,
    transfer_refusal,
    withdrawal_refusal,
)
from minara_tools.adapters.venue_paper_orders import Recorded
from minara_tools.adapters.venue_paper_signing import REQUEST_EXPIRED, Move
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import FactKind, VenueAnswer

_BOOK_SECONDS = 10
"""How long a book stands: a resting order takes from one book once, however often it is looked at;
a new reference price or the next ten seconds bring the next book."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The price of a base in its quote asset. One that is not fresh is the last good one that the
    venue knows: a sale may still use it, nothing else."""

    price: Decimal
    source: str
    time: datetime
    is_fresh: bool


References = Mapping[str, Reference]
Now = Callable[[], datetime]


def settle(connection: sa.Connection, move: Move, references: References, now: Now) -> VenueAnswer:
    """Answer what is known, refuse what is late, else do it and record it.

    Raises ToolFailed (REQUEST_EXPIRED); then nothing of the request is recorded.
    """
    order, client_order_id = move.order, move.client_order_id
    rows = _lock(connection, order)
    row = rows.get(order.account)
    if row is None:
        unknown = orders.new_order(order, client_order_id, now())
        return VenueAnswer(order=orders.rejected(unknown, orders.ORDER_UNSUPPORTED).placed)
    time = now()
    books = Books(connection, row, time)
    match_resting(connection, books, references)
    known = store.recorded_order(connection, order.account, client_order_id)
    arrived = orders.new_order(order, client_order_id, time)
    if known is not None and known[0] != move.order_json:
        books.write()
        return VenueAnswer(order=orders.rejected(arrived, orders.DUPLICATE_CLIENT_ID).placed)
    if known is None:
        if move.window.is_late(time):
            raise ToolFailed(REQUEST_EXPIRED, "the request came after its validity")
        _do(connection, books, rows, move, arrived, references)
    books.write()
    recorded = store.recorded_order(connection, order.account, client_order_id)
    assert recorded is not None
    facts = store.facts_of_order(connection, order.account, client_order_id)
    return VenueAnswer(order=recorded[1].placed, facts=facts)


def settle_cancel(
    connection: sa.Connection,
    account: str,
    client_order_id: str,
    references: References,
    now: Now,
) -> VenueAnswer:
    """End an order. Raises ToolFailed (ORDER_NOT_FOUND)."""
    row = store.lock_account(connection, account)
    if row is None:
        raise _not_found(client_order_id)
    books = Books(connection, row, now())
    match_resting(connection, books, references)
    ended = _cancel(connection, books, client_order_id)
    if ended is None:
        raise _not_found(client_order_id)
    books.write()
    facts = store.facts_of_order(connection, account, client_order_id)
    return VenueAnswer(order=ended.placed, facts=facts)


def settle_resting(
    connection: sa.Connection, account: str, references: References, now: Now
) -> None:
    """Fill what the reference prices have crossed."""
    row = store.lock_account(connection, account)
    if row is not None:
        books = Books(connection, row, now())
        match_resting(connection, books, references)
        books.write()


def deposit(connection: sa.Connection, account: str, asset: str, amount: Decimal, now: Now) -> bool:
    """Money from outside; false if there is no such account."""
    row = store.lock_account(connection, account)
    if row is None:
        return False
    books = Books(connection, row, now())
    book_deposit(books, asset, amount)
    books.write()
    return True


def book_deposit(books: Books, asset: str, amount: Decimal) -> None:
    books.book(
        FactKind.DEPOSIT,
        {asset: amount},
        instrument=asset,
        trade_id=books.new_trade_id(),
        quantity=amount,
    )


def match_resting(connection: sa.Connection, books: Books, references: References) -> None:
    """Fill the account's resting orders, oldest first, at fresh prices only."""
    for resting in store.open_orders(connection, books.row.account):
        symbol = resting.order.instrument.symbol
        part = due(resting, references, books.now)
        if part <= 0:
            continue
        listing, met = paper_listings()[symbol], _book_name(books.now, references[symbol])
        filled = replace(orders.fill_resting(resting, listing, part), book_met=met)
        books.book_fill(resting, filled, listing)
        store.update_order(connection, _timed(filled, books.now))


def due(resting: Recorded, references: References, now: datetime) -> Decimal:
    """How much of a resting order these prices fill, at this time."""
    order = resting.order
    listing = paper_listings().get(order.instrument.symbol)
    reference = references.get(order.instrument.symbol)
    if listing is None or reference is None or not reference.is_fresh:
        return _ZERO
    if resting.book_met == _book_name(now, reference):
        return _ZERO
    rest = subtract(order.quantity, resting.fills.quantity)
    return crossing(listing, reference.price, order.side, order.limit_price, rest)


def _lock(connection: sa.Connection, order: ResolvedOrder) -> Mapping[str, store.AccountRow]:
    names = {order.account}
    if order.kind is MoveKind.TRANSFER:
        names.add(order.recipient)
    rows = {name: store.lock_account(connection, name) for name in sorted(names)}
    return {name: row for name, row in rows.items() if row is not None}


def _do(
    connection: sa.Connection,
    books: Books,
    rows: Mapping[str, store.AccountRow],
    move: Move,
    arrived: Recorded,
    references: References,
) -> None:
    if move.window.is_early(books.now):
        done = orders.rejected(arrived, DenialReason.CLOCK_SKEW)
    else:
        match move.order.kind:
            case MoveKind.TRADE:
                done = _trade(books, arrived, references)
            case MoveKind.CANCEL:
                done = _cancel_move(connection, books, arrived)
            case MoveKind.TRANSFER:
                done = _transfer(connection, books, rows, arrived)
            case MoveKind.WITHDRAWAL:
                done = _withdraw(books, arrived)
    store.insert_order(connection, _timed(done, books.now))


def _trade(books: Books, arrived: Recorded, references: References) -> Recorded:
    order = arrived.order
    listing = paper_listings().get(order.instrument.symbol)
    reason = orders.refusal(order, listing)
    if books.row.purpose != store.PRIMARY:
        reason = orders.ORDER_UNSUPPORTED
    if listing is None or reason is not None:
        return orders.rejected(arrived, reason or orders.ORDER_UNSUPPORTED)
    reference = references.get(order.instrument.symbol)
    if reference is None or not (reference.is_fresh or order.side is Side.SELL):
        return orders.rejected(arrived, DenialReason.PRICE_UNAVAILABLE)
    is_at_once = order.time_in_force is TimeInForce.IOC
    free = books.free(arrived.placed.spent_asset)
    if is_at_once and free < orders.most_taken(order):
        return orders.rejected(arrived, DenialReason.BALANCE_INSUFFICIENT)
    levels = book_side(listing, reference.price, order.side)
    done = orders.fill_at_once(arrived, listing, levels)
    if free < orders.opened_hold(done):
        return orders.rejected(arrived, DenialReason.BALANCE_INSUFFICIENT)
    books.book_fill(arrived, done, listing)
    return replace(done, book_met=_book_name(books.now, reference))


def _cancel_move(connection: sa.Connection, books: Books, arrived: Recorded) -> Recorded:
    """The cancel itself, in the state that its order is in afterwards."""
    ended = _cancel(connection, books, arrived.order.cancels)
    if ended is None:
        return orders.rejected(arrived, orders.ORDER_NOT_FOUND)
    placed = replace(arrived.placed, state=ended.placed.state, reason=ended.placed.reason)
    return replace(arrived, placed=placed)


def _cancel(connection: sa.Connection, books: Books, client_order_id: str) -> Recorded | None:
    found = store.recorded_order(connection, books.row.account, client_order_id)
    if found is None:
        return None
    _, standing = found
    if not standing.is_open:
        return standing
    ended = orders.cancelled(standing)
    books.hold(standing.placed.spent_asset, subtract(_ZERO, standing.held))
    store.update_order(connection, _timed(ended, books.now))
    return ended


def _transfer(
    connection: sa.Connection,
    books: Books,
    rows: Mapping[str, store.AccountRow],
    arrived: Recorded,
) -> Recorded:
    order, asset = arrived.order, arrived.order.instrument.base
    to = rows.get(order.recipient)
    is_own = to is not None and to.user_id == books.row.user_id and to.account != order.account
    reason = transfer_refusal(order, is_own_recipient=is_own)
    if to is None or reason is not None:
        return orders.rejected(arrived, reason or orders.ORDER_UNSUPPORTED)
    if books.free(asset) < order.quantity:
        return orders.rejected(arrived, DenialReason.BALANCE_INSUFFICIENT)
    trade_id, amount = books.new_trade_id(), order.quantity
    arrival = Books(connection, to, books.now)
    legs = (
        (books, FactKind.TRANSFER_OUT, subtract(_ZERO, amount), to.account),
        (arrival, FactKind.TRANSFER_IN, amount, order.account),
    )
    for leg, kind, change, counterparty in legs:
        leg.book(
            kind,
            {asset: change},
            instrument=asset,
            trade_id=trade_id,
            placed=arrived.placed,
            quantity=amount,
            counterparty=counterparty,
        )
    arrival.write()
    return _moved(arrived, spent=amount, fee=_ZERO)


def _withdraw(books: Books, arrived: Recorded) -> Recorded:
    order, asset = arrived.order, arrived.order.instrument.base
    reason = withdrawal_refusal(order, is_primary=books.row.purpose == store.PRIMARY)
    network = network_of(order)
    if network is None or reason is not None:
        return orders.rejected(arrived, reason or orders.ORDER_UNSUPPORTED)
    spent = add(order.quantity, network.fee)
    if books.free(asset) < spent:
        return orders.rejected(arrived, DenialReason.BALANCE_INSUFFICIENT)
    trade_id = books.new_trade_id()
    parts = ((FactKind.WITHDRAWAL, order.quantity), (FactKind.FEE, network.fee))
    for kind, amount in parts:
        books.book(
            kind,
            {asset: subtract(_ZERO, amount)},
            instrument=asset,
            trade_id=trade_id,
            placed=arrived.placed,
            quantity=amount,
            counterparty=order.recipient if kind is FactKind.WITHDRAWAL else "",
        )
    return _moved(arrived, spent=spent, fee=network.fee)


def _moved(arrived: Recorded, *, spent: Decimal, fee: Decimal) -> Recorded:
    """A transfer or withdrawal that is done; `received` is what its recipient gets."""
    amount = arrived.order.quantity
    placed = replace(
        arrived.placed,
        state=PlacedState.FILLED,
        filled_quantity=amount,
        spent=spent,
        received=amount,
        fee=fee,
    )
    return replace(arrived, placed=placed)


def _timed(recorded: Recorded, now: datetime) -> Recorded:
    return recorded if recorded.is_open else replace(recorded, end_time=now)


def _book_name(now: datetime, reference: Reference) -> str:
    return f"{int(now.timestamp()) // _BOOK_SECONDS}|{canonical(reference.price)}"


def _not_found(client_order_id: str) -> ToolFailed:
    return ToolFailed(orders.ORDER_NOT_FOUND, f"there is no order {client_order_id[:64]!r}")
