"""The money counter outside the database: never lower, never half, one for all processes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minara_tools.adapters.counter_file import (
    CounterFile,
    CounterFileDamaged,
    CounterOfAnotherDatabase,
    CounterRecord,
)

DIES = """
import os, signal, sys
from pathlib import Path
from minara_tools.adapters.counter_file import CounterFile

def die(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

CounterFile(Path(sys.argv[1]), host="here", failpoint=die).advance("db", 8)
"""

ADVANCES = """
import sys
from pathlib import Path
from minara_tools.adapters.counter_file import CounterFile

file = CounterFile(Path(sys.argv[1]), host=sys.argv[2])
for counter in range(int(sys.argv[3]), 200, 2):
    file.advance("db", counter)
    record = file.read()
    assert record is not None and record.counter >= counter, record
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "money-counter.json"


def a_record(counter: int, *, host: str = "here") -> CounterRecord:
    return CounterRecord(database_id="db", host=host, counter=counter)


def test_a_file_that_is_missing_says_nothing(path: Path) -> None:
    assert CounterFile(path, host="here").read() is None


def test_what_was_advanced_is_read_by_the_next_process(path: Path) -> None:
    CounterFile(path, host="here").advance("db", 7)
    assert CounterFile(path, host="elsewhere").read() == a_record(7)
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("counter", [0, 6, 7])
def test_a_counter_that_is_not_higher_leaves_the_file_as_it_is(path: Path, counter: int) -> None:
    CounterFile(path, host="here").advance("db", 7)
    before = path.read_bytes(), path.stat().st_ino
    CounterFile(path, host="elsewhere").advance("db", counter)
    assert (path.read_bytes(), path.stat().st_ino) == before


def test_another_database_advances_nothing_until_it_is_adopted(path: Path) -> None:
    file = CounterFile(path, host="here")
    file.advance("db", 7)
    with pytest.raises(CounterOfAnotherDatabase):
        file.advance("other", 9)
    assert file.read() == a_record(7)
    file.adopt("other", 3)
    assert file.read() == CounterRecord(database_id="other", host="here", counter=3)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"database_id": "db", "host": "here"}',
        '{"database_id": "db", "host": "here", "counter": "7"}',
        '{"database_id": "db", "host": "here", "counter": -1}',
        '{"database_id": "db", "host": "here", "counter": 1.5}',
        '{"database_id": "db", "host": "here", "counter": true}',
        '{"database_id": "", "host": "here", "counter": 7}',
        '{"database_id": 1, "host": "here", "counter": 7}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_and_stays_as_it_is(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content, "ascii")
    file = CounterFile(path, host="here")
    with pytest.raises(CounterFileDamaged):
        file.read()
    with pytest.raises(CounterFileDamaged):
        file.advance("db", 9)
    assert path.read_text("ascii") == content
    file.adopt("db", 9)
    assert file.read() == a_record(9)


def test_bytes_that_are_no_text_are_damage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff\x00")
    with pytest.raises(CounterFileDamaged):
        CounterFile(path, host="here").read()


@pytest.mark.parametrize(("database_id", "counter"), [("", 1), ("db", -1)])
def test_what_could_not_be_read_back_is_not_written(
    path: Path, database_id: str, counter: int
) -> None:
    with pytest.raises(ValueError, match="counter"):
        CounterFile(path, host="here").advance(database_id, counter)
    assert not path.exists()


def child(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", *arguments])


def test_a_process_killed_before_the_rename_leaves_the_old_counter(path: Path) -> None:
    file = CounterFile(path, host="here")
    file.advance("db", 7)
    assert child(DIES, str(path), "counter-drafted").wait(30) == -signal.SIGKILL
    assert file.read() == a_record(7)
    file.advance("db", 8)
    assert file.read() == a_record(8)


def test_two_processes_never_take_the_counter_back(path: Path) -> None:
    children = [
        child(ADVANCES, str(path), host, str(first)) for host, first in [("a", 1), ("b", 2)]
    ]
    assert [process.wait(60) for process in children] == [0, 0]
    record = CounterFile(path, host="here").read()
    assert record is not None
    assert record.counter == 199
    assert json.loads(path.read_bytes())["database_id"] == "db"
    leftovers = {file.name for file in path.parent.iterdir()} - {path.name, f"{path.name}.lock"}
    assert not leftovers
