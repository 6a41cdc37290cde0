"""A service with its audit: commits wake the checkpoints, and the store outside gets them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minara_core.audit import AuditKind
from minara_core.errors import Unavailable
from minara_core.ids import RandomIds
from minara_runtime.service import Service, running
from minara_runtime.service_audit import with_audit
from minara_runtime.settings import Settings
from support.audit_books import SERVICE, Books, some_books
from support.audit_store import Store, a_store
from support.channels import nothing
from support.clock import FixedClock
from support.databases import Databases
from support.eventually import eventually


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    async with a_store() as made:
        yield made


@pytest.fixture
async def books(databases: Databases, tmp_path: Path) -> Books:
    return await some_books(databases, tmp_path / "data")


def audited(books: Books, *, webhook: str | None) -> Service:
    return with_audit(
        Service(name=SERVICE, servicers=(), start=nothing, aclose=books.database.aclose),
        Settings(data_dir=books.data_dir, audit_webhook=webhook),
        books.database,
        clock=FixedClock(),
        ids=RandomIds(),
    )


async def test_money_is_covered_and_sent_while_the_service_runs(books: Books, store: Store) -> None:
    service = audited(books, webhook=store.url)
    assert [servicer.full_name for servicer in service.servicers] == [
        "minara.audit.v1.AuditService"
    ]
    async with running(service):
        await books.write(kind=AuditKind.FUND_MOVE)
        await eventually(lambda: len(store.taken) == 1 and store.taken == books.lines)
        await books.write(kind=AuditKind.DECISION)
        await eventually(lambda: len(store.taken) == 2 and store.taken == books.lines)
    report = await books.verify()
    assert (report.findings, report.uncovered) == ((), 0)


async def test_the_end_of_the_service_closes_its_database_too(books: Books) -> None:
    async with running(audited(books, webhook=None)):
        await books.write(kind=AuditKind.FUND_MOVE)
        await eventually(lambda: len(books.lines) == 1)
    with pytest.raises(Unavailable):
        await books.write()


async def test_an_end_in_good_order_leaves_nothing_uncovered(books: Books) -> None:
    async with running(audited(books, webhook=None)):
        await books.write(kind=AuditKind.FUND_MOVE)
        await eventually(lambda: len(books.lines) == 1)
        await books.write()
    report = await books.verify()
    assert (report.checkpoints, report.uncovered) == (2, 0)


async def test_the_end_is_held_up_by_no_damaged_file(books: Books) -> None:
    async with running(audited(books, webhook=None)):
        await books.write(kind=AuditKind.FUND_MOVE)
        await eventually(lambda: len(books.lines) == 1)
        await eventually(books.is_idle)
        books.put_lines([b"{}\n"])
        await books.write()
    assert (await books.verify()).is_broken


async def test_a_start_covers_what_was_left_uncovered(books: Books) -> None:
    await books.write(3)
    async with running(audited(books, webhook=None)):
        await eventually(lambda: len(books.lines) == 1)
    assert (await books.verify()).uncovered == 0
