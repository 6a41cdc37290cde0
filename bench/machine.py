"""What the figures were measured on: numbers of another machine, or of a busy one, are others."""

import os
import platform
import subprocess
import tempfile
from pathlib import Path


def machine() -> dict[str, str]:
    """Processor, cores, memory, file system of the throwaway data, Python, commit and load."""
    cpu = _first(Path("/proc/cpuinfo"), "model name") or platform.processor()
    memory = _first(Path("/proc/meminfo"), "MemTotal")
    return {
        "machine": f"{os.cpu_count()} x {cpu}, {memory}",
        "disk": _line("stat", "-f", "-c", "%T", tempfile.gettempdir()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _line("git", "describe", "--always", "--dirty"),
    }


def load() -> float:
    """The load average of the last minute: above the number of cores, times say little."""
    return os.getloadavg()[0]


def _first(file: Path, key: str) -> str:
    if not file.exists():
        return ""
    found = [line for line in file.read_text().splitlines() if line.startswith(key)]
    return " ".join(found[0].partition(":")[2].split()) if found else ""


def _line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
