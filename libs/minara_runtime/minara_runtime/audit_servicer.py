"""AuditService, the same for every service: the caller's own records of one chain."""

from typing import TypeAlias

import grpc.aio

from minara.audit.v1 import audit_service_pb2 as audit_pb
from minara.audit.v1 import audit_service_pb2_grpc as audit_grpc
from minara_core.ids import UserId
from minara_runtime.audit_reader import ChainedRecord, read_page
from minara_runtime.call_context import current_grant
from minara_runtime.convert_actions import time_to_pb
from minara_runtime.convert_enums import AUDIT_KIND
from minara_runtime.database import Database

Context: TypeAlias = (
    "grpc.aio.ServicerContext[audit_pb.ListAuditRecordsRequest, audit_pb.ListAuditRecordsResponse]"
)


class AuditServicer(audit_grpc.AuditServiceServicer):
    def __init__(self, database: Database, service: str) -> None:
        self._database = database
        self._service = service

    async def ListAuditRecords(
        self, request: audit_pb.ListAuditRecordsRequest, context: Context
    ) -> audit_pb.ListAuditRecordsResponse:
        page = await read_page(
            self._database,
            UserId(current_grant().subject),
            size=request.page_size,
            token=request.page_token,
            turn_id=request.turn_id,
            session_id=request.session_id,
            kind=AUDIT_KIND.from_pb(request.kind) if request.kind else None,
        )
        return audit_pb.ListAuditRecordsResponse(
            audit_records=[
                self._to_pb(record, with_payload=request.include_payload) for record in page.records
            ],
            next_page_token=page.next_token,
        )

    def _to_pb(self, chained: ChainedRecord, *, with_payload: bool) -> audit_pb.AuditRecord:
        record = chained.record
        return audit_pb.AuditRecord(
            service=self._service,
            sequence=chained.sequence,
            kind=AUDIT_KIND.to_pb(record.kind),
            record_time=time_to_pb(record.time),
            subject=record.subject,
            outcome=record.outcome,
            reason=record.reason,
            turn_id=record.turn_id or "",
            session_id=record.session_id or "",
            trace_id=record.trace_id,
            origin=record.origin,
            payload_json=record.payload_json if with_payload else "",
            is_payload_erased=chained.is_payload_erased,
            record_hash=chained.record_hash,
            page_token=chained.page_token,
        )
