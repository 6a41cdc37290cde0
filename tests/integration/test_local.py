"""`minara local`: five processes here, started, told apart, and ended by their pids."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from minara_gateway.main import TOKEN_FILE
from support.cluster import HOST
from support.process import minara

SERVICES = {"gateway", "orchestrator", "skills", "tools", "workspace"}


def _buy(url: str, token: str) -> None:
    """A turn and a confirmed purchase cross all five of them."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
        parked = http.post("/v1/chat", json={"message": "buy $50 of ETH"}).json()
        action = parked["pending_actions"][0]
        done = http.post(
            f"/v1/approvals/{action['pending_action_id']}:confirm",
            json={"action_hash": action["action_hash"]},
        )
        assert done.json()["state"] == "ACTION_STATE_DONE"


_BELOW_EPHEMERAL = 16_000
"""No system gives ports from here to 32,000 to connections that name none."""


def _free_ports() -> Iterator[int]:
    first = os.getpid() % 8_000
    for offset in range(8_000):
        port = _BELOW_EPHEMERAL + (first + offset) % 8_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            yield port


@pytest.fixture
def places() -> dict[str, str]:
    """Free ports for all five."""
    names = ("PORT", "ORCHESTRATOR_ADDRESS", "WORKSPACE_ADDRESS", "SKILLS_ADDRESS", "TOOLS_ADDRESS")
    return {
        f"MINARA_{name}": str(port) if name == "PORT" else f"{HOST}:{port}"
        for name, port in zip(names, _free_ports(), strict=False)
    }


def test_five_processes_start_answer_and_end(tmp_path: Path, places: dict[str, str]) -> None:
    data_dir = tmp_path / "data"
    started = minara(data_dir, "local", "up", "--json", **places)
    try:
        assert started.returncode == 0, started.stderr
        facts = json.loads(started.stdout)
        assert set(facts["pids"]) == SERVICES
        peers = httpx.get(f"{facts['url']}/readyz", trust_env=False).json()["peers"]
        assert peers == {"orchestrator": True, "workspace": True, "tools": True}
        for name in ("gateway", "tools"):
            assert minara(data_dir, "health", name, **places).returncode == 0
        logs = {path.stem for path in (data_dir / "local").glob("*.log")}
        assert logs == SERVICES
        _buy(facts["url"], (data_dir / TOKEN_FILE).read_text("ascii"))
        again = minara(data_dir, "local", "up", **places)
        assert again.returncode == 1
        assert "already running" in again.stderr
        assert minara(data_dir, "local", "status", **places).returncode == 0
    finally:
        ended = minara(data_dir, "local", "down", **places)
    assert ended.returncode == 0, ended.stderr
    assert minara(data_dir, "local", "status", **places).returncode == 1
    assert minara(data_dir, "health", "tools", **places).returncode == 1
    assert "nothing runs here" in minara(data_dir, "local", "down", **places).stdout


def test_a_start_that_fails_names_the_service_and_leaves_nothing(
    tmp_path: Path, places: dict[str, str]
) -> None:
    data_dir = tmp_path / "data"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(places["MINARA_PORT"])))
        taken.listen()
        failed = minara(data_dir, "local", "up", **places)
    assert failed.returncode == 1
    assert "gateway did not become ready" in failed.stderr
    assert f"port {places['MINARA_PORT']} is taken" in failed.stderr
    assert minara(data_dir, "local", "status", "--json", **places).stdout.startswith(
        '{"running": {}'
    )


def test_a_process_that_may_not_start_says_why_and_shows_no_traceback(tmp_path: Path) -> None:
    several = "127.0.0.1:1,127.0.0.1:2"
    refused = minara(tmp_path / "data", "service", "skills", MINARA_SKILLS_ADDRESS=several)
    assert refused.returncode == 2
    assert "MINARA_LISTEN" in refused.stderr
    refused = minara(tmp_path / "data", "service", "skills", MINARA_TLS_CERTIFICATE="/nowhere")
    assert refused.returncode == 2
    assert "MINARA_TLS_PRIVATE_KEY" in refused.stderr
