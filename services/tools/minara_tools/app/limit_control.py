"""Limits and recipients as a person sets them; every change is audited."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import InvalidRequest, LimitExceeded
from minara_core.ids import IdSource, UserId
from minara_core.money import canonical
from minara_core.reasons import ErrorReason
from minara_core.tooling import dump_json
from minara_tools.app.limit_store import AddressBook, LimitStore, NewAddress
from minara_tools.app.observing import Tracing
from minara_tools.app.ports import Venue
from minara_tools.domain.address_formats import is_address
from minara_tools.domain.addresses import AddressEntry, known_addresses
from minara_tools.domain.limits import (
    PRESETS,
    LimitsRecord,
    parse_changes,
    values_of,
)
from minara_tools.domain.lookalikes import lookalike_of

MOST_ADDRESSES = 200
LONGEST_NAME = 60
LONGEST_MEMO = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitControl:
    limits: LimitStore
    addresses: AddressBook
    venue: Venue
    ids: IdSource
    tracing: Tracing

    async def current(self, user_id: UserId) -> LimitsRecord:
        return await self.limits.find(user_id)

    async def update(
        self, user_id: UserId, *, preset: str, values: Mapping[str, str]
    ) -> LimitsRecord:
        """Raises InvalidRequest (REQUEST_INVALID, AMOUNT_INVALID, LIMIT_INVALID); nothing is
        changed then."""
        wanted = _preset(preset) | dict(parse_changes(values))
        if not wanted:
            raise InvalidRequest("say which limit", reason=ErrorReason.FIELD_REQUIRED)

        def audit(before: LimitsRecord, after: LimitsRecord, now: datetime) -> AuditRecord:
            return self._record(
                user_id, "limits", "changed", now, _described(before, after, wanted)
            )

        return await self.limits.update(user_id, wanted, audit)

    async def book(self, user_id: UserId) -> tuple[AddressEntry, ...]:
        return await self.addresses.page(user_id)

    async def add_address(
        self, user_id: UserId, *, name: str, chain: str, address: str, memo: str
    ) -> AddressEntry:
        """The entry, new or already there. Raises InvalidRequest (REQUEST_INVALID,
        ADDRESS_INVALID, ADDRESS_LOOKALIKE), LimitExceeded when the book is full."""
        new = NewAddress(
            address_id=self.ids.new(),
            name=_short(name, "name", LONGEST_NAME),
            chain=chain.strip(),
            address=address.strip(),
            memo=_short(memo, "memo", LONGEST_MEMO, may_be_empty=True),
        )
        await self._check_format(new)

        def audit(entry: AddressEntry) -> AuditRecord:
            facts = {"chain": entry.chain, "address": entry.address, "memo": entry.memo}
            return self._record(user_id, "addresses", "added", entry.create_time, facts)

        return await self.addresses.add(user_id, new, lambda known: _check_new(new, known), audit)

    async def remove_address(self, user_id: UserId, address_id: str) -> None:
        """Raises NotFound (ADDRESS_NOT_FOUND)."""

        def audit(now: datetime) -> AuditRecord:
            return self._record(user_id, "addresses", "removed", now, {"address_id": address_id})

        await self.addresses.remove(user_id, address_id, audit)

    async def _check_format(self, new: NewAddress) -> None:
        formats = {one.chain: one.address_format for one in await self.venue.networks()}
        if new.chain not in formats:
            raise InvalidRequest(
                f"the venue knows no such chain; there are {', '.join(sorted(formats))}",
                reason=ErrorReason.ADDRESS_INVALID,
                metadata={"field": "chain"},
            )
        if not is_address(formats[new.chain], new.address):
            raise InvalidRequest(
                f"this is no address of {new.chain}; a character may be wrong",
                reason=ErrorReason.ADDRESS_INVALID,
                metadata={"field": "address"},
            )

    def _record(
        self,
        user_id: UserId,
        subject: str,
        outcome: str,
        now: datetime,
        payload: Mapping[str, object],
    ) -> AuditRecord:
        return AuditRecord(
            user_id=user_id,
            kind=AuditKind.STATE_CHANGE,
            time=now,
            subject=subject,
            outcome=outcome,
            trace_id=self.tracing.trace_id(),
            payload_json=dump_json(dict(payload)),
        )


def _preset(name: str) -> dict[str, Decimal]:
    if not name:
        return {}
    if name not in PRESETS:
        raise InvalidRequest(
            f"no preset {name[:40]!r}; there are {', '.join(sorted(PRESETS))}",
            metadata={"field": "preset"},
        )
    return dict(values_of(PRESETS[name]))


def _described(
    before: LimitsRecord, after: LimitsRecord, wanted: Mapping[str, Decimal]
) -> dict[str, object]:
    old, new = values_of(before.limits), values_of(after.limits)
    return {
        "before": {name: canonical(old[name]) for name in sorted(wanted)},
        "after": {name: canonical(new[name]) for name in sorted(wanted)},
        "raises": {
            one.limit: [canonical(one.value), one.effective_time.isoformat()]
            for one in after.raises
        },
    }


def _check_new(new: NewAddress, known: tuple[AddressEntry, ...]) -> None:
    if len(known) >= MOST_ADDRESSES:
        raise LimitExceeded(f"an address book has {MOST_ADDRESSES} entries at most")
    alike = lookalike_of(new.address, known_addresses(known))
    if alike is not None:
        raise InvalidRequest(
            "this address only looks like one of your book; compare every character",
            reason=ErrorReason.ADDRESS_LOOKALIKE,
            metadata={"known": alike},
        )


def _short(text: str, field: str, longest: int, *, may_be_empty: bool = False) -> str:
    """Raises InvalidRequest for text that is empty, too long, or not printable."""
    plain = text.strip()
    if len(plain) > longest or not plain.isprintable() or not (plain or may_be_empty):
        raise InvalidRequest(
            f"{field} has 1 to {longest} printable characters", metadata={"field": field}
        )
    return plain
