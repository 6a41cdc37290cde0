"""Whether what `make test-containers` depends on is as it was when that last passed.

inputs.py           ends with 0 when nothing changed since, else with 1 and says what there is
inputs.py --write   notes the files as they are now in tests/containers/green.sha256
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTE = "tests/containers/green.sha256"
PATTERNS = (
    "Dockerfile",
    ".dockerignore",
    "docker-compose.yml",
    "requirements.lock",
    "requirements-image.lock",
    "scripts/containers/*",
    "tests/containers/*",
    "tests/support/compose.py",
    "libs/*/pyproject.toml",
    "services/*/pyproject.toml",
    # How a process starts, where it listens, what it keeps where, and how it ends.
    "services/*/*/main.py",
    "services/*/*/__main__.py",
    "services/*/*/settings.py",
    "services/gateway/minara_gateway/cli_health.py",
    "services/gateway/minara_gateway/cli_keys.py",
    "services/gateway/minara_gateway/command.py",
    "services/gateway/minara_gateway/readiness.py",
    "services/gateway/minara_gateway/serving.py",
    "libs/minara_runtime/minara_runtime/addresses.py",
    "libs/minara_runtime/minara_runtime/channels.py",
    "libs/minara_runtime/minara_runtime/data_folder.py",
    "libs/minara_runtime/minara_runtime/hosting.py",
    "libs/minara_runtime/minara_runtime/keys.py",
    "libs/minara_runtime/minara_runtime/server.py",
    "libs/minara_runtime/minara_runtime/settings.py",
)


def files() -> list[str]:
    """What git tracks, or would track, of these; the note itself left out."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PATTERNS],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return sorted({name for name in listing if name != NOTE and (ROOT / name).is_file()})


def digests() -> str:
    """A line per file, as sha256sum writes it."""
    lines = (f"{hashlib.sha256((ROOT / n).read_bytes()).hexdigest()}  {n}\n" for n in files())
    return "".join(lines)


def changed(before: str, now: str) -> list[str]:
    """The names whose lines differ."""
    differing = set(before.splitlines()) ^ set(now.splitlines())
    return sorted({line.partition("  ")[2] for line in differing})


def main() -> int:
    note, now = ROOT / NOTE, digests()
    if sys.argv[1:] == ["--write"]:
        note.write_text(now, "utf-8")
        print(f"noted {len(now.splitlines())} files in {NOTE}")
        return 0
    before = note.read_text("utf-8") if note.exists() else ""
    if before == now:
        return 0
    print(f"changed since the container tests last passed: {', '.join(changed(before, now))}")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
