"""The chat on a true terminal, and the goal commands beside it, through real processes."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from support import process
from support.process import MINARA


@pytest.fixture
def terminal(tmp_path: Path) -> "Generator[pexpect.spawn[str]]":
    kept = {n: v for n, v in os.environ.items() if n in {"PATH", "LANG"}}  # noqa: TID251 - the child's environment is explicit
    place = {"HOME": str(tmp_path), "MINARA_DATA_DIR": str(tmp_path / "data")}
    chat: pexpect.spawn[str] = pexpect.spawn(
        str(MINARA),
        env=kept | place | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        cwd=str(tmp_path),
        encoding="utf-8",
        timeout=30,
        dimensions=(50, 120),
    )
    chat.expect("you>")
    yield chat
    chat.close(force=True)


def test_a_person_buys_asks_and_leaves(terminal: "pexpect.spawn[str]") -> None:
    terminal.send("buy $50 of ETH\r")
    terminal.expect("To decide")
    terminal.expect("you>")
    terminal.send("\x03")  # nothing runs: it only clears the line
    terminal.send("yes\r")
    terminal.expect("PAPER — executed: bought")
    terminal.send("/goal know the price of ETH\r")
    terminal.expect("goal .active; 0 of 20 turns.: know the price of ETH")
    terminal.send("/goal go\r")
    terminal.expect("goal: blocked, turn 1 of 20")
    terminal.send("/quit\r")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


@pytest.fixture
async def session_id(tmp_path: Path) -> str:
    """A session of the installation in `data`, which does not run any more."""
    async with process.a_process(tmp_path / "data") as server:
        session = await server.client.call("POST", "/v1/sessions", {})
    return str(session["session_id"])


def test_a_goal_is_kept_from_the_command_line(tmp_path: Path, session_id: str) -> None:
    def goal(*words: str) -> dict[str, Any]:
        done = process.minara(tmp_path / "data", "goal", *words, "--json", TERM="dumb")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    made = goal("set", session_id, "hold 1 ETH", "--max-turns", "3", "--subgoal", "learn its price")
    assert made["goal"]["subgoals"] == ["learn its price"]
    assert goal("pause", session_id)["goal"]["state"] == "GOAL_STATE_PAUSED"
    assert goal("resume", session_id)["goal"]["state"] == "GOAL_STATE_ACTIVE"
    shown = process.minara(tmp_path / "data", "goal", "show", session_id, TERM="dumb")
    assert "goal (active; 0 of 3 turns): hold 1 ETH" in shown.stdout
    assert goal("clear", session_id) == {"goal": None}
    refused = process.minara(tmp_path / "data", "goal", "pause", session_id, TERM="dumb")
    assert refused.returncode == 1
    assert "GOAL_NOT_FOUND" in refused.stderr
    unknown = process.minara(tmp_path / "data", "goal", "show", "session-1", TERM="dumb")
    assert unknown.returncode == 1
    assert "SESSION_NOT_FOUND" in unknown.stderr
