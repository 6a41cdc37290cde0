"""The contracts: enums agree with the core, and a break of the wire is refused."""

import re
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest

from support.source import ROOT

BUF = Path(sys.executable).parent / "buf"


def _enum_in_proto(name: str, prefix: str) -> set[str]:
    text = (ROOT / "proto/minara/type/v1/error_reason.proto").read_text("utf-8")
    body = re.search(rf"enum {name} {{(.*?)\n}}", text, re.DOTALL)
    assert body is not None
    members = re.findall(rf"^  {prefix}_(\w+) = \d+;", body[1], re.MULTILINE)
    return set(members) - {"UNSPECIFIED"}


@pytest.mark.parametrize(
    ("name", "prefix"), [("ErrorReason", "ERROR_REASON"), ("DenialReason", "DENIAL_REASON")]
)
def test_reasons_are_the_same_on_the_wire_and_in_the_core(name: str, prefix: str) -> None:
    from minara_core import reasons

    members: type[StrEnum] = getattr(reasons, name)
    assert _enum_in_proto(name, prefix) == {member.value for member in members}


def _breaking(against: Path, proto: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUF, "breaking", "--against", str(against)],
        cwd=proto.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_break_of_the_wire_is_refused(tmp_path: Path) -> None:
    """What `make check` does once proto/released.binpb exists, on a planted break."""
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copy(ROOT / "buf.yaml", tmp_path / "buf.yaml")
    released = tmp_path / "released.binpb"
    subprocess.run([BUF, "build", "-o", str(released)], cwd=tmp_path, check=True)
    assert _breaking(released, tmp_path / "proto").returncode == 0
    event = tmp_path / "proto/minara/agent/v1/event.proto"
    changed = event.read_text("utf-8").replace("string text = 1;", "int32 text = 1;", 1)
    event.write_text(changed, "utf-8")
    refused = _breaking(released, tmp_path / "proto")
    assert refused.returncode != 0
    assert "text" in refused.stdout


def test_check_compares_with_the_release_once_there_is_one() -> None:
    script = (ROOT / "scripts/check.sh").read_text("utf-8")
    assert "if [ -f proto/released.binpb ]" in script
    assert "buf breaking --against proto/released.binpb" in script


def test_stale_generated_code_is_noticed(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from generate_protos import differences  # pyright: ignore[reportMissingImports, reportUnknownVariableType] - a script, not a package
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    left, right = tmp_path / "left", tmp_path / "right"
    for side in (left, right):
        side.mkdir()
        (side / "same.py").write_text("x", "utf-8")
    assert differences(left, right) == []
    (right / "same.py").write_text("y", "utf-8")
    (left / "only.py").write_text("", "utf-8")
    assert differences(left, right) == ["only.py", "same.py"]
