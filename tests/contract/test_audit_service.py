"""AuditService: a person's own records, newest first, in pages, in process and over TCP."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from minara.audit.v1 import audit_service_pb2 as audit_pb
from minara.audit.v1 import audit_service_pb2_grpc as audit_grpc
from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import InvalidRequest, NotAuthenticated, NotPermitted
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import Scope
from minara_runtime import telemetry
from minara_runtime.audit import append, erase_payloads
from minara_runtime.audit_servicer import AuditServicer
from minara_runtime.channels import with_grant
from minara_runtime.database import Database
from minara_runtime.interceptors import server_interceptors
from support.audit import TIME
from support.channels import KINDS, a_channel
from support.grants import USER, Installation, an_installation


@dataclass(frozen=True)
class Caller:
    stub: "audit_grpc.AuditServiceAsyncStub"
    installation: Installation
    database: Database

    async def write(self, *subjects: str, **fields: Any) -> None:
        values: dict[str, Any] = {"kind": AuditKind.TOOL_CALL, "user_id": UserId(USER)} | fields
        records = [
            AuditRecord(time=TIME, subject=subject, outcome="success", **values)
            for subject in subjects
        ]
        await self.database.transaction(lambda c: append(c, records))

    async def ask(
        self, *, scope: Scope = Scope.READ, **fields: Any
    ) -> audit_pb.ListAuditRecordsResponse:
        return await self.stub.ListAuditRecords(
            audit_pb.ListAuditRecordsRequest(**fields),
            metadata=with_grant(self.installation.request_grant(scope)),
        )

    async def subjects(self, **fields: Any) -> list[str]:
        return [record.subject for record in (await self.ask(**fields)).audit_records]


@pytest.fixture(params=KINDS)
async def caller(request: pytest.FixtureRequest, database: Database) -> AsyncGenerator[Caller]:
    installation = an_installation()
    servicer = AuditServicer(database, "tools")
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())
    async with a_channel(
        request.param,
        lambda server: audit_grpc.add_AuditServiceServicer_to_server(servicer, server),
        interceptors,
    ) as channel:
        yield Caller(audit_grpc.AuditServiceStub(channel), installation, database)


async def test_records_come_newest_first_with_all_they_hold(caller: Caller) -> None:
    await caller.write(
        "buy_token",
        kind=AuditKind.FUND_MOVE,
        reason="SLIPPAGE_EXCEEDED",
        turn_id=TurnId("t1"),
        session_id=SessionId("s1"),
        trace_id="abc",
        origin="repl",
        payload_json='{"a":1}',
    )
    await caller.write("get_price")
    newest, oldest = (await caller.ask()).audit_records
    assert (newest.subject, newest.sequence) == ("get_price", 2)
    assert oldest == audit_pb.AuditRecord(
        service="tools",
        sequence=1,
        kind=audit_pb.AUDIT_KIND_FUND_MOVE,
        record_time=oldest.record_time,
        subject="buy_token",
        outcome="success",
        reason="SLIPPAGE_EXCEEDED",
        turn_id="t1",
        session_id="s1",
        trace_id="abc",
        origin="repl",
        record_hash=oldest.record_hash,
        page_token=oldest.page_token,
    )
    assert oldest.record_time.ToJsonString() == "2026-11-30T12:00:00Z"
    assert len(oldest.record_hash) == 64


async def test_payloads_come_only_when_asked_for_and_an_erased_one_is_said(caller: Caller) -> None:
    await caller.write("a", session_id=SessionId("s1"), payload_json='{"a":1}')
    await caller.write("b", session_id=SessionId("s2"), payload_json='{"b":1}')
    await caller.write("c")
    await caller.database.transaction(lambda c: erase_payloads(c, USER, "s2"))

    async def seen(**fields: Any) -> list[tuple[str, bool]]:
        records = (await caller.ask(**fields)).audit_records
        return [(record.payload_json, record.is_payload_erased) for record in records]

    assert await seen() == [("", False), ("", True), ("", False)]
    assert await seen(include_payload=True) == [("", False), ("", True), ('{"a":1}', False)]


async def test_nobody_sees_what_is_not_theirs(caller: Caller) -> None:
    await caller.write("theirs", user_id=UserId("somebody"))
    await caller.write("mine")
    assert await caller.subjects() == ["mine"]


async def test_filters_let_through_what_fits_all_of_them(caller: Caller) -> None:
    await caller.write("a", turn_id=TurnId("t1"), session_id=SessionId("s1"))
    await caller.write("b", turn_id=TurnId("t2"), session_id=SessionId("s1"))
    await caller.write("c", turn_id=TurnId("t2"), session_id=SessionId("s1"), kind=AuditKind.DENIAL)
    assert await caller.subjects(turn_id="t1") == ["a"]
    assert await caller.subjects(session_id="s1") == ["c", "b", "a"]
    assert await caller.subjects(turn_id="t2", kind=audit_pb.AUDIT_KIND_TOOL_CALL) == ["b"]
    assert await caller.subjects(session_id="s2") == []


async def test_pages_join_without_gap_or_repetition_while_records_are_added(caller: Caller) -> None:
    await caller.write(*"abcde")
    first = await caller.ask(page_size=2)
    await caller.write("f")
    second = await caller.ask(page_size=2, page_token=first.next_page_token)
    third = await caller.ask(page_size=2, page_token=second.next_page_token)
    pages = [[record.subject for record in page.audit_records] for page in (first, second, third)]
    assert pages == [["e", "d"], ["c", "b"], ["a"]]
    assert third.next_page_token == ""


async def test_a_record_is_a_place_to_go_on_from(caller: Caller) -> None:
    await caller.write(*"abc")
    newest = (await caller.ask()).audit_records[0]
    assert await caller.subjects(page_token=newest.page_token) == ["b", "a"]


@pytest.mark.parametrize(
    "fields",
    [
        {"page_token": "x"},
        {"page_token": "LTE="},
        {"page_token": "é"},
        {"page_token": "MQ==" * 40},
        {"page_size": -1},
        {"kind": 99},
    ],
)
async def test_what_is_not_ours_is_refused(caller: Caller, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await caller.ask(**fields)


async def test_a_page_has_a_limit(caller: Caller) -> None:
    await caller.write(*(str(number) for number in range(201)))
    assert len((await caller.ask()).audit_records) == 50
    assert len((await caller.ask(page_size=1_000)).audit_records) == 200


async def test_reading_needs_the_scope_and_a_grant(caller: Caller) -> None:
    with pytest.raises(NotPermitted):
        await caller.ask(scope=Scope.TRADE)
    with pytest.raises(NotAuthenticated):
        await caller.stub.ListAuditRecords(audit_pb.ListAuditRecordsRequest())
