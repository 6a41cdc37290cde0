"""`GET /v1/audit`: what every service recorded about the caller, as one list."""

import base64
import binascii
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request

from minara.audit.v1 import audit_service_pb2 as audit_pb
from minara_core.audit import AuditKind
from minara_core.errors import InvalidRequest
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.peers import READ_SECONDS, GrantDesk, Metadata, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller
from minara_runtime.convert_enums import AUDIT_KIND

router = APIRouter(prefix="/v1")

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
PageSize = Annotated[int, Query(ge=1, le=200)]

_ENDED = "-"
"""In place of a service's page token: it has nothing more."""
_START: Mapping[str, str] = MappingProxyType({})


@router.get("/audit")
async def list_records(
    request: Request,
    caller: Reader,
    page_size: PageSize = 50,
    page_token: str = "",
    turn_id: str = "",
    session_id: str = "",
    kind: AuditKind | None = None,
    include_payload: bool = False,
) -> dict[str, Any]:
    """The caller's audit records of all services, newest first."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    tokens = _decoded(page_token, known=peers.audits)
    wanted = audit_pb.ListAuditRecordsRequest(
        page_size=page_size, turn_id=turn_id, session_id=session_id, include_payload=include_payload
    )
    if kind is not None:
        wanted.kind = AUDIT_KIND.to_pb(kind)
    pages = await _pages(peers, wanted, tokens, grants.request(caller))
    records = _merged(pages)[:page_size]
    following = _following(pages, records, tokens)
    return {
        "audit_records": [_shown(record) for record in records],
        "next_page_token": _encoded(following) if set(following.values()) != {_ENDED} else "",
    }


async def _pages(
    peers: Peers,
    wanted: audit_pb.ListAuditRecordsRequest,
    tokens: Mapping[str, str],
    metadata: Metadata,
) -> dict[str, audit_pb.ListAuditRecordsResponse]:
    """A page of each service that has more. A service that does not answer fails the list: an
    audit with a hole in it looks like an audit without one."""

    async def page(service: str) -> audit_pb.ListAuditRecordsResponse:
        request = audit_pb.ListAuditRecordsRequest(page_token=tokens.get(service, ""))
        request.MergeFrom(wanted)
        return await peers.audits[service].ListAuditRecords(
            request, metadata=metadata, timeout=READ_SECONDS
        )

    asked = [service for service in peers.audits if tokens.get(service) != _ENDED]
    return {service: await page(service) for service in asked}


def _merged(pages: Mapping[str, audit_pb.ListAuditRecordsResponse]) -> list[audit_pb.AuditRecord]:
    """All records, newest first; those of one service stay in the order of its chain."""
    waiting = {service: list(page.audit_records) for service, page in pages.items()}
    merged: list[audit_pb.AuditRecord] = []
    while any(waiting.values()):
        newest = max(
            (service for service, records in waiting.items() if records),
            key=lambda service: (waiting[service][0].record_time.ToNanoseconds(), service),
        )
        merged.append(waiting[newest].pop(0))
    return merged


def _following(
    pages: Mapping[str, audit_pb.ListAuditRecordsResponse],
    shown: list[audit_pb.AuditRecord],
    tokens: Mapping[str, str],
) -> dict[str, str]:
    """Where each service goes on: behind its last record that is shown."""
    following = dict(tokens)
    for service, page in pages.items():
        taken = [record for record in shown if record.service == service]
        if len(taken) == len(page.audit_records):
            following[service] = page.next_page_token or _ENDED
        elif taken:
            following[service] = taken[-1].page_token
        else:
            following.setdefault(service, "")
    return following


def _shown(record: audit_pb.AuditRecord) -> dict[str, Any]:
    fields = as_json(record)
    del fields["page_token"]  # goes on in one service, not in this list
    return fields


def _encoded(tokens: Mapping[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(dict(tokens)).encode()).decode("ascii")


def _decoded(token: str, *, known: Mapping[str, object]) -> Mapping[str, str]:
    if not token:
        return _START
    try:
        tokens = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
    except (ValueError, binascii.Error) as error:
        raise _foreign() from error
    if not isinstance(tokens, dict):
        raise _foreign()
    pairs = cast("dict[str, object]", tokens).items()
    found = {name: value for name, value in pairs if isinstance(value, str) and name in known}
    if len(found) != len(pairs):
        raise _foreign()
    return found


def _foreign() -> InvalidRequest:
    return InvalidRequest("this page_token is not ours", metadata={"field": "page_token"})
