"""The address book: recipients that a person entered, usable after a day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

USABLE_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressEntry:
    """A recipient of a person's. `used` when something was sent there before."""

    address_id: str
    name: str
    chain: str
    address: str
    memo: str
    create_time: datetime
    used: bool = False

    @property
    def usable_time(self) -> datetime:
        """From when on something may be sent there."""
        return self.create_time + USABLE_AFTER


def is_usable(entry: AddressEntry, now: datetime) -> bool:
    """Whether its first day is over; an entry that was used before is usable at once."""
    return entry.used or now >= entry.usable_time


def known_addresses(entries: Iterable[AddressEntry]) -> tuple[str, ...]:
    """What a look-alike could be made to look like."""
    return tuple(entry.address for entry in entries)
