"""Reads a user's audit records back, newest first."""

import base64
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import InvalidRequest
from minara_core.ids import SessionId, TurnId, UserId
from minara_runtime.audit_tables import AUDIT_PAYLOADS, AUDIT_RECORDS
from minara_runtime.database import Database

MAX_PAGE_SIZE = 200
DEFAULT_PAGE_SIZE = 50

_NEWEST = 2**63 - 1
_LONGEST_TOKEN = 64
_C = AUDIT_RECORDS.c


@cache
def _page(filters: tuple[str, ...]) -> sa.Select[*tuple[Any, ...]]:
    """The statement that filters by these columns: one object per combination, compiled once."""
    is_of_record = sa.and_(
        AUDIT_PAYLOADS.c.user_id == _C.user_id, AUDIT_PAYLOADS.c.sequence == _C.sequence
    )
    return (
        sa.select(AUDIT_RECORDS, AUDIT_PAYLOADS.c.payload_json)
        .outerjoin(AUDIT_PAYLOADS, is_of_record)
        .where(
            _C.user_id == sa.bindparam("of_user"),
            _C.sequence < sa.bindparam("below"),
            *(_C[name] == sa.bindparam(f"of_{name}") for name in filters),
        )
        .order_by(_C.sequence.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRecord:
    """A record with its place. Its payload is "" when there was none or when it was erased."""

    sequence: int
    record: AuditRecord
    record_hash: str
    is_payload_erased: bool

    @property
    def page_token(self) -> str:
        """Goes on behind this record."""
        return base64.urlsafe_b64encode(str(self.sequence).encode()).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    records: tuple[ChainedRecord, ...]
    next_token: str


async def read_page(
    database: Database,
    user_id: UserId,
    *,
    size: int = 0,
    token: str = "",
    turn_id: str = "",
    session_id: str = "",
    kind: AuditKind | None = None,
) -> AuditPage:
    """A page of the user's own records, newest first; `size` 0 means 50, and 200 is the most.

    Raises InvalidRequest for a token that is not ours or a negative size.
    """
    if size < 0:
        raise InvalidRequest("page_size is negative", metadata={"field": "page_size"})
    size = min(size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
    wanted = {"turn_id": turn_id, "session_id": session_id, "kind": kind.value if kind else ""}
    filters = {name: value for name, value in wanted.items() if value}
    parameters = {"of_user": user_id, "below": _sequence_of(token), "most": size + 1}
    parameters |= {f"of_{name}": value for name, value in filters.items()}
    statement = _page(tuple(filters))
    rows = await database.read(lambda c: c.execute(statement, parameters).all())
    records = tuple(_record(row) for row in rows[:size])
    return AuditPage(records=records, next_token=records[-1].page_token if len(rows) > size else "")


def _sequence_of(token: str) -> int:
    if not token:
        return _NEWEST
    try:
        if len(token) > _LONGEST_TOKEN:
            raise ValueError
        sequence = int(base64.urlsafe_b64decode(token.encode("ascii")).decode("ascii"))
        if not 0 < sequence <= _NEWEST:
            raise ValueError
    except ValueError as error:
        raise InvalidRequest(
            "this page_token is not ours", metadata={"field": "page_token"}
        ) from error
    return sequence


def _record(row: sa.Row[*tuple[object, ...]]) -> ChainedRecord:
    return ChainedRecord(
        sequence=row.sequence,
        record_hash=row.record_hash,
        is_payload_erased=bool(row.payload_hash) and row.payload_json is None,
        record=AuditRecord(
            user_id=UserId(row.user_id),
            kind=AuditKind(row.kind),
            time=row.time,
            subject=row.subject,
            outcome=row.outcome,
            reason=row.reason,
            turn_id=TurnId(row.turn_id) if row.turn_id else None,
            session_id=SessionId(row.session_id) if row.session_id else None,
            trace_id=row.trace_id,
            origin=row.origin,
            payload_json=row.payload_json or "",
        ),
    )
