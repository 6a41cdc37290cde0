"""The address book: recipients by user; every change with its audit row, in one commit."""

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from minara_core.audit import AuditRecord
from minara_core.errors import NotFound
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_runtime.statements import database_time, insert_if_absent, lock_row
from minara_tools.adapters.sql_limit_tables import ADDRESSES, FUND_LIMITS
from minara_tools.adapters.sql_limits import Now, first_limits
from minara_tools.app.limit_store import NewAddress
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.lookalikes import known_entry, spelled

_BOOK = sa.select(ADDRESSES).where(
    ADDRESSES.c.user_id == sa.bindparam("of_user"), sa.not_(ADDRESSES.c.is_removed)
)
_ONE = sa.select(ADDRESSES).where(
    ADDRESSES.c.user_id == sa.bindparam("of_user"), ADDRESSES.c.address_id == sa.bindparam("of_id")
)
_INSERT = sa.insert(ADDRESSES)
_REMOVE = (
    sa.update(ADDRESSES)
    .where(ADDRESSES.c.address_id == sa.bindparam("of_id"))
    .values(is_removed=True, update_time=sa.bindparam("now"))
)
_USE = (
    sa.update(ADDRESSES)
    .where(
        ADDRESSES.c.user_id == sa.bindparam("of_user"),
        ADDRESSES.c.chain == sa.bindparam("of_chain"),
        ADDRESSES.c.spelling == sa.bindparam("of_spelling"),
        ADDRESSES.c.memo == sa.bindparam("of_memo"),
        sa.not_(ADDRESSES.c.is_removed),
    )
    .values(is_used=True, update_time=sa.bindparam("now"))
)
# Whoever adds holds the row of the user's limits, so that two additions see each other.
_USER = sa.select(FUND_LIMITS.c.user_id).where(FUND_LIMITS.c.user_id == sa.bindparam("of_user"))


def addresses_of(connection: sa.Connection, user_id: str) -> tuple[AddressEntry, ...]:
    """A user's recipients, by name."""
    rows = connection.execute(_BOOK, {"of_user": user_id}).all()
    # In Python: the databases sort text by different rules.
    return tuple(sorted(map(_entry, rows), key=lambda one: (one.name, one.address_id)))


def mark_used(
    connection: sa.Connection, user_id: str, *, chain: str, address: str, memo: str, now: datetime
) -> bool:
    """Note that something arrived at a recipient; whether they are in the book."""
    done = connection.execute(
        _USE,
        {
            "of_user": user_id,
            "of_chain": chain,
            "of_spelling": spelled(address),
            "of_memo": memo,
            "now": now,
        },
    )
    return done.rowcount > 0


class SqlAddresses:
    """Implements AddressBook."""

    def __init__(self, database: Database, now: Now = database_time) -> None:
        self._database = database
        self._now = now

    async def page(self, user_id: UserId) -> tuple[AddressEntry, ...]:
        return await self._database.read(lambda c: addresses_of(c, user_id))

    async def add(
        self,
        user_id: UserId,
        new: NewAddress,
        check: Callable[[tuple[AddressEntry, ...]], None],
        audit: Callable[[AddressEntry], AuditRecord],
    ) -> AddressEntry:
        def write(connection: sa.Connection) -> AddressEntry:
            insert_if_absent(connection, FUND_LIMITS, first_limits(user_id))
            lock_row(connection, _USER, {"of_user": user_id})
            entries = addresses_of(connection, user_id)
            known = known_entry(entries, new.chain, new.address, new.memo)
            if known is not None:
                return known
            check(entries)
            now = self._now(connection)
            entry = AddressEntry(
                address_id=new.address_id,
                name=new.name,
                chain=new.chain,
                address=new.address,
                memo=new.memo,
                create_time=now,
            )
            connection.execute(_INSERT, _row(user_id, entry))
            audit_chain.append(connection, [audit(entry)])
            return entry

        return await self._database.transaction(write)

    async def remove(
        self, user_id: UserId, address_id: str, audit: Callable[[datetime], AuditRecord]
    ) -> None:
        def write(connection: sa.Connection) -> None:
            row = lock_row(connection, _ONE, {"of_user": user_id, "of_id": address_id})
            if row is None:
                raise NotFound(
                    "no such entry of your address book", reason=ErrorReason.ADDRESS_NOT_FOUND
                )
            if row.is_removed:
                return
            now = self._now(connection)
            connection.execute(_REMOVE, {"of_id": address_id, "now": now})
            audit_chain.append(connection, [audit(now)])

        await self._database.transaction(write)


def _row(user_id: str, entry: AddressEntry) -> dict[str, object]:
    return {
        "address_id": entry.address_id,
        "user_id": user_id,
        "name": entry.name,
        "chain": entry.chain,
        "address": entry.address,
        "spelling": spelled(entry.address),
        "memo": entry.memo,
        "is_used": entry.used,
        "is_removed": False,
        "create_time": entry.create_time,
        "update_time": entry.create_time,
    }


def _entry(row: sa.Row[*tuple[object, ...]]) -> AddressEntry:
    return AddressEntry(
        address_id=row.address_id,
        name=row.name,
        chain=row.chain,
        address=row.address,
        memo=row.memo,
        create_time=row.create_time,
        used=row.is_used,
    )
