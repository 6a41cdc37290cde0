"""What a backup copies, and in which state."""

import json
import sqlite3
from pathlib import Path

import pytest

from minara_core.errors import AlreadyExists, InvalidRequest
from minara_runtime.audit_report import AuditPlace, verify_service
from minara_runtime.backup import COUNTER_COPY, MONEY_COUNTER, Backup, back_up
from support.audit_books import SERVICE, Books, some_books
from support.clock import FixedClock
from support.databases import Databases


@pytest.fixture
async def books(sqlite_databases: Databases, tmp_path: Path) -> Books:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    made = await some_books(sqlite_databases, data_dir)
    for _ in range(3):
        await made.write_and_cover()
    return made


def backed_up(books: Books, target: Path) -> Backup:
    return back_up(books.data_dir, {SERVICE: books.url}, target, clock=FixedClock())


async def copy_is_whole(target: Path) -> bool:
    report = await verify_service(
        AuditPlace(service=SERVICE, database_url=f"sqlite:///{target}/tools.db", data_dir=target)
    )
    return report.checkpoints > 0 and not report.findings


async def test_a_copy_of_the_audit_verifies_by_itself(books: Books, tmp_path: Path) -> None:
    backed_up(books, tmp_path / "copy")
    assert await copy_is_whole(tmp_path / "copy")


async def test_a_copy_has_no_checkpoint_that_its_database_does_not_know(
    books: Books, tmp_path: Path
) -> None:
    """As when the service went on between the copy of the one and of the other."""
    early = tmp_path / "early.db"
    before = sqlite3.connect(books.url.removeprefix("sqlite:///"))
    kept = sqlite3.connect(early)
    before.backup(kept)
    before.close()
    kept.close()
    await books.write_and_cover()
    back_up(books.data_dir, {SERVICE: f"sqlite:///{early}"}, tmp_path / "copy", clock=FixedClock())
    assert await copy_is_whole(tmp_path / "copy")


async def test_the_money_counter_and_the_databases_own_name_go_along(
    books: Books, tmp_path: Path
) -> None:
    counter = books.data_dir / MONEY_COUNTER
    counter.write_text('{"counter": 3}', "ascii")
    connection = sqlite3.connect(books.data_dir / "tools.db")
    connection.execute("CREATE TABLE money_counters (database_id TEXT)")
    connection.execute("INSERT INTO money_counters VALUES ('db-1')")
    connection.commit()
    connection.close()
    made = back_up(books.data_dir, {}, tmp_path / "copy", clock=FixedClock())
    assert (tmp_path / "copy" / COUNTER_COPY).read_text("ascii") == '{"counter": 3}'
    assert not (tmp_path / "copy" / MONEY_COUNTER).exists()
    assert {file.path: file.database_id for file in made.files if file.database_id} == {
        "tools.db": "db-1"
    }
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_bytes())
    assert [file["path"] for file in manifest["files"]] == [file.path for file in made.files]


async def test_a_damaged_checkpoint_is_copied_and_still_found(books: Books, tmp_path: Path) -> None:
    books.put_lines([books.lines[0], b"damaged\n", *books.lines[2:]])
    backed_up(books, tmp_path / "copy")
    assert not await copy_is_whole(tmp_path / "copy")


async def test_nothing_is_overwritten(books: Books, tmp_path: Path) -> None:
    backed_up(books, tmp_path / "copy")
    for target in (tmp_path / "copy", tmp_path / "copy" / "tools.db"):
        with pytest.raises(AlreadyExists):
            backed_up(books, target)


async def test_postgresql_is_left_to_its_own_tool(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        back_up(tmp_path, {"tools": "postgresql://x/y"}, tmp_path / "copy", clock=FixedClock())
    assert "pg_dump" in refused.value.message
    assert "money-counter.json" in refused.value.message
