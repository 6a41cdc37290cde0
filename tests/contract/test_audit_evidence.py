"""Checkpoints that were tampered with, in the table or in the file, are named."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from minara_core.errors import InvalidRequest, NotFound
from minara_runtime.audit import erase_payloads
from minara_runtime.audit_checkpoint import Checkpoint
from minara_runtime.audit_report import AuditPlace, verify_service
from minara_runtime.audit_tables import (
    AUDIT_CHECKPOINTS,
    AUDIT_HEADS,
    AUDIT_PAYLOADS,
    AUDIT_RECORDS,
)
from minara_runtime.keys import KeyPair, generate, load_or_create
from support.audit_books import SERVICE, Books, some_books
from support.databases import Databases

NUMBER = AUDIT_CHECKPOINTS.c.number
Lines = list[bytes]


@pytest.fixture
async def books(databases: Databases, tmp_path: Path) -> Books:
    """Four checkpoints of two users."""
    made = await some_books(databases, tmp_path)
    for user in ("ann", "bob", "ann", "bob"):
        await made.write_and_cover(user)
    return made


def key_of(books: Books) -> KeyPair:
    return load_or_create(books.data_dir / "keys" / SERVICE, SERVICE)


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def changed(lines: Lines) -> Lines:
    return [lines[0], lines[1].replace(b"bob", b"eve"), *lines[2:]]


def only(*places: int) -> Callable[[Lines], Lines]:
    """The lines at these places in this order."""
    return lambda lines: [lines[place] for place in places]


def ending_with(*bad: bytes) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[:3], *bad]


@pytest.mark.parametrize(
    ("tamper", "number"),
    [
        pytest.param(changed, 2, id="changed"),
        pytest.param(only(0, 2, 3), 2, id="removed"),
        pytest.param(only(0, 2, 1, 3), 2, id="reordered"),
        pytest.param(only(1, 2, 3), 1, id="beginning cut"),
        pytest.param(only(0, 1), 3, id="end cut"),
        pytest.param(only(0, 1, 2), 4, id="last line cut"),
        pytest.param(only(), 1, id="emptied"),
        pytest.param(ending_with(b"not json\n"), 4, id="no json"),
        pytest.param(ending_with(b"{}\n"), 4, id="no checkpoint"),
    ],
)
async def test_tampering_with_the_file_names_the_first_bad_line(
    books: Books, tamper: Callable[[Lines], Lines], number: int
) -> None:
    books.put_lines(tamper(books.lines))
    assert await books.broken() == [("checkpoint_file", number)]


async def test_a_file_that_is_gone_is_named(books: Books) -> None:
    books.file.path.unlink()
    assert await books.broken() == [("checkpoint_file", 1)]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        pytest.param(
            sa.update(AUDIT_CHECKPOINTS).where(NUMBER == 3).values(document="{}"), 3, id="document"
        ),
        pytest.param(
            sa.update(AUDIT_CHECKPOINTS).where(NUMBER == 3).values(signature="00" * 64),
            3,
            id="signature",
        ),
        pytest.param(sa.delete(AUDIT_CHECKPOINTS).where(NUMBER == 2), 2, id="removed"),
        pytest.param(sa.delete(AUDIT_CHECKPOINTS).where(NUMBER >= 3), 3, id="end cut"),
        pytest.param(sa.delete(AUDIT_CHECKPOINTS), 1, id="emptied"),
    ],
)
async def test_tampering_with_the_table_names_the_first_bad_row(
    books: Books, statement: sa.Executable, number: int
) -> None:
    await books.execute(statement)
    assert await books.broken() == [("checkpoint_table", number)]


async def test_a_database_without_one_user_is_named_with_the_users_first_row(books: Books) -> None:
    for table in (AUDIT_RECORDS, AUDIT_HEADS, AUDIT_PAYLOADS):
        await books.execute(sa.delete(table).where(table.c.user_id == "bob"))
    report = await books.verify()
    assert [(found.user_id, found.row, found.kind) for found in report.findings] == [
        ("bob", 1, "truncated")
    ]
    assert "row 1 of user bob" in report.findings[0].sentence


async def test_a_restored_database_is_behind_its_file_in_rows_and_checkpoints(
    books: Books,
) -> None:
    await books.execute(sa.delete(AUDIT_CHECKPOINTS).where(NUMBER == 4))
    await books.execute(
        sa.delete(AUDIT_RECORDS).where(
            AUDIT_RECORDS.c.user_id == "bob", AUDIT_RECORDS.c.sequence == 2
        )
    )
    first = sa.select(AUDIT_RECORDS.c.record_hash).where(AUDIT_RECORDS.c.user_id == "bob")
    await books.execute(
        sa.update(AUDIT_HEADS)
        .where(AUDIT_HEADS.c.user_id == "bob")
        .values(sequence=1, record_hash=first.scalar_subquery())
    )
    assert await books.broken() == [("truncated", 2), ("checkpoint_table", 4)]


async def test_another_key_is_named_as_such(books: Books) -> None:
    shutil.rmtree(books.data_dir / "keys")
    other = key_of(books)
    report = await books.verify()
    assert {found.row for found in report.findings} == {1}
    assert all("is not this service's" in found.sentence for found in report.findings)
    assert other.kid not in report.findings[0].sentence


async def test_a_retired_key_that_was_kept_is_still_believed(books: Books) -> None:
    folder = books.data_dir / "keys" / SERVICE
    old = key_of(books)
    (folder / f"{SERVICE}.pub").rename(folder / f"{old.kid}.pub")
    (folder / f"{SERVICE}.pem").unlink()
    await books.write_and_cover()
    assert key_of(books).kid != old.kid
    assert not (await books.verify()).findings


async def test_without_the_public_key_nothing_is_called_whole(books: Books) -> None:
    shutil.rmtree(books.data_dir / "keys")
    with pytest.raises(NotFound) as refused:
        await books.verify()
    assert "no public key of tools" in refused.value.message


@pytest.mark.parametrize("place", ["service", "number", "previous_hash"])
async def test_even_the_right_key_cannot_put_a_checkpoint_in_a_wrong_place(
    books: Books, place: str
) -> None:
    last = (await books.in_table())[-1].read()
    forged = Checkpoint(
        service="workspace" if place == "service" else last.service,
        number=7 if place == "number" else last.number,
        time=last.time,
        previous_hash="f" * 64 if place == "previous_hash" else last.previous_hash,
        heads=last.heads,
    ).sign(key_of(books))
    books.put_lines([*books.lines[:3], forged.line()])
    assert await books.broken() == [("checkpoint_file", 4)]


async def test_file_and_table_that_were_both_signed_may_not_differ(books: Books) -> None:
    last = (await books.in_table())[-1].read()
    forged = Checkpoint(
        service=SERVICE,
        number=4,
        time=last.time,
        previous_hash=last.previous_hash,
        heads={},
    ).sign(key_of(books))
    books.put_lines([*books.lines[:3], forged.line()])
    assert await books.broken() == [("checkpoint_file", 4)]


async def test_a_grant_key_of_somebody_else_signs_nothing(books: Books) -> None:
    last = (await books.in_table())[-1].read()
    books.put_lines([*books.lines[:3], last.sign(generate(SERVICE)).line()])
    assert await books.broken() == [("checkpoint_file", 4)]


async def test_erased_payloads_are_told_and_leave_the_audit_whole(books: Books) -> None:
    await books.database.transaction(lambda c: erase_payloads(c, "ann"))
    report = await books.verify()
    assert [found.kind for found in report.findings] == ["erased"]
    assert "2 payload(s) of user ann were erased" in report.findings[0].sentence
    assert not report.is_broken


async def test_rows_since_the_last_checkpoint_are_counted(books: Books) -> None:
    await books.write(3)
    assert (await books.verify()).uncovered == 3


async def test_a_service_that_never_ran_has_nothing_to_verify(tmp_path: Path) -> None:
    place = AuditPlace(
        service=SERVICE, database_url=f"sqlite:///{tmp_path}/tools.db", data_dir=tmp_path
    )
    report = await verify_service(place)
    assert not report.findings
    assert is_empty(tmp_path)


async def test_a_database_that_is_gone_is_named(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    books = await some_books(sqlite_databases, tmp_path)
    await books.write_and_cover()
    place = AuditPlace(
        service=SERVICE, database_url=f"sqlite:///{tmp_path}/gone.db", data_dir=tmp_path
    )
    report = await verify_service(place)
    assert report.is_broken
    assert "is gone" in report.findings[0].sentence


async def test_a_database_without_audit_tables_is_refused(
    databases: Databases, tmp_path: Path
) -> None:
    url = await databases.url()
    await databases.reopen(url).transaction(lambda c: c.execute(sa.text("CREATE TABLE x (a INT)")))
    with pytest.raises(InvalidRequest) as refused:
        await verify_service(AuditPlace(service=SERVICE, database_url=url, data_dir=tmp_path))
    assert "audit_" in refused.value.message
