"""What is left after a run, read from the venue and from the tools database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.actions import ActionState, PendingAction
from minara_core.money import add
from minara_runtime.audit_report import AuditReport
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_tools.adapters.sql_ledger_check import read_books
from minara_tools.adapters.sql_tables import TIER_EVENTS, TRADING_STATES
from minara_tools.domain.ledger_check import Books
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.postings import OWNED

_IN_FLIGHT = frozenset(
    {
        OperationState.INTENT,
        OperationState.HELD,
        OperationState.SENT,
        OperationState.UNCERTAIN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueOrder:
    """An order as the venue's own list has it."""

    client_order_id: str
    kind: str
    state: str
    filled_quantity: Decimal
    spent: Decimal
    received: Decimal

    @property
    def is_open(self) -> bool:
        return self.state == "open"


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that left: the process that sent it, its client id, and until when the venue takes
    it, in its own words."""

    sender: str
    client_order_id: str
    not_after: datetime

    @staticmethod
    def read(line: str) -> "Sent":
        sender, client_order_id, until = line.split()
        return Sent(sender, client_order_id, datetime.fromisoformat(until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the tools database says. `audits` and `events` are (action, state) of all rows."""

    books: Books
    audits: frozenset[tuple[str, str]]
    events: frozenset[tuple[str, str]]
    halts: tuple[str, ...]

    def owned(self) -> dict[str, Decimal]:
        """What the books say the accounts hold at the venue, by asset."""
        sums: dict[str, Decimal] = {}
        for (_, _, book, asset), amount in self.books.balances.items():
            if book in OWNED:
                sums[asset] = add(sums.get(asset, Decimal(0)), amount)
        return {asset: amount for asset, amount in sums.items() if amount}

    def operation_of(self, action_id: str) -> Operation | None:
        found = [one for one in self.books.operations if one.operation_id == action_id]
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run's remains. `actions` are those a person said yes to; `answers` what they were told,
    by action; `sends` each request that left; `voids` when a void operation was
    first seen, on a clock that nobody moved alone."""

    actions: tuple[PendingAction, ...]
    orders: tuple[VenueOrder, ...]
    balances: Mapping[str, Decimal]
    recorded: Recorded
    sends: tuple[Sent, ...]
    voids: Mapping[str, datetime]
    answers: Mapping[str, Sequence[PendingAction]]
    audit: AuditReport
    notes: tuple[str, ...] = field(default=())


def read_recorded(connection: sa.Connection) -> Recorded:
    audits = connection.execute(sa.select(AUDIT_RECORDS.c.subject, AUDIT_RECORDS.c.outcome))
    events = connection.execute(sa.select(TIER_EVENTS.c.pending_action_id, TIER_EVENTS.c.event))
    halts = connection.execute(sa.select(TRADING_STATES.c.state, TRADING_STATES.c.reason))
    return Recorded(
        books=read_books(connection),
        audits=frozenset((row.subject, row.outcome) for row in audits),
        events=frozenset((row.pending_action_id, row.event) for row in events),
        halts=tuple(f"{row.state}: {row.reason}" for row in halts if row.state != "active"),
    )


def unsettled(recorded: Recorded, orders: Sequence[VenueOrder]) -> list[str]:
    """What is not over, though the venue has said all it has to say."""
    resting = {one.client_order_id for one in orders if one.is_open}
    left: list[str] = []
    for one in recorded.books.operations:
        is_behind = one.state is OperationState.OPEN and one.client_order_id not in resting
        if one.state in _IN_FLIGHT or is_behind:
            left.append(f"operation {one.operation_id} is {one.state.value}")
    for action_id, state in recorded.books.actions.items():
        if state in {ActionState.CONFIRMED, ActionState.EXECUTING, ActionState.UNCERTAIN}:
            left.append(f"action {action_id} is {state.value}")
    return left
