"""What a person allows themselves, as ports: limits, recipients, mandates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from minara_core.audit import AuditRecord
from minara_core.ids import UserId
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.limits import LimitsRecord
from minara_tools.domain.mandates import Mandate


class LimitStore(Protocol):
    """Times are the database's clock."""

    async def find(self, user_id: UserId) -> LimitsRecord:
        """The limits now: raises whose time has come are in effect. The standard ones, not chosen,
        for a user who never chose."""
        ...

    async def update(
        self,
        user_id: UserId,
        wanted: Mapping[str, Decimal],
        audit: Callable[[LimitsRecord, LimitsRecord, datetime], AuditRecord],
    ) -> LimitsRecord:
        """Lock, change as `limits.changed` says, audit (before, after, time), in one commit. A
        request that changes nothing writes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAddress:
    """A recipient as a person entered it, checked."""

    address_id: str
    name: str
    chain: str
    address: str
    memo: str


class AddressBook(Protocol):
    """Times are the database's clock."""

    async def page(self, user_id: UserId) -> tuple[AddressEntry, ...]:
        """All entries that were not removed, by name."""
        ...

    async def add(
        self,
        user_id: UserId,
        new: NewAddress,
        check: Callable[[tuple[AddressEntry, ...]], None],
        audit: Callable[[AddressEntry], AuditRecord],
    ) -> AddressEntry:
        """Store it, or answer the entry of the same recipient. `check` sees the entries there are,
        under the user's lock; what it raises leaves, and nothing is stored."""
        ...

    async def remove(
        self, user_id: UserId, address_id: str, audit: Callable[[datetime], AuditRecord]
    ) -> None:
        """Take it out; again is the same. Raises NotFound (ADDRESS_NOT_FOUND) for one that never
        was this user's."""
        ...


class MandateStore(Protocol):
    """Mandates a person confirmed, and when they were taken back."""

    async def add(self, mandate: Mandate, audit: AuditRecord) -> None:
        """Store it and its audit row in one commit; the same mandate again changes nothing."""
        ...

    async def find(self, user_id: UserId, mandate_id: str) -> Mandate | None: ...

    async def in_force(self, user_id: UserId, now: datetime) -> tuple[Mandate, ...]:
        """Those neither over nor revoked, oldest first."""
        ...

    async def revoke(
        self,
        user_id: UserId,
        reason: str,
        audit: Callable[[Mandate, datetime], AuditRecord],
        *,
        mandate_id: str | None = None,
    ) -> tuple[str, ...]:
        """Take back one mandate, or all of the user's; the ids of those it took back."""
        ...
