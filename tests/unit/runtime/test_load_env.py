import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minara_runtime import load_env
from minara_runtime.load_env import EnvFile, Trust, allow, plan, read_files

ROOT = Path(__file__).parents[3]
HARMLESS, HARMFUL = "MINARA_LOG_LEVEL", "MINARA_TOOLS_DATABASE_URL"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".minara").mkdir(parents=True, mode=0o700)
    return tmp_path / "home"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / ".env").write_text(f"{HARMLESS}=debug\n{HARMFUL}=postgresql://evil\n")
    return tmp_path / "checkout"


def own(home: Path, text: str, mode: int = 0o600) -> Path:
    path = home / ".minara" / "env"
    path.write_text(text)
    path.chmod(mode)
    return path


def a_file(*names: str, trust: Trust = Trust.ALL) -> EnvFile:
    return EnvFile(
        path=Path("file"),
        variables=tuple((name, "from file") for name in names),
        trust=trust,
        reason="" if trust is Trust.ALL else "not harmless",
    )


def test_the_shell_wins_over_every_file() -> None:
    chosen, account = plan({HARMFUL: "from shell"}, [a_file(HARMFUL, "MINARA_OTHER")])
    assert chosen == {"MINARA_OTHER": "from file"}
    assert account.taken == (("MINARA_OTHER", "file"),)


def test_an_untrusted_file_gives_harmless_variables_only() -> None:
    chosen, account = plan({}, [a_file(HARMLESS, HARMFUL, trust=Trust.HARMLESS)])
    assert chosen == {HARMLESS: "from file"}
    assert account.ignored == ((HARMFUL, "file", "not harmless"),)


def test_a_strangers_env_file_cannot_redirect_anything(home: Path, checkout: Path) -> None:
    chosen, account = plan({}, read_files(checkout, home))
    assert chosen == {HARMLESS: "debug"}
    assert [name for name, _, _ in account.ignored] == [HARMFUL]


def test_an_allowed_file_gives_everything_until_it_changes(home: Path, checkout: Path) -> None:
    path = checkout / ".env"
    allow(path, home=home)
    chosen, _ = plan({}, read_files(checkout, home))
    assert chosen == {HARMLESS: "debug", HARMFUL: "postgresql://evil"}
    path.write_text(path.read_text() + "MINARA_MORE=1\n")
    chosen, account = plan({}, read_files(checkout, home))
    assert chosen == {HARMLESS: "debug"}
    assert [name for name, _, _ in account.ignored] == [HARMFUL, "MINARA_MORE"]


def test_a_list_of_allowed_files_that_others_may_write_allows_nothing(
    home: Path, checkout: Path
) -> None:
    allow(checkout / ".env", home=home)
    (home / ".minara" / "allowed-env.json").chmod(0o666)
    chosen, _ = plan({}, read_files(checkout, home))
    assert chosen == {HARMLESS: "debug"}


def test_the_own_file_gives_everything(home: Path, tmp_path: Path) -> None:
    own(home, f"{HARMFUL}=postgresql://mine\n")
    chosen, account = plan({}, read_files(tmp_path, home))
    assert chosen == {HARMFUL: "postgresql://mine"}
    assert account.ignored == ()


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_own_file_that_others_may_write_gives_nothing(
    home: Path, tmp_path: Path, mode: int
) -> None:
    own(home, f"{HARMLESS}=debug\n{HARMFUL}=x\n", mode)
    chosen, account = plan({}, read_files(tmp_path, home))
    assert chosen == {}
    assert {name for name, _, _ in account.ignored} == {HARMLESS, HARMFUL}


def test_an_own_folder_that_others_may_write_gives_nothing(home: Path, tmp_path: Path) -> None:
    own(home, f"{HARMFUL}=x\n")
    (home / ".minara").chmod(0o777)
    assert plan({}, read_files(tmp_path, home))[0] == {}


def test_values_are_taken_literally(home: Path, tmp_path: Path) -> None:
    own(home, "A=${HOME}/x\nB='quoted value'\nC\nD=\n")
    chosen, _ = plan({}, read_files(tmp_path, home))
    assert chosen == {"A": "${HOME}/x", "B": "quoted value", "D": ""}


def test_importing_it_loads_and_accounts(home: Path, checkout: Path) -> None:
    own(home, "MINARA_OWN=1\n")
    script = (
        "import minara_runtime.load_env as e, os;"
        "print(os.environ['MINARA_OWN'], os.environ['MINARA_LOG_LEVEL'],"
        " os.environ.get('MINARA_TOOLS_DATABASE_URL'), [n for n, _ in e.loaded.taken],"
        " [n for n, _, _ in e.ignored])"
    )
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}  # noqa: TID251 - for the child
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split("\n")[0] == (
        "1 debug None ['MINARA_LOG_LEVEL', 'MINARA_OWN'] ['MINARA_TOOLS_DATABASE_URL']"
    )


def test_harmless_is_what_the_example_marks_as_harmless() -> None:
    marked: set[str] = set()
    is_harmless = False
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        variable = re.match(r"#?\s*([A-Z][A-Z0-9_]+)=", line)
        if variable is not None and is_harmless:
            marked.add(variable[1])
        is_harmless = line.endswith("# harmless")
    assert marked == load_env.HARMLESS
