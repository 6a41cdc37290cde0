"""The promises of the store hold on a PostgreSQL that runs in a container, over TCP."""

import os
import re
import subprocess
import sys

import pytest
from testcontainers.community.postgres import PostgresContainer

from support.source import ROOT

pytestmark = pytest.mark.timeout(300)

CONTRACTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("test_database*.py", "test_leases.py")
    for path in (ROOT / "tests/contract").glob(pattern)
)
NAME = "minara-test-contracts"
"""test.sh removes it by this name should the suite be killed."""
LEAST = 40
"""Fewer contracts on PostgreSQL than this would mean that they were not found."""


def test_store_contracts_hold_on_a_container() -> None:
    image = os.environ["POSTGRES_IMAGE"]  # noqa: TID251 - which image there is, the script knows
    container = PostgresContainer(image, password="test-only", driver=None).with_name(NAME)
    with container as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("-k", "postgresql", "--postgres", server.get_connection_url()),
                *CONTRACTS,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= LEAST
