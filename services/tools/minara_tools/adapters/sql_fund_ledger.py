"""The fund ledger on SQLite and PostgreSQL. Locks in one order: the person's money, their trading
state, the action, the operation."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import sqlalchemy as sa

from minara_core.actions import ActionState
from minara_core.errors import NotFound
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import ErrorReason
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_runtime.process_lease import lives
from minara_runtime.statements import one_of
from minara_tools.adapters.sql_action_rows import (
    insert_event,
    load_actions,
    move_on,
)
from minara_tools.adapters.sql_addresses import addresses_of, mark_used
from minara_tools.adapters.sql_fund_accounts import (
    account_of,
    accounts_of,
    facts_are_booked,
    note_differences,
    open_books,
)
from minara_tools.adapters.sql_fund_booking import FactBooking
from minara_tools.adapters.sql_fund_locks import (
    forget_the_future,
    latest_move,
    lock_funds,
    touch_funds,
)
from minara_tools.adapters.sql_fund_rows import (
    balances_of,
    book_posting,
    is_booked,
    operation_from,
    operation_of,
    write_operation,
)
from minara_tools.adapters.sql_fund_tables import OPERATIONS
from minara_tools.adapters.sql_limits import limits_of, pair_locks_of
from minara_tools.adapters.sql_money_counter import Counted, MoneyCounter
from minara_tools.adapters.sql_tables import PENDING_ACTIONS
from minara_tools.adapters.sql_trading import (
    HasHaltFile,
    held_trading_standing,
    trading_standing,
)
from minara_tools.app.fund_ledger import (
    AlarmRecord,
    Difference,
    FundAccount,
    LedgerStanding,
    LockedMove,
    MoneyChange,
    MoneyStep,
)
from minara_tools.domain import ledger_alarms, postings
from minara_tools.domain.ledger_alarms import Alarm
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.trading import TradingStanding
from minara_tools.domain.venue_terms import VenueFact

T = TypeVar("T")

CAPS_LOOK_BACK = timedelta(hours=24)
_PAGE = 500

_ACTION = (
    sa.select(PENDING_ACTIONS)
    .where(
        PENDING_ACTIONS.c.pending_action_id == sa.bindparam("action"),
        PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
    )
    .with_for_update()
)
_PENDING = sa.select(PENDING_ACTIONS).where(
    PENDING_ACTIONS.c.user_id == sa.bindparam("person"),
    PENDING_ACTIONS.c.state == ActionState.PENDING.value,
    PENDING_ACTIONS.c.expire_time > sa.bindparam("now"),
)
_NOT_FINAL = tuple(state.value for state in OperationState if not state.is_final)
_RELEVANT = (
    sa.select(OPERATIONS)
    .where(
        OPERATIONS.c.user_id == sa.bindparam("person"),
        sa.or_(
            one_of(OPERATIONS.c.state, _NOT_FINAL),
            OPERATIONS.c.create_time >= sa.bindparam("since"),
        ),
    )
    .order_by(OPERATIONS.c.position)
)
_UNSETTLED = (
    sa.select(OPERATIONS)
    .where(
        one_of(OPERATIONS.c.state, _NOT_FINAL),
        OPERATIONS.c.venue == sa.bindparam("at_venue"),
        OPERATIONS.c.position > sa.bindparam("after"),
    )
    .order_by(OPERATIONS.c.position)
    .limit(_PAGE)
)
_UNSETTLED_OF = _UNSETTLED.where(OPERATIONS.c.user_id == sa.bindparam("person"))


class SqlFundLedger:
    """Implements FundLedger. `time_of` is the clock of money: the database's, or a test's."""

    def __init__(
        self,
        database: Database,
        has_halt_file: HasHaltFile,
        counter: MoneyCounter,
        *,
        time_of: Callable[[sa.Connection], datetime],
        alarm_record: AlarmRecord,
    ) -> None:
        self._database = database
        self._has_halt_file = has_halt_file
        self._counter = counter
        self._time_of = time_of
        self._booking = FactBooking(alarm_record)

    async def begin(self) -> str:
        return await self._database.transaction(self._counter.begin)

    async def adopt(self) -> bool:
        return await self._database.transaction(self._counter.adopt)

    async def begin_time_anew(self) -> None:
        await self._database.transaction(lambda c: forget_the_future(c, self._time_of(c)))

    async def open_account(
        self,
        user_id: UserId,
        venue: str,
        account: str,
        *,
        balances: Mapping[str, Decimal],
        included: Sequence[VenueFact],
        since: datetime,
        now: datetime,
    ) -> None:
        new = FundAccount(
            user_id=user_id,
            venue=venue,
            account=account,
            open_time=since,
            facts_time=max([since, *(fact.time for fact in included)]),
            differences={},
        )

        def write(connection: sa.Connection) -> None:
            self._lock(connection, user_id)
            open_books(connection, new, balances=balances, included=included, now=now)

        await self._money(write)

    async def standing(self, user_id: UserId, venue: str, account: str) -> LedgerStanding:
        def look(connection: sa.Connection) -> LedgerStanding:
            trading = trading_standing(connection, user_id, self._has_halt_file)
            latest = latest_move(connection, user_id)
            return self._standing(connection, user_id, venue, account, trading, latest)

        return await self._database.read(look)

    async def change(
        self,
        user_id: UserId,
        action_id: PendingActionId,
        step: MoneyStep,
        *,
        facts: Sequence[VenueFact] = (),
    ) -> LockedMove:
        def write(connection: sa.Connection) -> LockedMove:
            latest = self._lock(connection, user_id)
            trading = held_trading_standing(connection, user_id, self._has_halt_file)
            rows = connection.execute(_ACTION, {"action": action_id, "person": user_id}).mappings()
            found = rows.all()
            if not found:
                raise NotFound("no such action", reason=ErrorReason.ACTION_NOT_FOUND)
            (action,) = load_actions(connection, found)
            order = action.order
            now = self._time_of(connection)
            alarms = self._booking.book(connection, user_id, order.venue, facts, now)
            move = LockedMove(
                action=action,
                operation=operation_of(connection, action_id),
                standing=self._standing(
                    connection, user_id, order.venue, order.account, trading, latest
                ),
                alarms=alarms,
            )
            return self._write(connection, move, step(move))

        return await self._money(write)

    async def book(
        self,
        user_id: UserId,
        venue: str,
        facts: Sequence[VenueFact],
        *,
        read: tuple[str, datetime] | None = None,
    ) -> tuple[Alarm, ...]:
        def write(connection: sa.Connection) -> tuple[Alarm, ...]:
            self._lock(connection, user_id)
            held_trading_standing(connection, user_id, self._has_halt_file)
            alarms = self._booking.book(
                connection, user_id, venue, facts, self._time_of(connection)
            )
            if read is not None:
                facts_are_booked(connection, venue, *read)
            return alarms

        return await self._money(write)

    async def has_unbooked(self, account: FundAccount, facts: Sequence[VenueFact]) -> bool:
        relevant = [fact for fact in facts if fact.time >= account.open_time]

        def look(connection: sa.Connection) -> bool:
            return any(not is_booked(connection, account.venue, fact) for fact in relevant)

        return await self._database.read(look)

    async def accounts(self, venue: str, user_id: UserId | None = None) -> tuple[FundAccount, ...]:
        return await self._database.read(lambda c: accounts_of(c, venue, user_id))

    async def unsettled(self, venue: str, user_id: UserId | None = None) -> tuple[Operation, ...]:
        parameters: dict[str, object] = {"at_venue": venue, "after": 0}
        statement = _UNSETTLED
        if user_id is not None:
            statement, parameters["person"] = _UNSETTLED_OF, user_id

        def look(connection: sa.Connection) -> tuple[list[Operation], int]:
            rows = connection.execute(statement, parameters).mappings().all()
            last = rows[-1]["position"] if len(rows) == _PAGE else 0
            return [operation_from(row) for row in rows], last

        found: list[Operation] = []
        while True:
            page, last = await self._database.read(look)
            found += page
            if not last:
                return tuple(found)
            parameters["after"] = last

    async def is_alive(self, sender: str) -> bool:
        statement = sa.select(lives(sa.literal(sender)))
        return await self._database.read(lambda c: bool(c.execute(statement).scalar_one()))

    async def reconcile(self, user_id: UserId, seen: Difference) -> tuple[Alarm, ...]:
        def write(connection: sa.Connection) -> tuple[Alarm, ...]:
            self._lock(connection, user_id)
            held_trading_standing(connection, user_id, self._has_halt_file)
            now = self._time_of(connection)
            if self._is_in_flight(connection, user_id, seen.account, now):
                return ()
            ours = balances_of(connection, seen.venue, seen.account)
            found = postings.differences(ours, seen.totals)
            before = account_of(connection, seen.venue, seen.account)
            is_confirmed = bool(found) and before is not None and found == before.differences
            note_differences(connection, seen, {} if is_confirmed else found, now)
            if not is_confirmed:
                return ()
            posting = postings.difference(
                seen.venue, seen.account, found, now, number=now.isoformat()
            )
            book_posting(connection, user_id, posting, now)
            alarm = ledger_alarms.unexplained(seen.venue, seen.account, found)
            self._booking.raise_alarms(connection, user_id, (alarm,), now)
            return (alarm,)

        return await self._money(write)

    async def _money(self, write: Callable[[sa.Connection], T]) -> T:
        """Run a money transaction, and have the counter outside the database follow it."""

        def counted(connection: sa.Connection) -> tuple[T, Counted]:
            made = write(connection)
            return made, self._counter.next(connection)

        made, reached = await self._database.transaction(counted)
        await asyncio.to_thread(self._counter.follow, reached)
        return made

    def _lock(self, connection: sa.Connection, user_id: UserId) -> datetime | None:
        """Lock the person's money; when it was last moved."""
        latest = lock_funds(connection, user_id)
        now = self._time_of(connection)
        touch_funds(connection, user_id, now if latest is None else max(now, latest))
        return latest

    def _standing(
        self,
        connection: sa.Connection,
        user_id: UserId,
        venue: str,
        account: str,
        trading: TradingStanding,
        latest: datetime | None,
    ) -> LedgerStanding:
        now = self._time_of(connection)
        since = {"person": user_id, "since": now - CAPS_LOOK_BACK}
        pending = connection.execute(_PENDING, {"person": user_id, "now": now}).mappings().all()
        return LedgerStanding(
            time=now,
            user_id=user_id,
            venue=venue,
            account=account,
            is_open=account_of(connection, venue, account) is not None,
            balances=balances_of(connection, venue, account),
            operations=tuple(
                operation_from(row) for row in connection.execute(_RELEVANT, since).mappings()
            ),
            pending=load_actions(connection, pending),
            trading=trading,
            limits=limits_of(connection, user_id, now),
            addresses=addresses_of(connection, user_id),
            pair_locks=pair_locks_of(connection, user_id, venue),
            latest_time=latest,
        )

    def _write(
        self, connection: sa.Connection, move: LockedMove, change: MoneyChange
    ) -> LockedMove:
        now = move.standing.time
        user_id = move.action.user_id
        if change.operation is not None:
            write_operation(connection, change.operation)
            if change.operation.has_left:
                _mark_recipient(connection, change.operation, now)
        for posting in change.postings:
            book_posting(connection, user_id, posting, now)
        if change.action is not None:
            move_on(connection, change.action, now=now)
        audit_chain.append(connection, change.audits)
        if change.tier_event is not None:
            insert_event(connection, change.tier_event)
        return LockedMove(
            action=change.action or move.action,
            operation=change.operation or move.operation,
            standing=move.standing,
            alarms=move.alarms,
        )

    def _is_in_flight(
        self, connection: sa.Connection, user_id: UserId, account: str, now: datetime
    ) -> bool:
        rows = connection.execute(_RELEVANT, {"person": user_id, "since": now}).mappings()
        operations = [operation_from(row) for row in rows]
        return any(
            one.state.is_in_flight and account in {one.order.account, one.order.recipient}
            for one in operations
        )


def _mark_recipient(connection: sa.Connection, operation: Operation, now: datetime) -> None:
    order = operation.order
    chain, address, memo = order.instrument.chain, order.recipient, order.memo
    mark_used(connection, operation.user_id, chain=chain, address=address, memo=memo, now=now)
