"""The sandbox's one opener against real links and devices: one suite for both ways of resolving."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from minara_core.ids import UserId
from minara_tools.adapters import sandbox_files
from minara_tools.adapters.sandbox_files_beneath import KernelOpener, best_opener
from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed
from support.tools_sandbox import SECRET, Box, a_box, kernel_opener, opener_named


@pytest.fixture(params=["kernel", "walk"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    return a_box(tmp_path, opener_named(request.param))


def test_the_kernel_resolves_where_it_can() -> None:
    kernel_opener()
    assert isinstance(best_opener(), KernelOpener)


async def test_a_file_is_read_back(box: Box) -> None:
    assert await box.write("notes/2026/eth.md", b"hold") == "notes/2026/eth.md"
    assert await box.read("notes/2026/eth.md") == b"hold"
    assert await box.read("./notes//2026/./eth.md") == b"hold"
    assert (box.home / "notes/2026/eth.md").stat().st_mode & 0o777 == 0o600


async def test_writing_replaces_the_whole_file(box: Box) -> None:
    await box.write("a", b"a long text")
    assert await box.write("a", b"short") == "a"
    assert await box.read("a") == b"short"
    assert os.listdir(box.home) == ["a"]


async def test_a_reader_keeps_the_file_it_opened(box: Box) -> None:
    await box.write("a", b"before")
    with (box.home / "a").open("rb") as reader:
        await box.write("a", b"after")
        assert reader.read() == b"before"


async def test_users_have_folders_of_their_own(box: Box) -> None:
    await box.write("a", b"mine")
    with pytest.raises(ToolFailed):
        await box.files.read(UserId("somebody"), "a")
    for strange in ("../local", "..", "a/b", "", ".", "=x", "x" * 200, "local\0"):
        with pytest.raises(ToolFailed):
            await box.files.read(UserId(strange), "a")
    assert await box.read("a") == b"mine"
    assert {path.name for path in box.home.parent.parent.iterdir()} == {"files", "outside"}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "..", "../outside/secret", "a/../../outside/secret", "a/..", "", ".", "/",
        "~/x", "a\0b", "a\nb", "..\\x", "C:\\x", "con", "NUL.txt", "a/lpt1", "aux .md", "a/con./b",
        "x" * 256, "/".join("x" * 33), "a" * 1_025, ".minara-writing", "a/.minara-writing",
        "\ud800",
    ],
)  # fmt: skip
async def test_a_path_that_is_no_plain_relative_one_is_refused(box: Box, path: str) -> None:
    await box.escapes(path)


async def test_a_link_that_stays_inside_is_followed(box: Box) -> None:
    await box.write("real/deep/note", b"found")
    (box.home / "file-link").symlink_to("real/deep/note")
    (box.home / "folder-link").symlink_to("real")
    (box.home / "real/up").symlink_to("../real/deep")
    assert await box.read("file-link") == b"found"
    assert await box.read("folder-link/deep/note") == b"found"
    assert await box.read("real/up/note") == b"found"


async def test_writing_through_an_inside_link_changes_the_file_not_the_link(box: Box) -> None:
    await box.write("real/note", b"old")
    (box.home / "link").symlink_to("real/note")
    (box.home / "folder").symlink_to("real")
    assert await box.write("link", b"new") == "real/note"
    assert (box.home / "link").is_symlink()
    assert await box.read("real/note") == b"new"
    assert await box.write("folder/other", b"x") == "real/other"
    assert await box.write("folder/deep/er", b"y") == "real/deep/er"
    assert (box.home / "real/deep/er").read_bytes() == b"y"


async def test_a_link_that_leads_out_is_refused(box: Box) -> None:
    (box.home / "relative").symlink_to("../../outside/secret")
    (box.home / "absolute").symlink_to(box.outside / "secret")
    (box.home / "folder").symlink_to("../../outside")
    (box.home / "chain").symlink_to("relative")
    (box.home / "root").symlink_to("/")
    for path in ("relative", "absolute", "folder/secret", "chain", "root/etc/passwd"):
        await box.escapes(path)
    with pytest.raises(SandboxEscapeError):
        await box.write("folder/new")
    assert (box.outside / "secret").read_bytes() == SECRET
    assert os.listdir(box.outside) == ["secret"]


async def test_an_absolute_link_is_refused_also_where_it_points_inside(box: Box) -> None:
    await box.write("real")
    (box.home / "link").symlink_to(box.home / "real")
    await box.escapes("link")


async def test_a_link_that_leaves_and_comes_back_is_refused(box: Box) -> None:
    await box.write("real")
    (box.home / "link").symlink_to("../local/real")
    await box.escapes("link")


async def test_a_sibling_whose_name_begins_with_the_folders_is_outside(box: Box) -> None:
    sibling = box.home.with_name("local-evil")
    sibling.mkdir()
    (sibling / "secret").write_bytes(SECRET)
    (box.home / "link").symlink_to("../local-evil/secret")
    await box.escapes("link")
    await box.escapes("../local-evil/secret")


async def test_nothing_is_created_through_a_dangling_link(box: Box) -> None:
    (box.home / "inside").symlink_to("nowhere")
    (box.home / "outside").symlink_to("../../outside/new")
    (box.home / "folder").symlink_to("no-folder")
    await box.is_absent("inside")
    for path in ("inside", "outside", "folder/new"):
        with pytest.raises(SandboxEscapeError):
            await box.write(path)
    assert os.listdir(box.outside) == ["secret"]
    assert sorted(os.listdir(box.home)) == ["folder", "inside", "outside"]


async def test_a_circle_of_links_ends(box: Box) -> None:
    (box.home / "a").symlink_to("b")
    (box.home / "b").symlink_to("a")
    await box.escapes("a")


async def test_forty_links_are_followed_and_no_more(box: Box) -> None:
    await box.write("0", b"end")
    for number in range(1, 42):
        (box.home / str(number)).symlink_to(str(number - 1))
    assert await box.read("40") == b"end"
    await box.escapes("41")


async def test_a_magic_link_is_refused(box: Box) -> None:
    (box.home / "link").symlink_to("/proc/self/root/etc/passwd")
    await box.escapes("link")


async def test_a_hard_link_is_refused(box: Box) -> None:
    os.link(box.outside / "secret", box.home / "hard")
    await box.escapes("hard")
    assert (box.outside / "secret").read_bytes() == SECRET


async def test_what_is_no_plain_file_is_refused(box: Box) -> None:
    os.mkfifo(box.home / "fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    os.chdir(box.home)
    try:
        server.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
        server.close()
    async with asyncio.timeout(5):
        await box.escapes("fifo")
        await box.escapes("socket")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
async def test_a_device_is_refused(box: Box) -> None:
    try:
        os.mknod(box.home / "null", 0o666 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    await box.escapes("null")


async def test_a_folder_is_no_file(box: Box) -> None:
    (box.home / "folder").mkdir()
    for attempt in (box.read("folder"), box.write("folder")):
        with pytest.raises(ToolFailed) as failed:
            await attempt
        assert failed.value.reason == "NOT_A_FILE"


async def test_a_file_is_no_folder(box: Box) -> None:
    await box.write("file", b"kept")
    await box.is_absent("file/below")
    with pytest.raises(ToolFailed):
        await box.write("file/below")
    assert await box.read("file") == b"kept"


async def test_what_a_crash_left_behind_is_no_obstacle(box: Box) -> None:
    (box.home / ".minara-writing").write_bytes(b"half")
    await box.write("a", b"whole")
    assert os.listdir(box.home) == ["a"]


async def test_no_descriptor_stays_open(box: Box) -> None:
    (box.home / "link").symlink_to("../../outside/secret")
    await box.write("x/y/z", b"1")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await box.write("x/y/z", b"2")
        await box.read("x/y/z")
        await box.escapes("link")
        await box.is_absent("x/nothing")
    assert len(os.listdir("/proc/self/fd")) == before


def test_toolsets_open_no_files_themselves() -> None:
    folder = Path(sandbox_files.__file__).parent.parent / "toolsets"
    for path in folder.rglob("*.py"):
        source = path.read_text("utf-8")
        assert not any(word in source for word in ("open(", "pathlib", "import os", "shutil")), path
