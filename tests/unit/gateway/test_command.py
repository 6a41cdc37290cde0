"""`minara service NAME` starts that service without importing the others."""

import subprocess
import sys

PROBE = """
import runpy, sys
from minara_gateway import command
started = []
runpy.run_module = lambda name, run_name: started.append((name, run_name))
sys.argv = ["minara", "service", sys.argv[1]]
command.main()
print(started, "minara_gateway.cli" in sys.modules)
"""


def probed(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROBE, name], capture_output=True, text=True, check=False
    )


def test_a_service_is_run_as_its_own_module() -> None:
    assert probed("tools").stdout == "[('minara_tools', '__main__')] False\n"


def test_an_unknown_service_is_refused_by_the_command_line() -> None:
    done = probed("nothing")
    assert done.returncode == 2
    assert "no service nothing" in done.stderr
