"""The sandbox under attack and at its limits: swapped links, quotas, writers at once."""

import asyncio
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from minara_tools.adapters.sandbox_files import SandboxFiles
from minara_tools.domain.outcomes import ToolFailed
from support.tools_sandbox import ME, SECRET, Box, a_box, opener_named


@pytest.fixture(params=["kernel", "walk"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    return a_box(tmp_path, opener_named(request.param))


@pytest.fixture
def swapping(box: Box) -> Generator[Path]:
    """A name that another thread swaps all the time: a plain file, a link out, a folder link."""
    stop = threading.Event()
    name, spare = box.home / "swapped", box.home / "spare"

    def swap() -> None:
        while not stop.is_set():
            spare.write_bytes(b"harmless")
            os.replace(spare, name)
            spare.symlink_to("../../outside/secret")
            os.replace(spare, name)
            spare.symlink_to(box.outside / "secret")
            os.replace(spare, name)

    thread = threading.Thread(target=swap)
    thread.start()
    yield name
    stop.set()
    thread.join()


async def test_a_link_swapped_while_reading_never_wins(box: Box, swapping: Path) -> None:
    refused = 0
    for _ in range(400):
        try:
            content = await box.read(swapping.name)
        except ToolFailed:
            refused += 1
        else:
            assert content in {b"", b"harmless"}
    assert refused > 0


async def test_a_link_swapped_while_writing_never_wins(box: Box, swapping: Path) -> None:
    for _ in range(100):
        try:
            await box.write(swapping.name, b"written")
        except ToolFailed:
            continue
    assert (box.outside / "secret").read_bytes() == SECRET
    assert os.listdir(box.outside) == ["secret"]


async def test_a_folder_swapped_for_a_link_never_wins(box: Box) -> None:
    folder, aside = box.home / "folder", box.home / "aside"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            # A writer may make the folder in between; then the next round swaps that one.
            with suppress(OSError):
                folder.mkdir()
            with suppress(OSError):
                shutil.rmtree(aside, ignore_errors=True)
                os.rename(folder, aside)
                folder.symlink_to("../../outside")
                folder.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(150):
            for attempt in (box.read("folder/secret"), box.write("folder/secret", b"mine")):
                try:
                    assert await attempt != SECRET
                except ToolFailed:
                    continue
    finally:
        stop.set()
        thread.join()
    assert (box.outside / "secret").read_bytes() == SECRET
    assert os.listdir(box.outside) == ["secret"]


async def test_a_file_over_the_limit_is_refused(box: Box) -> None:
    limit = 20 * 1024 * 1024
    with pytest.raises(ToolFailed) as failed:
        await box.write("big", bytes(limit + 1))
    assert failed.value.reason == "FILE_TOO_LARGE"
    assert not (box.home / "big").exists()
    with (box.home / "sparse").open("wb") as file:
        file.truncate(limit + 1)
    with pytest.raises(ToolFailed) as failed:
        await box.read("sparse")
    assert failed.value.reason == "FILE_TOO_LARGE"
    assert await box.write("fits", bytes(limit)) == "fits"
    assert len(await box.read("fits")) == limit


async def test_a_user_has_500_megabytes(box: Box) -> None:
    for number in range(25):
        with (box.home / f"sparse-{number}").open("wb") as file:
            file.truncate(20 * 1024 * 1024)
    with pytest.raises(ToolFailed) as failed:
        await box.write("one-more", b"x")
    assert failed.value.reason == "QUOTA_EXCEEDED"
    assert not (box.home / "one-more").exists()
    assert await box.write("sparse-0", b"smaller") == "sparse-0"
    assert await box.write("one-more", b"x") == "one-more"


async def test_a_user_has_ten_thousand_files(box: Box) -> None:
    for number in range(9_999):
        os.close(os.open(box.home / str(number), os.O_CREAT | os.O_WRONLY))
    with pytest.raises(ToolFailed) as failed:
        await box.write("folder/one", b"x")
    assert failed.value.reason == "QUOTA_EXCEEDED"
    assert not (box.home / "folder").exists()
    await box.write("last", b"x")
    with pytest.raises(ToolFailed):
        await box.write("one-more", b"x")
    assert await box.write("7", b"replaced") == "7"


async def test_writers_at_once_keep_the_quota_and_lose_nothing(box: Box) -> None:
    second = SandboxFiles(box.home.parent)
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            files = box.files if number % 2 else second
            group.create_task(files.write(ME, f"file-{number}", str(number).encode()))
    for number in range(20):
        assert await box.read(f"file-{number}") == str(number).encode()
    assert len(os.listdir(box.home)) == 20
