"""Reads the audit chains of a database and names the first bad row of each user."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

import sqlalchemy as sa

from minara_runtime.audit_chain import GENESIS, payload_hash, record_hash
from minara_runtime.audit_tables import AUDIT_HEADS, AUDIT_PAYLOADS, AUDIT_RECORDS

_PAGE = 1_000

_USERS = sa.union(sa.select(AUDIT_HEADS.c.user_id), sa.select(AUDIT_RECORDS.c.user_id))
_HEAD = sa.select(AUDIT_HEADS.c.sequence, AUDIT_HEADS.c.record_hash).where(
    AUDIT_HEADS.c.user_id == sa.bindparam("of_user")
)
_ROWS = (
    sa.select(AUDIT_RECORDS, AUDIT_PAYLOADS.c.salt, AUDIT_PAYLOADS.c.payload_json)
    .outerjoin(
        AUDIT_PAYLOADS,
        sa.and_(
            AUDIT_PAYLOADS.c.user_id == AUDIT_RECORDS.c.user_id,
            AUDIT_PAYLOADS.c.sequence == AUDIT_RECORDS.c.sequence,
        ),
    )
    .where(
        AUDIT_RECORDS.c.user_id == sa.bindparam("of_user"),
        AUDIT_RECORDS.c.sequence > sa.bindparam("after"),
    )
    .order_by(AUDIT_RECORDS.c.sequence)
    .limit(_PAGE)
)
_BY_HASH = sa.select(AUDIT_RECORDS.c.sequence).where(
    AUDIT_RECORDS.c.user_id == sa.bindparam("of_user"),
    AUDIT_RECORDS.c.record_hash == sa.bindparam("hash"),
)


Promised: TypeAlias = Mapping[str, Mapping[int, frozenset[str]]]
"""What checkpoints say: by user and sequence, the hashes that this record had. One is right."""

NOTHING_PROMISED: Promised = MappingProxyType({})


class AuditFaultKind(StrEnum):
    """What is wrong with a row; TRUNCATED is the first one that a checkpoint knows and the chain
    no longer reaches."""

    CHANGED = "changed"
    REMOVED = "removed"
    REORDERED = "reordered"
    FORKED = "forked"
    TRUNCATED = "truncated"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFault:
    """The first bad row of a user's chain, or (ERASED, `count` rows) payloads that were erased."""

    user_id: str
    sequence: int
    kind: AuditFaultKind
    count: int = 1

    @property
    def is_broken(self) -> bool:
        """Whether someone tampered; erasure is lawful."""
        return self.kind is not AuditFaultKind.ERASED


def verify(connection: sa.Connection, promised: Promised = NOTHING_PROMISED) -> list[AuditFault]:
    """Check every user's chain from its first record to its head, and against what checkpoints
    `promised`; empty when all is well.

    At most one broken row per user, since everything behind it is unproven, and one note of erased
    payloads. A chain that was written anew between two checkpoints is CHANGED from the first row
    behind the earlier one on. Needs one consistent snapshot (`Database.read`).
    """
    faults: list[AuditFault] = []
    users = {str(user) for user in connection.execute(_USERS).scalars()}
    for user in sorted(users | promised.keys()):
        faults.extend(_Chain(connection, user, promised.get(user, {})).faults())
    return faults


@dataclass(slots=True)
class _Chain:
    """One user's chain while it is walked."""

    connection: sa.Connection
    user: str
    promised: Mapping[int, frozenset[str]]
    last: int = 0
    head: str = GENESIS
    proven: int = 0
    erased: list[int] = field(default_factory=list[int])

    def faults(self) -> Iterator[AuditFault]:
        broken = self._first_broken_row() or self._wrong_end()
        if self.erased:
            yield AuditFault(
                user_id=self.user,
                sequence=self.erased[0],
                kind=AuditFaultKind.ERASED,
                count=len(self.erased),
            )
        if broken is not None:
            yield broken

    def _first_broken_row(self) -> AuditFault | None:
        while True:
            place = {"of_user": self.user, "after": self.last}
            rows = self.connection.execute(_ROWS, place).mappings().all()
            for row in rows:
                fault = self._fault_of({str(name): value for name, value in row.items()})
                if fault is not None:
                    return fault
                self.last, self.head = row["sequence"], row["record_hash"]
            if len(rows) < _PAGE:
                return None

    def _fault_of(self, row: Mapping[str, object]) -> AuditFault | None:
        sequence = row["sequence"]
        if sequence != self.last + 1:
            return self._fault(self.last + 1, AuditFaultKind.REMOVED)
        if row["previous_hash"] != self.head:
            return self._wrong_link(row)
        if row["record_hash"] != record_hash(row) or self._is_payload_changed(row):
            return self._fault(self.last + 1, AuditFaultKind.CHANGED)
        promised = self.promised.get(self.last + 1)
        if promised is not None:
            if promised != frozenset({str(row["record_hash"])}):
                return self._fault(self.proven + 1, AuditFaultKind.CHANGED)
            self.proven = self.last + 1
        return None

    def _wrong_link(self, row: Mapping[str, object]) -> AuditFault:
        """A whole row was branched off elsewhere or follows a rewritten one; others were moved."""
        place = self.last + 1
        if row["record_hash"] == record_hash(row):
            if self._is_in_chain(row["previous_hash"]):
                return self._fault(place, AuditFaultKind.FORKED)
            return self._fault(max(self.last, 1), AuditFaultKind.CHANGED)
        head = self._head()
        until = max(place, head[0] if head else 0) + _PAGE
        is_moved = any(
            row["record_hash"] == record_hash({**row, "sequence": sequence})
            for sequence in range(1, until)
        )
        return self._fault(place, AuditFaultKind.REORDERED if is_moved else AuditFaultKind.CHANGED)

    def _is_in_chain(self, link: object) -> bool:
        where = {"of_user": self.user, "hash": link}
        return link == GENESIS or self.connection.execute(_BY_HASH, where).first() is not None

    def _is_payload_changed(self, row: Mapping[str, object]) -> bool:
        promised, salt, payload = row["payload_hash"], row["salt"], row["payload_json"]
        if payload is None:
            if promised:
                self.erased.append(self.last + 1)
            return False
        return promised != payload_hash(str(salt), str(payload))

    def _wrong_end(self) -> AuditFault | None:
        head = self._head()
        if max(self.promised, default=0) > max(self.last, head[0] if head else 0):
            return self._fault(self.last + 1, AuditFaultKind.TRUNCATED)
        if head is None:
            return self._fault(self.last, AuditFaultKind.REMOVED)
        if head[0] > self.last:
            return self._fault(self.last + 1, AuditFaultKind.REMOVED)
        if head != (self.last, self.head):
            return self._fault(self.last, AuditFaultKind.CHANGED)
        return None

    def _head(self) -> tuple[int, str] | None:
        row = self.connection.execute(_HEAD, {"of_user": self.user}).first()
        return None if row is None else (row[0], row[1])

    def _fault(self, sequence: int, kind: AuditFaultKind) -> AuditFault:
        return AuditFault(user_id=self.user, sequence=sequence, kind=kind)
