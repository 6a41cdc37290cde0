"""`minara trace`: a turn as a person reads it, and where else to look when it is not here."""

import json
import re
import shutil
from pathlib import Path

import pytest

from minara_runtime.span_file import read_trace
from minara_runtime.telemetry import SPAN_FILE
from support.eventually import eventually
from support.process import a_process, minara

COLLECTOR = "http://127.0.0.1:4317"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_turn_is_shown_with_its_sizes_gates_calls_and_timings(data_dir: Path) -> None:
    async with a_process(data_dir) as running:
        reply = await running.client.call("POST", "/v1/chat", {"message": "price of BTC"})
    turn_id = reply["turn_id"]
    shown = minara(data_dir, "trace", turn_id, COLUMNS="250")
    assert shown.returncode == 0
    assert re.search(rf"turn {turn_id}: completed \(stop\) in [\d.]+ ms", shown.stdout)
    assert "model calls: 2, tool calls: 1\n" in shown.stdout
    assert re.search(r"prompt of [\d,]+ characters \([\d,]+ system\)", shown.stdout)
    assert re.search(r"gates  [\d.]+ ms  \+[\d.]+  run", shown.stdout)
    assert re.search(r"execute_tool get_price  .* success", shown.stdout)
    found = json.loads(minara(data_dir, "trace", turn_id, "--json").stdout)
    assert (found["turn_id"], found["outcome"], found["tool_calls"]) == (turn_id, "completed", 1)
    roots = [span["name"] for span in found["spans"] if not span["parent_id"]]
    assert roots == ["POST /v1/chat"]


def test_a_turn_that_is_not_here_is_said_to_be_missing_and_where_it_may_be(data_dir: Path) -> None:
    missing = minara(data_dir, "trace", "no-such-turn")
    assert missing.returncode == 1
    assert "no trace of turn no-such-turn" in missing.stderr
    assert "MINARA_OTLP_ENDPOINT is not set" in missing.stderr
    elsewhere = minara(data_dir, "trace", "no-such-turn", MINARA_OTLP_ENDPOINT=COLLECTOR)
    assert elsewhere.returncode == 1
    assert f"go to {COLLECTOR}" in elsewhere.stderr
    assert "minara.turn_id is no-such-turn" in elsewhere.stderr


async def test_the_audit_of_a_running_minara_names_the_trace_of_a_turn(data_dir: Path) -> None:
    async with a_process(data_dir) as running:
        reply = await running.client.call("POST", "/v1/chat", {"message": "price of BTC"})
        turn_id = reply["turn_id"]
        path = data_dir / SPAN_FILE

        def is_written() -> bool:
            return any(span.name == "POST /v1/chat" for span in read_trace(path, turn_id))

        await eventually(is_written)
        trace_id = read_trace(path, turn_id)[0].trace_id
        shutil.rmtree(path.parent)
        gone = minara(data_dir, "trace", turn_id, MINARA_OTLP_ENDPOINT=COLLECTOR)
    assert f"its trace id is {trace_id}" in gone.stderr
