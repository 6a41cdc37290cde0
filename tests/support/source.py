"""The repository's own source, for tests that check the house."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """Files that git tracks or would track, as absolute paths, generated code left out."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    paths = (ROOT / name for name in listing if not name.startswith("libs/minara_protos/minara/"))
    return tuple(path for path in paths if path.is_file())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def python_files(*roots: str) -> tuple[Path, ...]:
    """Python files below the given top-level folders."""
    return tuple(path for root in roots for path in tracked(f"{root}/**.py", f"{root}/*.py"))


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a file with its qualified name."""
    yield from _functions(parsed(path), "")


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))
