"""Migrations run once, wholly or not at all, however many replicas start together."""

import asyncio
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from minara_core.errors import InternalError, InvalidRequest, NotReady, Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.audit_tables import AUDIT_TABLES
from minara_runtime.database import Database
from minara_runtime.lease_table import LEASE_TABLES
from support.databases import RUNTIME_TABLES, Databases

MIGRATE = """
import asyncio, sys
from pathlib import Path
from minara_runtime.database import Database

async def main():
    database = Database.open(sys.argv[1])
    await database.migrate(Path(sys.argv[2]))
    await database.aclose()

asyncio.run(main())
"""


def revision(folder: Path, number: int, body: str) -> None:
    previous = "None" if number == 1 else f'"{number - 1}"'
    text = f'''
import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = {previous}


def upgrade():
    {body}
'''
    (folder / f"{number}_x.py").write_text(text)


def table_names(connection: sa.Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


async def test_migrating_again_changes_nothing(databases: Databases) -> None:
    database = await databases.open()
    await database.migrate(RUNTIME_TABLES)
    await database.migrate(RUNTIME_TABLES)
    names = await database.read(table_names)
    assert {"leases", "audit_records", "audit_payloads", "audit_heads", "counters"} <= names


async def test_the_shared_tables_are_those_the_code_uses(database: Database) -> None:
    def columns(connection: sa.Connection) -> dict[str, set[str]]:
        inspector = sa.inspect(connection)
        return {
            name: {column["name"] for column in inspector.get_columns(name)}
            for metadata in (LEASE_TABLES, AUDIT_TABLES)
            for name in metadata.tables
        }

    expected = {
        name: set(table.columns.keys())
        for metadata in (LEASE_TABLES, AUDIT_TABLES)
        for name, table in metadata.tables.items()
    }
    assert await database.read(columns) == expected


async def test_databases_that_migrate_together_do_it_once(databases: Databases) -> None:
    url = await databases.url()
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(databases.reopen(url).migrate(RUNTIME_TABLES))
    names = await databases.reopen(url).read(table_names)
    assert "leases" in names


async def test_processes_that_migrate_together_do_it_once(databases: Databases) -> None:
    url = await databases.url()
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", MIGRATE, url, str(RUNTIME_TABLES), stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    for process in running:
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    assert "leases" in await databases.reopen(url).read(table_names)


async def test_a_failing_revision_undoes_all_of_them(databases: Databases, tmp_path: Path) -> None:
    revision(tmp_path, 1, 'op.create_table("one", sa.Column("id", sa.Integer, primary_key=True))')
    revision(tmp_path, 2, 'op.execute("INSERT INTO nowhere VALUES (1)")')
    database = await databases.open()
    with pytest.raises(exc.DBAPIError):
        await database.migrate(tmp_path)
    assert await database.read(table_names) == set()
    revision(tmp_path, 2, 'op.create_table("two", sa.Column("id", sa.Integer, primary_key=True))')
    await database.migrate(tmp_path)
    assert {"one", "two"} <= await database.read(table_names)


async def test_a_revision_that_breaks_a_foreign_key_is_refused(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    database = await sqlite_databases.open(RUNTIME_TABLES)
    for path in RUNTIME_TABLES.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "3_x.py").write_text(
        "from alembic import op\nrevision = '3'\ndown_revision = '0002'\n"
        "def upgrade():\n"
        "    op.execute(\"INSERT INTO entries (name, counter) VALUES ('x', 'nowhere')\")\n"
    )
    with pytest.raises(InternalError, match="foreign keys"):
        await database.migrate(tmp_path)


async def test_a_folder_with_odd_characters_works(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    folder = tmp_path / "100% odd, folder"
    folder.mkdir()
    revision(folder, 1, 'op.create_table("one", sa.Column("id", sa.Integer, primary_key=True))')
    database = await sqlite_databases.open()
    await database.migrate(folder)
    assert "one" in await database.read(table_names)


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(
    databases: Databases, tmp_path: Path
) -> None:
    revision(tmp_path, 1, 'op.create_table("one", sa.Column("name", sa.Text))')
    revision(tmp_path, 2, 'op.create_table("two", sa.Column("name", sa.Text))')
    database = await databases.open(tmp_path)
    (tmp_path / "2_x.py").unlink()
    with pytest.raises(NotReady) as caught:
        await database.migrate(tmp_path)
    assert caught.value.reason is ErrorReason.SCHEMA_TOO_NEW
    assert caught.value.metadata == {"revision": "2"}
    assert "revision 2" in caught.value.message
    assert await database.read(table_names) >= {"one", "two"}


async def test_a_database_belongs_to_who_used_it_first(databases: Databases) -> None:
    database = await databases.open()
    await database.migrate(RUNTIME_TABLES, owner="tools")
    await database.migrate(RUNTIME_TABLES, owner="tools")
    with pytest.raises(InvalidRequest, match="that of tools; skills needs one of its own"):
        await database.migrate(RUNTIME_TABLES, owner="skills")


async def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    database = Database.open("postgresql://minara:hunter2@127.0.0.1:1/tools")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1/tools does not answer") as caught:
        await database.migrate(RUNTIME_TABLES)
    assert "hunter2" not in caught.value.message
    await database.aclose()
    database = Database.open("sqlite:////nowhere/at/all.db")
    with pytest.raises(Unavailable, match="/nowhere/at/all"):
        await database.migrate(RUNTIME_TABLES)
    await database.aclose()
