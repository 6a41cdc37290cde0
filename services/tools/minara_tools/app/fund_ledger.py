"""The fund ledger as a port: money transactions of one person, one after another.

Every money transaction first locks the person's one row and makes all checks that read other rows
behind it: balances, holds, caps, one execution per action, trading state. Caps are a person's, so
the lock is the person's and not one account's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from minara_core.actions import PendingAction
from minara_core.audit import AuditRecord
from minara_core.ids import PendingActionId, UserId
from minara_tools.app.stores import TierEvent
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.ledger_alarms import Alarm
from minara_tools.domain.limits import Limits
from minara_tools.domain.operations import Operation
from minara_tools.domain.postings import LedgerAccount, Posting
from minara_tools.domain.trading import TradingStanding
from minara_tools.domain.venue_terms import VenueFact

BookKey = tuple[LedgerAccount, str]
"""A ledger account and an asset, of one venue account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStanding:
    """A person's money as the books have it. `time` is the database's clock, `latest_time` that of
    the last money transaction; `balances` are those of the one account asked for; `operations` are
    all that are not final and all of the last 24 h; `pending` are the open previews. `is_open` when
    the account's books are."""

    time: datetime
    user_id: UserId
    venue: str
    account: str
    is_open: bool
    balances: Mapping[BookKey, Decimal]
    operations: tuple[Operation, ...]
    pending: tuple[PendingAction, ...]
    trading: TradingStanding
    limits: Limits
    addresses: tuple[AddressEntry, ...]
    pair_locks: Mapping[str, datetime]
    latest_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedMove:
    """An action, its operation if it has one, and the standing, all under the lock. `alarms` are
    what the facts booked in this transaction gave cause for."""

    action: PendingAction
    operation: Operation | None
    standing: LedgerStanding
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyChange:
    """What a step makes of a move; what is None stays as it is."""

    action: PendingAction | None = None
    operation: Operation | None = None
    postings: tuple[Posting, ...] = ()
    audits: tuple[AuditRecord, ...] = ()
    tier_event: TierEvent | None = None


MoneyStep = Callable[[LockedMove], MoneyChange]
"""Pure; called again from the start when a transaction has to be repeated."""

AlarmRecord = Callable[[Alarm, UserId], AuditRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class FundAccount:
    """An account whose books are open. Facts until `facts_time` are booked; `differences` is what
    the last reconciliation found (asset to amount), to be found again before it counts."""

    user_id: UserId
    venue: str
    account: str
    open_time: datetime
    facts_time: datetime
    differences: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What reconciliation saw: the venue's totals by asset, read while nothing was in flight."""

    venue: str
    account: str
    totals: Mapping[str, Decimal]
    time: datetime


class FundLedger(Protocol):
    async def begin(self) -> str:
        """Once, before anything else: why these books count as restored or copied, or nothing."""
        ...

    async def adopt(self) -> bool:
        """These books are the right ones from now on: a person has looked at them. False when they
        are not in doubt, or another replica has adopted them."""
        ...

    async def begin_time_anew(self) -> None:
        """The clock is right: what was noted of a time that has not come yet counts no more."""
        ...

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
        """Open the account's books with what the venue says it holds; open ones stay as they are.

        `included` are the facts from `since` on that the balances hold already: they, and all older
        ones, are never booked. Raises NotPermitted when the account is another person's.
        """
        ...

    async def standing(self, user_id: UserId, venue: str, account: str) -> LedgerStanding:
        """What the books say now, without a lock."""
        ...

    async def change(
        self,
        user_id: UserId,
        action_id: PendingActionId,
        step: MoneyStep,
        *,
        facts: Sequence[VenueFact] = (),
    ) -> LockedMove:
        """Lock, book the facts, ask `step`, write, commit to disk; the move as it is then.

        Raises NotFound (ACTION_NOT_FOUND) and what `step` raises; then nothing is written.
        """
        ...

    async def book(
        self,
        user_id: UserId,
        venue: str,
        facts: Sequence[VenueFact],
        *,
        read: tuple[str, datetime] | None = None,
    ) -> tuple[Alarm, ...]:
        """Book what is not booked yet, of any account of the person; repeating it changes nothing.
        `read` says of which account these are all the facts until when."""
        ...

    async def has_unbooked(self, account: FundAccount, facts: Sequence[VenueFact]) -> bool:
        """Whether one of these facts of the account is not booked yet."""
        ...

    async def accounts(self, venue: str, user_id: UserId | None = None) -> tuple[FundAccount, ...]:
        """The accounts whose books are open."""
        ...

    async def unsettled(self, venue: str, user_id: UserId | None = None) -> tuple[Operation, ...]:
        """All operations of a person, or of everybody, that are not final, oldest first: those this
        process sends now are the caller's to leave out."""
        ...

    async def is_alive(self, sender: str) -> bool:
        """Whether the process that placed a hold still holds its lease."""
        ...

    async def reconcile(self, user_id: UserId, seen: Difference) -> tuple[Alarm, ...]:
        """Compare the books with what the venue says. A difference that is found twice, with the
        same amounts, goes to suspense. Does nothing while an operation is in flight."""
        ...
