"""Generate libs/minara_protos/minara from proto/; with --check, only compare.

The root of proto/ is the Python import root too, so nothing has to be rewritten afterwards.
"""

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
OUTPUT = ROOT / "libs" / "minara_protos" / "minara"


def generate(into: Path) -> None:
    """Write the whole package `minara` below `into`."""
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    arguments = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        f"-I{PROTO}",
        f"--plugin=protoc-gen-mypy={Path(sys.executable).parent / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={Path(sys.executable).parent / 'protoc-gen-mypy_grpc'}",
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--mypy_out=quiet:{into}",
        f"--mypy_grpc_out=quiet:{into}",
        *files,
    ]
    subprocess.run(arguments, check=True)
    for path in into.rglob("*_pb2_grpc.py*"):
        service = path.name.split("_pb2_grpc")[0]
        if not service.endswith("_service"):
            path.unlink()
    for folder in {path.parent for path in into.rglob("*_pb2.py")} | {into / "minara"}:
        for package in (folder, *folder.parents):
            if package == into:
                break
            (package / "__init__.py").touch()
    (into / "minara" / "py.typed").touch()


def differences(left: Path, right: Path) -> list[str]:
    """Files that differ or exist on one side only, byte for byte."""
    names = {
        str(path.relative_to(side))
        for side in (left, right)
        for path in side.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return sorted(
        name
        for name in names
        if not ((left / name).is_file() and (right / name).is_file())
        or not filecmp.cmp(left / name, right / name, shallow=False)
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / "minara"
        if "--check" in sys.argv:
            stale = differences(fresh, OUTPUT)
            if stale:
                sys.exit("generated code is stale, run `make proto`: " + ", ".join(stale))
            return
        shutil.rmtree(OUTPUT, ignore_errors=True)
        shutil.copytree(fresh, OUTPUT)


if __name__ == "__main__":
    main()
