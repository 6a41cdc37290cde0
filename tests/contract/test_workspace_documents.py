"""Documents: one suite for the fake and for the folder, then what only a folder can hold."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from minara_core.ids import UserId
from minara_workspace.adapters.documents_dir import DocumentFolders
from minara_workspace.app.ports import Documents
from minara_workspace.domain.document import MAX_BYTES, SEEDED_DOCUMENTS
from minara_workspace.domain.heartbeat import Heartbeat
from support.ids import SequentialIds
from support.workspace_documents import FakeDocuments, template
from support.workspace_sessions import ME

OTHER = UserId("somebody")
HEARTBEAT = Heartbeat(
    last_seen=datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
    session_id="session-1",
    surface="repl",
    turn_count=3,
    open_loops=("confirm action-1",),
)


@dataclass(frozen=True)
class Shelf:
    """Documents, and the hands of a person with an editor."""

    documents: Documents
    put: Callable[[str, bytes], None]
    get: Callable[[str], bytes | None]
    names: Callable[[], set[str]]


def in_memory() -> Shelf:
    fake = FakeDocuments()
    return Shelf(
        documents=fake,
        put=lambda name, page: fake.pages.__setitem__((ME, name), page),
        get=lambda name: fake.pages.get((ME, name)),
        names=lambda: {name for owner, name in fake.pages if owner == ME},
    )


def in_folder(root: Path) -> Shelf:
    def put(name: str, page: bytes) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(page)

    return Shelf(
        documents=DocumentFolders(root, root.parent / "workspaces", SequentialIds("draft")),
        put=put,
        get=lambda name: (root / name).read_bytes() if (root / name).exists() else None,
        names=lambda: set(os.listdir(root)) if root.exists() else set(),
    )


@pytest.fixture(params=["fake", "folder"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    return in_memory() if request.param == "fake" else in_folder(tmp_path / "workspace")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


def folders(root: Path) -> DocumentFolders:
    return DocumentFolders(root, root.parent / "workspaces", SequentialIds("draft"))


async def test_a_page_that_is_not_there_is_empty(shelf: Shelf) -> None:
    page = await shelf.documents.read(ME, "SOUL.md")
    assert (page.name, page.text, page.notice) == ("SOUL.md", "", "")


@pytest.mark.parametrize(
    "raw",
    [b"plain\n", b"\xef\xbb\xbfwith BOM\r\nand CRLF\r\n", b"no newline at end", "以太 𝒳".encode()],
)
async def test_a_page_is_read_as_it_is_and_left_as_it_is(shelf: Shelf, raw: bytes) -> None:
    shelf.put("SOUL.md", raw)
    assert (await shelf.documents.read(ME, "SOUL.md")).text == raw.decode()
    assert shelf.get("SOUL.md") == raw


async def test_bytes_that_are_no_utf8_are_replaced_in_the_text_alone(shelf: Shelf) -> None:
    shelf.put("USER.md", b"a\xff\xfeb")
    assert (await shelf.documents.read(ME, "USER.md")).text == "a\ufffd\ufffdb"
    assert shelf.get("USER.md") == b"a\xff\xfeb"


async def test_a_changed_page_is_read_anew(shelf: Shelf) -> None:
    shelf.put("SOUL.md", b"calm")
    await shelf.documents.read(ME, "SOUL.md")
    shelf.put("SOUL.md", b"bold!")
    assert (await shelf.documents.read(ME, "SOUL.md")).text == "bold!"


async def test_pages_of_two_megabytes_are_read_and_larger_ones_are_told(shelf: Shelf) -> None:
    shelf.put("SOUL.md", b"x" * MAX_BYTES)
    assert len((await shelf.documents.read(ME, "SOUL.md")).text) == MAX_BYTES
    shelf.put("SOUL.md", b"x" * (MAX_BYTES + 1))
    page = await shelf.documents.read(ME, "SOUL.md")
    assert page.text == ""
    assert f"SOUL.md is over {MAX_BYTES} bytes" in page.notice


async def test_a_new_folder_gets_every_page_but_the_heartbeat(shelf: Shelf) -> None:
    await shelf.documents.seed(ME)
    assert shelf.names() == {*SEEDED_DOCUMENTS, "BOOTSTRAP.md"}
    assert all(shelf.get(name) == template(name) for name in shelf.names())


async def test_a_used_folder_gets_missing_pages_without_a_bootstrap(shelf: Shelf) -> None:
    shelf.put("SOUL.md", b"mine\r\n")
    shelf.put("USER.md", b"")
    await shelf.documents.seed(ME)
    assert shelf.names() == set(SEEDED_DOCUMENTS)
    assert shelf.get("SOUL.md") == b"mine\r\n"
    assert shelf.get("USER.md") == b""


async def test_people_have_pages_of_their_own(shelf: Shelf) -> None:
    shelf.put("SOUL.md", b"mine")
    await shelf.documents.seed(OTHER)
    assert (await shelf.documents.read(OTHER, "SOUL.md")).text == template("SOUL.md").decode()
    assert (await shelf.documents.read(ME, "SOUL.md")).text == "mine"


@pytest.mark.parametrize(
    "schedule",
    [
        b"## Schedule\r\n- daily: 08:00\r\n\r\n# comment\r\n",
        b"## Schedule\n```\n## inside a fence\n```\n  unknown: field",
        b"## Schedule\n\n\n<!-- \xff\xfe -->",
    ],
)
async def test_the_schedule_of_an_existing_heartbeat_survives(
    shelf: Shelf, schedule: bytes
) -> None:
    shelf.put("HEARTBEAT.md", b"# Heartbeat\r\n\r\nold facts\r\n\r\n" + schedule)
    for _ in range(50):
        await shelf.documents.write_heartbeat(ME, HEARTBEAT)
    page = shelf.get("HEARTBEAT.md") or b""
    assert page.endswith(schedule)
    assert page.count(b"## Schedule") == 1
    assert b"old facts" not in page
    assert b"- turn_count: 3\n" in page


async def test_a_first_heartbeat_is_written_even_without_a_folder(shelf: Shelf) -> None:
    await shelf.documents.write_heartbeat(ME, HEARTBEAT)
    assert b"- session_id: session-1\n" in (shelf.get("HEARTBEAT.md") or b"")
    assert shelf.names() == {"HEARTBEAT.md"}


async def test_a_page_is_put_aside_under_its_new_name(shelf: Shelf) -> None:
    shelf.put("BOOTSTRAP.md", b"ask")
    for _ in range(2):
        await shelf.documents.put_aside(ME, "BOOTSTRAP.md", "BOOTSTRAP.md.done.1")
    assert shelf.names() == {"BOOTSTRAP.md.done.1"}
    assert shelf.get("BOOTSTRAP.md.done.1") == b"ask"


async def test_the_newest_daily_logs_are_read_newest_last(shelf: Shelf) -> None:
    assert await shelf.documents.daily_logs(ME) == ()
    for day in ("2026-11-30", "2025-12-31", "2026-11-28", "2026-11-29"):
        shelf.put(f"memory/{day}.md", day.encode())
    logs = await shelf.documents.daily_logs(ME)
    assert [log.text for log in logs] == ["2026-11-28", "2026-11-29", "2026-11-30"]
    assert logs[-1].name == "memory/2026-11-30.md"
    assert await shelf.documents.daily_logs(OTHER) == ()


@pytest.mark.parametrize(
    "name", ["notes.md", "2026-13-01.md", "2026-11-31.txt", "9999-12-31.md.bak", "x2026-11-30.md"]
)
async def test_what_is_named_otherwise_is_no_daily_log(shelf: Shelf, name: str) -> None:
    shelf.put("memory/2026-11-30.md", b"log")
    shelf.put(f"memory/{name}", b"odd")
    assert [log.text for log in await shelf.documents.daily_logs(ME)] == ["log"]


async def test_links_pipes_and_folders_are_no_daily_logs(root: Path) -> None:
    outside = root.parent / "outside.md"
    outside.write_bytes(b"secret")
    logs = root / "memory"
    logs.mkdir()
    (logs / "2026-11-29.md").write_bytes(b"log")
    (logs / "2026-11-30.md").symlink_to(outside)
    (logs / "2026-12-01.md").mkdir()
    os.mkfifo(logs / "2026-12-02.md")
    assert [log.text for log in await folders(root).daily_logs(ME)] == ["log"]


async def test_a_folder_of_logs_that_lies_elsewhere_is_not_read(root: Path) -> None:
    outside = root.parent / "elsewhere"
    outside.mkdir()
    (outside / "2026-11-30.md").write_bytes(b"secret")
    (root / "memory").symlink_to(outside)
    assert await folders(root).daily_logs(ME) == ()


async def test_a_daily_log_over_two_megabytes_is_told_and_not_read(root: Path) -> None:
    (root / "memory").mkdir()
    (root / "memory" / "2026-11-30.md").write_bytes(b"x" * (MAX_BYTES + 1))
    (log,) = await folders(root).daily_logs(ME)
    assert log.text == ""
    assert "memory/2026-11-30.md is over" in log.notice


async def test_seeding_again_after_a_restart_changes_nothing(root: Path) -> None:
    await folders(root).seed(ME)
    (root / "SOUL.md").write_bytes(b"mine")
    (root / "BOOTSTRAP.md").unlink()
    await folders(root).seed(ME)
    assert (root / "SOUL.md").read_bytes() == b"mine"
    assert not (root / "BOOTSTRAP.md").exists()


async def test_seeding_follows_no_link_and_fills_no_foreign_file(root: Path) -> None:
    outside = root.parent / "outside.md"
    (root / "SOUL.md").symlink_to(outside)
    await folders(root).seed(ME)
    assert not outside.exists()


async def test_seeded_pages_are_private(root: Path) -> None:
    await folders(root).seed(ME)
    assert stat.S_IMODE((root / "USER.md").stat().st_mode) == 0o600


async def test_a_link_inside_the_folder_is_followed(root: Path) -> None:
    (root / "notes").mkdir()
    (root / "notes" / "soul.md").write_bytes(b"linked")
    (root / "SOUL.md").symlink_to(root / "notes" / "soul.md")
    documents = folders(root)
    assert (await documents.read(ME, "SOUL.md")).text == "linked"
    (root / "notes" / "soul.md").write_bytes(b"changed")
    assert (await documents.read(ME, "SOUL.md")).text == "changed"


async def test_a_link_out_of_the_folder_is_refused_visibly(root: Path) -> None:
    secret = root.parent / "workspace-secret"
    secret.write_bytes(b"secret")
    (root / "SOUL.md").symlink_to(secret)
    page = await folders(root).read(ME, "SOUL.md")
    assert page.text == ""
    assert page.notice == "[SOUL.md is a link out of the workspace: not read]"


async def test_a_linked_folder_is_a_workspace_like_any_other(root: Path, tmp_path: Path) -> None:
    (root / "SOUL.md").write_bytes(b"calm")
    (tmp_path / "link").symlink_to(root)
    assert (await folders(tmp_path / "link").read(ME, "SOUL.md")).text == "calm"


async def test_links_to_nothing_and_to_themselves_are_told(root: Path) -> None:
    (root / "SOUL.md").symlink_to(root / "gone.md")
    (root / "USER.md").symlink_to(root / "USER.md")
    documents = folders(root)
    assert (
        await documents.read(ME, "SOUL.md")
    ).notice == "[SOUL.md is a link to nothing: not read]"
    assert "USER.md" in (await documents.read(ME, "USER.md")).notice


async def test_a_pipe_and_a_folder_are_told_and_never_waited_for(root: Path) -> None:
    os.mkfifo(root / "SOUL.md")
    (root / "USER.md").mkdir()
    documents = folders(root)
    for name in ("SOUL.md", "USER.md"):
        page = await documents.read(ME, name)
        assert page.text == ""
        assert name in page.notice


async def test_a_case_twin_is_not_loaded_beside_the_page(root: Path) -> None:
    (root / "MEMORY.md").write_bytes(b"the page")
    (root / "memory.md").write_bytes(b"the twin")
    assert (await folders(root).read(ME, "MEMORY.md")).text == "the page"
    await folders(root).seed(ME)
    assert (root / "memory.md").read_bytes() == b"the twin"


@pytest.mark.parametrize(
    "user", ["../../elsewhere", "a/b", "..", ".", "", "x" * 300, "ü", "a\x00b"]
)
async def test_no_user_id_leads_out_of_the_users_folders(root: Path, user: str) -> None:
    documents = folders(root)
    await documents.seed(UserId(user))
    assert (await documents.read(UserId(user), "SOUL.md")).text
    users = list((root.parent / "workspaces").iterdir())
    assert len(users) == 1
    assert (users[0] / "SOUL.md").is_file()
    assert sorted(os.listdir(root.parent)) == ["workspace", "workspaces"]


async def test_a_heartbeat_behind_a_link_is_written_where_the_link_leads(root: Path) -> None:
    (root / "state.md").write_bytes(b"## Schedule\nmine")
    (root / "HEARTBEAT.md").symlink_to("state.md")
    await folders(root).write_heartbeat(ME, HEARTBEAT)
    assert (root / "HEARTBEAT.md").is_symlink()
    assert (root / "state.md").read_bytes().endswith(b"## Schedule\nmine")


async def test_a_heartbeat_that_leads_out_or_is_no_file_is_not_touched(root: Path) -> None:
    outside = root.parent / "outside.md"
    outside.write_bytes(b"theirs")
    (root / "HEARTBEAT.md").symlink_to(outside)
    with pytest.raises(OSError, match="link out of the workspace"):
        await folders(root).write_heartbeat(ME, HEARTBEAT)
    assert outside.read_bytes() == b"theirs"
    (root / "HEARTBEAT.md").unlink()
    os.mkfifo(root / "HEARTBEAT.md")
    with pytest.raises(OSError, match="not a regular file"):
        await folders(root).write_heartbeat(ME, HEARTBEAT)


async def test_no_draft_is_left_behind(root: Path) -> None:
    await folders(root).write_heartbeat(ME, HEARTBEAT)
    assert os.listdir(root) == ["HEARTBEAT.md"]
