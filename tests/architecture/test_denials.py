"""Every denial reason is documented, and what the gates tell is what the documents say."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from minara_core.denial_docs import denial_docs
from minara_core.reasons import DenialReason
from support.source import ROOT, name_of, parsed, python_files

DOMAIN = ROOT / "services/tools/minara_tools/domain"


def test_every_reason_is_documented_and_none_is_made_up() -> None:
    assert set(denial_docs()) == set(DenialReason)
    for doc in denial_docs().values():
        assert doc.meaning.endswith("."), doc.reason
        assert doc.remedy.endswith("."), doc.reason
        assert not set(doc.keys) & set(doc.optional), doc.reason


def test_the_page_is_made_from_the_table() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/generate_denials.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "generate_denials.py --check" in (ROOT / "scripts/check.sh").read_text("utf-8")


def test_the_contract_names_the_same_metadata() -> None:
    text = (ROOT / "proto/minara/type/v1/error_reason.proto").read_text("utf-8")
    wrong: list[str] = []
    for comment, name in re.findall(r"((?:  //[^\n]*\n)+)  DENIAL_REASON_(\w+) = \d+;", text):
        if name == "UNSPECIFIED":
            continue
        doc = denial_docs()[DenialReason(name)]
        words = " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
        keys = [*doc.keys, *(f"{key} (where known)" for key in doc.optional)]
        wanted = doc.meaning + (f" metadata: {', '.join(keys)}." if keys else "")
        if words != wanted:
            wrong.append(f"{name}: {words!r} should be {wanted!r}")
    assert not wrong, wrong


def test_every_refusal_in_the_domain_tells_what_is_documented() -> None:
    """Where the metadata is written out; the rest is asserted case by case by the unit tests."""
    checked, wrong = 0, list[str]()
    for path in python_files("services"):
        if DOMAIN not in path.parents:
            continue
        for line, reason, keys in _refusals(path):
            checked += 1
            if not denial_docs()[reason].allows(keys):
                wrong.append(f"{name_of(path)}:{line}: {reason} tells {sorted(keys)}")
    assert not wrong, wrong
    assert checked > 30


def _refusals(path: Path) -> Iterator[tuple[int, DenialReason, set[str]]]:
    for node in ast.walk(parsed(path)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id != "ToolCallBlockedError" or not node.args:
            continue
        reason, keys = _reason(node.args[0]), _keys(node)
        if reason is not None and keys is not None:
            yield node.lineno, reason, keys


def _reason(node: ast.expr) -> DenialReason | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return DenialReason(node.attr) if node.value.id == "DenialReason" else None
    return None


def _keys(call: ast.Call) -> set[str] | None:
    given = [one.value for one in call.keywords if one.arg == "metadata"]
    if not given:
        return set()
    keys = given[0].keys if isinstance(given[0], ast.Dict) else [None]
    found = {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return found if len(found) == len(keys) else None
