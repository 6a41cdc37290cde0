"""Habits that a machine can watch: purity at import, narrow catches, borders of the wire."""

import ast
import re
import subprocess
import sys

import pytest

from support.source import ROOT, name_of, parsed, python_files, tracked

SOURCES = python_files("libs", "services")

BROAD_CATCHES = {
    "services/tools/minara_tools/app/execute_tools.py": "the tool dispatcher",
    "services/orchestrator/minara_orchestrator/app/run_turn.py": "the turn runner",
    "services/orchestrator/minara_orchestrator/app/judge_goal.py": "a recorded turn is not lost",
    "libs/minara_runtime/minara_runtime/service.py": "background jobs",
    "services/tools/minara_tools/app/recover_operations.py": "one operation keeps no other back",
    "libs/minara_runtime/minara_runtime/interceptors.py": "the error interceptor",
}
ACTS_AT_IMPORT = {"minara_runtime.load_env"}

IMPORT_ALL = """
import importlib, os, socket, sys
os.environ.clear()
def refuse(*a, **k): raise AssertionError("a module opened a socket at import")
socket.socket.connect = refuse
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def _modules() -> list[str]:
    names: list[str] = []
    for path in SOURCES:
        parts = list(path.relative_to(ROOT).with_suffix("").parts)[2:]
        if "migrations" in parts or "alembic_env" in parts or parts[-1] == "__main__":
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and name not in ACTS_AT_IMPORT:
            names.append(name)
    return names


def test_nothing_happens_at_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *_modules()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout


def test_package_inits_are_empty() -> None:
    filled = [name_of(p) for p in SOURCES if p.name == "__init__.py" and p.read_text("utf-8")]
    assert not filled, filled


def test_broad_catches_stand_in_their_places_only() -> None:
    found = {
        name_of(path)
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    }
    assert found <= set(BROAD_CATCHES), found - set(BROAD_CATCHES)


def test_wire_types_are_written_with_their_module() -> None:
    direct = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and node.module
        and re.fullmatch(r"minara(\..+)?_pb2(_grpc)?", node.module)
    ]
    assert not direct, direct


def test_no_mutable_values_at_module_level() -> None:
    mutable = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in parsed(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp)
        and "migrations" not in path.parts
    ]
    assert not mutable, mutable


@pytest.mark.parametrize("path", tracked("**/pyproject.toml", "pyproject.toml"), ids=name_of)
def test_members_stay_small(path: object) -> None:
    from pathlib import Path

    assert isinstance(path, Path)
    if path.parent != ROOT:
        assert len(path.read_text("utf-8").splitlines()) <= 45


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-image.lock"])
def test_the_lock_names_no_registry(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert "://" not in text
    assert "--hash=sha256:" in text
    assert "uv.lock" in (ROOT / ".gitignore").read_text("utf-8")


def test_what_ships_is_locked_as_it_is_tested() -> None:
    def pins(lock: str) -> set[str]:
        lines = (ROOT / lock).read_text("utf-8").splitlines()
        return {line.partition(" ")[0] for line in lines if "==" in line}

    assert pins("requirements-image.lock") < pins("requirements.lock")
