"""Checkpoints: when they are made, what they cover, and what a crash leaves."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from minara_core.audit import AuditKind
from minara_core.errors import Conflict
from minara_runtime import audit_checkpoints
from minara_runtime.audit import append
from minara_runtime.audit_checkpoint import CheckpointUnreadable
from minara_runtime.audit_checkpoints import EVERY_ROWS, USERS_PER_CHECKPOINT, Checkpoints
from minara_runtime.audit_tables import AUDIT_CHECKPOINTS
from support.audit import a_record
from support.audit_books import Books, some_books
from support.databases import Databases
from support.eventually import eventually


@pytest.fixture
async def books(databases: Databases, tmp_path: Path) -> Books:
    return await some_books(databases, tmp_path)


@asynccontextmanager
async def running(books: Books, checkpoints: Checkpoints) -> AsyncGenerator[None]:
    """The job, awake on the commits of the service's database. It has covered `zoe` already."""
    await books.write(user="zoe")
    job = asyncio.create_task(checkpoints.run_forever())
    try:
        await eventually(covered(books, []))
        await eventually(books.is_idle)
        books.database.listen(checkpoints.notice)
        yield
    finally:
        job.cancel()
        await asyncio.wait([job])


def covered(books: Books, heads: list[dict[str, int]]) -> Callable[[], Awaitable[bool]]:
    async def are_there() -> bool:
        wanted = [{"zoe": 1}, *heads]
        return await books.heads() == wanted and len(books.lines) == len(wanted)

    return are_there


async def test_a_checkpoint_covers_those_whose_chain_went_on(books: Books) -> None:
    await books.write_and_cover("ann", "bob")
    await books.write_and_cover("bob")
    await books.checkpoints().make()
    assert await books.heads() == [{"ann": 1, "bob": 1}, {"bob": 2}]
    assert [line.line() for line in await books.in_table()] == books.lines
    assert books.file.path.stat().st_mode & 0o777 == 0o600
    report = await books.verify()
    assert not report.findings
    assert (report.users, report.records, report.checkpoints, report.uncovered) == (2, 3, 2, 0)


async def test_nothing_written_is_no_checkpoint(books: Books) -> None:
    await books.checkpoints().make()
    assert await books.heads() == []
    assert not books.file.path.exists()


@pytest.mark.parametrize("kind", [AuditKind.FUND_MOVE, AuditKind.DECISION])
async def test_a_row_of_money_is_covered_at_once(books: Books, kind: AuditKind) -> None:
    async with running(books, books.checkpoints()):
        await books.write(kind=kind)
        await eventually(covered(books, [{"ann": 1}]))


async def test_a_hundred_rows_are_covered_at_once_and_fewer_are_not(books: Books) -> None:
    checkpoints = books.checkpoints()
    async with running(books, checkpoints):
        await books.write(EVERY_ROWS - 1)
        await books.write(user="bob")
        await eventually(covered(books, [{"ann": EVERY_ROWS - 1, "bob": 1}]))
        await books.write(EVERY_ROWS - 1)
        assert len(await books.heads()) == 2
        await books.write(kind=AuditKind.FUND_MOVE)
        await eventually(
            covered(
                books,
                [{"ann": EVERY_ROWS - 1, "bob": 1}, {"ann": 2 * EVERY_ROWS - 1}],
            )
        )


async def test_what_another_replica_wrote_is_covered_in_time(books: Books) -> None:
    async with running(books, books.checkpoints(every_seconds=0.05)):
        other = books.databases.reopen(books.url)
        await other.transaction(lambda c: append(c, [a_record()]))
        await eventually(covered(books, [{"ann": 1}]))


async def test_a_rolled_back_row_wakes_nobody_and_a_later_one_does(books: Books) -> None:
    def fail(connection: sa.Connection) -> None:
        append(connection, [a_record(kind=AuditKind.FUND_MOVE)])
        raise KeyError

    told: list[object] = []
    books.database.listen(told.append)
    with pytest.raises(KeyError):
        await books.database.transaction(fail)
    assert told == []
    await books.write(2)
    assert told == [audit_checkpoints.RowsWritten(count=2, is_money=False)]


async def test_two_appends_of_one_transaction_are_told_together(books: Books) -> None:
    told: list[object] = []
    books.database.listen(told.append)

    def both(connection: sa.Connection) -> None:
        append(connection, [a_record(kind=AuditKind.DECISION)])
        append(connection, [a_record(2)])

    await books.database.transaction(both)
    assert told == [audit_checkpoints.RowsWritten(count=2, is_money=True)]


async def test_many_users_are_covered_in_parts(books: Books) -> None:
    users = [f"user-{number:04}" for number in range(USERS_PER_CHECKPOINT + 1)]
    records = [a_record(user=user) for user in users]
    await books.database.transaction(lambda c: append(c, records))
    await books.checkpoints().make()
    assert [len(heads) for heads in await books.heads()] == [USERS_PER_CHECKPOINT, 1]
    assert not (await books.verify()).findings


async def test_the_end_between_table_and_file_is_told_and_made_good_by_the_next_start(
    books: Books,
) -> None:
    await books.write_and_cover()
    await books.write()
    await books.die_between_table_and_file()
    assert len(books.lines) == 1
    report = await books.verify()
    assert [found.kind for found in report.findings] == ["checkpoint_file"]
    assert not report.is_broken
    await books.checkpoints().make()
    assert len(books.lines) == 2
    assert not (await books.verify()).findings


async def test_the_very_first_line_can_be_missing_too(books: Books) -> None:
    await books.write()
    await books.die_between_table_and_file()
    assert not (await books.verify()).is_broken
    await books.checkpoints().make()
    assert not (await books.verify()).findings


async def test_a_line_that_was_torn_is_written_again(books: Books) -> None:
    await books.write_and_cover()
    await books.write()
    await books.die_between_table_and_file()
    first, second = (signed.line() for signed in await books.in_table())
    books.put_lines([first, second[:40]])
    assert not (await books.verify()).is_broken
    await books.checkpoints().make()
    assert books.lines == [first, second]
    assert not (await books.verify()).findings


async def test_a_lost_file_is_written_again_from_the_table(books: Books) -> None:
    for _ in range(3):
        await books.write_and_cover()
    lines = books.lines
    books.file.path.unlink()
    await books.checkpoints().make()
    assert books.lines == lines


async def test_nothing_goes_on_where_the_file_is_ahead_of_the_database(books: Books) -> None:
    await books.write_and_cover()
    await books.write_and_cover()
    await books.execute(sa.delete(AUDIT_CHECKPOINTS).where(AUDIT_CHECKPOINTS.c.number == 2))
    await books.write()
    with pytest.raises(Conflict) as refused:
        await books.checkpoints().make()
    assert "minara audit verify" in refused.value.message
    assert len(books.lines) == 2


async def test_nothing_goes_on_behind_a_line_that_is_none(books: Books) -> None:
    await books.write_and_cover()
    books.put_lines([*books.lines, b"{}\n"])
    await books.write()
    with pytest.raises(CheckpointUnreadable):
        await books.checkpoints().make()


async def test_replicas_that_share_table_and_file_keep_one_chain(books: Books) -> None:
    async def live(replica: Checkpoints, user: str) -> None:
        for _ in range(6):
            await books.write(user=user)
            await replica.make()

    async with asyncio.TaskGroup() as group:
        for user in ("ann", "bob", "eve"):
            group.create_task(live(books.checkpoints(), user))
    report = await books.verify()
    assert not report.findings
    assert report.uncovered == 0
    assert len(books.lines) == report.checkpoints >= 1


async def test_a_replica_with_a_file_of_its_own_writes_all_checkpoints_into_it(
    books: Books, tmp_path: Path
) -> None:
    await books.write_and_cover()
    elsewhere = Books(books.databases, books.url, books.database, tmp_path / "other")
    elsewhere.data_dir.mkdir()
    (tmp_path / "keys").rename(elsewhere.data_dir / "keys")
    await elsewhere.write_and_cover()
    assert len(books.lines) == 1
    assert len(elsewhere.lines) == 2
    assert not (await elsewhere.verify()).findings


async def test_the_same_line_twice_says_nothing_new(books: Books) -> None:
    await books.write_and_cover()
    await books.write_and_cover()
    first, second = books.lines
    books.put_lines([first, second, first])
    assert not (await books.verify()).findings
