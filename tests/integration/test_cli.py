"""The command as a person meets it: clear ends, private files, one engine per data folder."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

MINARA = Path(sys.executable).parent / "minara"


def environment(home: Path, **changes: str) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if n in {"PATH", "LANG"}}  # noqa: TID251 - the child's environment is explicit
    return kept | {"HOME": str(home), "MINARA_DATA_DIR": str(home / "data")} | changes


def minara(
    home: Path, *arguments: str, stdin: bytes = b"", changes: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [MINARA, *arguments],
        env=environment(home, **(changes or {})),
        cwd=home,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
    )


def says(done: subprocess.CompletedProcess[bytes], *words: str) -> bool:
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert "Traceback" not in output, output
    return all(word in output for word in words)


def test_one_question_one_answer_and_everything_kept_private(tmp_path: Path) -> None:
    done = minara(tmp_path, "chat", "--message", "price of BTC")
    assert done.returncode == 0
    assert says(done, "BTC:", "simulated")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        if not path.is_symlink():
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"MINARA_PORT": "abc"}, ["MINARA_PORT"]),
        ({"MINARA_LOG_LEVEL": "loud"}, ["MINARA_LOG_LEVEL"]),
        ({"MINARA_DATA_DIR": "/dev/null"}, ["/dev/null"]),
        ({"MINARA_DATA_DIR": "/proc/nowhere"}, ["/proc/nowhere"]),
    ],
)
def test_a_wrong_setting_is_named_and_ends_with_2(
    tmp_path: Path, changes: dict[str, str], words: list[str]
) -> None:
    done = minara(tmp_path, "chat", "--message", "hi", changes=changes)
    assert done.returncode == 2
    assert says(done, *words)


@pytest.mark.parametrize("arguments", [["chat", "--json"], ["serve", "--port", "99999"]])
def test_a_wrong_call_ends_with_2(tmp_path: Path, arguments: list[str]) -> None:
    assert minara(tmp_path, *arguments).returncode == 2


def test_a_broken_database_is_told_without_a_traceback(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "tools.db").write_bytes(b"not a database, whatever its name says " * 100)
    done = minara(tmp_path, "chat", "--message", "hi")
    assert done.returncode == 1
    assert says(done, "database")


def test_bytes_that_are_no_utf_8_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    done = minara(tmp_path, "chat", stdin=b"\xff\xfe price of BTC\n/quit\n")
    assert done.returncode == 0
    assert says(done, "BTC:")


def test_a_halt_with_nothing_running_holds_until_a_person_resumes(tmp_path: Path) -> None:
    assert says(minara(tmp_path, "halt"), "minara resume")
    halted = minara(tmp_path, "chat", stdin=b"buy $50 of ETH\n/quit\n")
    assert says(halted, "trading is HALTED", "TRADING_HALTED")
    refused = minara(tmp_path, "resume")
    assert refused.returncode == 2
    assert says(refused, "--yes")
    assert says(minara(tmp_path, "resume", "--yes"), "trading is ACTIVE")
    assert says(minara(tmp_path, "chat", "-m", "buy $50 of ETH"), "nothing was executed")


async def test_those_who_start_at_once_share_one_engine(tmp_path: Path) -> None:
    async def ask() -> tuple[int | None, bytes]:
        process = await asyncio.create_subprocess_exec(
            MINARA,
            *("chat", "--message", "price of BTC"),
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, output

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask()) for _ in range(3)]
    for task in asking:
        code, output = task.result()
        assert code == 0, output
        assert b"BTC:" in output
