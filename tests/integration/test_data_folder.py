"""The data folder: private, and used by one process at a time."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from minara_core.errors import Conflict, InvalidRequest
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database

HOLD = """
import sys
from pathlib import Path
from minara_runtime.data_folder import DataFolder

lock = DataFolder(Path(sys.argv[1])).lock("tools")
print("held", flush=True)
sys.stdin.read()
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_private(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "a" / "data")
    assert mode(folder.path) == 0o700
    assert mode(folder.keys("tools")) == 0o700
    assert folder.keys("tools") == folder.path / "keys" / "tools"
    assert folder.keys("gateway") != folder.keys("tools")


@pytest.mark.parametrize("bits", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "data"
    path.mkdir()
    path.chmod(bits)
    with pytest.raises(InvalidRequest, match="chmod"):
        DataFolder(path)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("")
    with pytest.raises(InvalidRequest, match="not a folder"):
        DataFolder(path)


def test_a_lock_has_one_holder_until_released(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    lock = folder.lock("tools")
    folder.lock("skills").release()
    with pytest.raises(Conflict) as taken:
        folder.lock("tools")
    assert taken.value.metadata["pid"] == str(os.getpid())
    lock.release()
    lock.release()
    folder.lock("tools").release()


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict) as taken:
            folder.lock("tools")
        assert taken.value.metadata["pid"] == str(holder.pid)
        holder.kill()
    folder.lock("tools").release()


async def test_its_database_url_opens(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "my data")
    database = Database.open(folder.database_url("tools"))
    assert await database.read(lambda c: c.exec_driver_sql("SELECT 1").scalar()) == 1
    await database.aclose()
    assert (folder.path / "tools.db").exists()
