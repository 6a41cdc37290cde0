"""Facts are booked first and judged afterwards, inside somebody's money transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from minara_core.ids import UserId
from minara_runtime import audit as audit_chain
from minara_tools.adapters.sql_fund_accounts import account_of
from minara_tools.adapters.sql_fund_rows import (
    balances_of,
    book_posting,
    operations_of_facts,
    write_operation,
)
from minara_tools.adapters.sql_trading import tighten
from minara_tools.app.fund_ledger import AlarmRecord
from minara_tools.domain import ledger_alarms, postings
from minara_tools.domain.ledger_alarms import Alarm
from minara_tools.domain.operations import Operation
from minara_tools.domain.venue_terms import VenueFact


@dataclass(frozen=True, slots=True)
class FactBooking:
    alarm_record: AlarmRecord

    def book(
        self,
        connection: sa.Connection,
        user_id: UserId,
        venue: str,
        facts: Sequence[VenueFact],
        now: datetime,
    ) -> tuple[Alarm, ...]:
        """Book what is not booked yet; what it gives cause for is written and returned."""
        operations = operations_of_facts(connection, user_id, venue, facts)
        alarms: list[Alarm] = []
        touched: set[str] = set()
        for fact in sorted(facts, key=lambda one: one.time):
            books = account_of(connection, venue, fact.account)
            if books is None or fact.time < books.open_time:
                continue
            before = operations.get(fact.client_order_id)
            booked = postings.of_fact(venue, fact, before)
            if not book_posting(connection, user_id, booked.posting, now):
                continue
            touched.add(fact.account)
            self._keep(connection, operations, booked.operation)
            alarm = ledger_alarms.of_booking(booked, before)
            alarms += [alarm] if alarm else []
        for account in sorted(touched):
            short = ledger_alarms.overdrawn(venue, account, balances_of(connection, venue, account))
            alarms += [short] if short else []
        self.raise_alarms(connection, user_id, alarms, now)
        return tuple(alarms)

    def raise_alarms(
        self, connection: sa.Connection, user_id: UserId, alarms: Sequence[Alarm], now: datetime
    ) -> None:
        """Make the person's trading state as strict as the alarms say, with an audit row each."""
        for alarm in alarms:
            tighten(connection, user_id, alarm.state, alarm.reason, now=now)
            audit_chain.append(connection, [self.alarm_record(alarm, user_id)])

    @staticmethod
    def _keep(
        connection: sa.Connection, operations: dict[str, Operation], after: Operation | None
    ) -> None:
        if after is not None:
            operations[after.client_order_id] = after
            write_operation(connection, after)
