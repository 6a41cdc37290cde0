"""`minara audit` and `minara backup` as a person meets them: real processes on a data folder."""

import asyncio
import hashlib
import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason
from minara_gateway.client import GatewayClient, ProblemError
from support.eventually import eventually
from support.process import a_process, minara

pytestmark = pytest.mark.timeout(240)  # whole processes, one after another, on a busy machine


async def verified(data_dir: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report of each service."""
    done = await asyncio.to_thread(minara, data_dir, "audit", "verify", "--json", *arguments)
    return done.returncode, {report["service"]: report for report in json.loads(done.stdout)}


def execute(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


async def buy(client: GatewayClient) -> None:
    parked = await client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
    action = parked["pending_actions"][0]
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    await client.call("POST", path, {"action_hash": action["action_hash"]})


async def lived_in(folder: Path) -> None:
    """Run a Minara that buys something, until checkpoints cover it; what is left verifies."""
    async with a_process(folder) as running:
        await buy(running.client)

        async def money_is_covered() -> bool:
            _, reports = await verified(folder, "--service", "tools")
            return reports["tools"]["checkpoints"] > 0

        await eventually(money_is_covered, timeout=20)
        code, reports = await verified(folder)
        assert code == 0, reports


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lived-in") / "data"
    with asyncio.Runner() as runner:
        runner.run(lived_in(folder))
    return folder


@pytest.fixture
def data_dir(template: Path, tmp_path: Path) -> Path:
    """Of a Minara that bought something."""
    return shutil.copytree(template, tmp_path / "data")


async def test_a_whole_audit_ends_with_0_and_a_damaged_one_with_1_and_a_sentence(
    data_dir: Path,
) -> None:
    code, reports = await verified(data_dir)
    assert (code, reports.keys()) == (0, {"tools", "workspace"})
    assert reports["tools"]["findings"] == []
    execute(data_dir / "tools.db", "UPDATE audit_records SET outcome = 'x' WHERE sequence = 2")
    done = minara(data_dir, "audit", "verify")
    assert done.returncode == 1
    assert "tools: BROKEN" in done.stdout
    assert "row 2 of user local was changed after it was written" in done.stdout
    assert "workspace: whole" in done.stdout
    assert minara(data_dir, "audit", "verify", "--service", "workspace").returncode == 0


async def test_a_database_put_back_behind_its_checkpoints_is_told(data_dir: Path) -> None:
    execute(data_dir / "tools.db", "DELETE FROM audit_records")
    execute(data_dir / "tools.db", "DELETE FROM audit_heads")
    execute(data_dir / "tools.db", "DELETE FROM audit_checkpoints")
    code, reports = await verified(data_dir, "--service", "tools")
    assert code == 1
    kinds = [found["kind"] for found in reports["tools"]["findings"]]
    assert kinds == ["truncated", "checkpoint_table"]


async def test_erased_payloads_leave_the_audit_whole(data_dir: Path) -> None:
    execute(data_dir / "tools.db", "DELETE FROM audit_payloads")
    done = minara(data_dir, "audit", "verify")
    assert done.returncode == 0
    assert "were erased" in done.stdout


def test_what_cannot_be_verified_is_said(data_dir: Path) -> None:
    wrong = minara(data_dir, "audit", "verify", "--service", "skills")
    assert (wrong.returncode, "tools or workspace" in wrong.stderr) == (2, True)
    (data_dir / "keys" / "tools" / "tools.pub").unlink()
    keyless = minara(data_dir, "audit", "verify")
    assert keyless.returncode == 1
    assert "no public key of tools" in keyless.stderr
    (data_dir / "tools.db").write_bytes(b"no database " * 100)
    broken = minara(data_dir, "audit", "verify")
    assert broken.returncode == 1
    assert "cannot be used" in broken.stderr


async def test_a_process_killed_between_row_and_checkpoint_leaves_a_chain_that_verifies(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    async with a_process(folder, failpoint="audit-checkpoint-in-table") as dying:
        with suppress(Unavailable):  # it may die before it has answered
            await buy(dying.client)
        assert await dying.died_at("audit-checkpoint-in-table")
    code, reports = await verified(folder)
    assert code == 0, reports
    async with a_process(folder):

        async def is_made_good() -> bool:
            _, found = await verified(folder)
            return all(not report["findings"] for report in found.values())

        await eventually(is_made_good, timeout=20)


async def test_the_lists_of_all_services_are_one(data_dir: Path) -> None:
    async with a_process(data_dir) as running:
        whole = await running.client.call("GET", "/v1/audit?page_size=200")
        records = whole["audit_records"]
        assert {record["service"] for record in records} == {"tools", "workspace"}
        times = [record["record_time"] for record in records]
        assert times == sorted(times, reverse=True)
        assert whole["next_page_token"] == ""
        paged: list[dict[str, Any]] = []
        token = ""
        while True:
            page = await running.client.call("GET", f"/v1/audit?page_size=2&page_token={token}")
            paged += page["audit_records"]
            token = page["next_page_token"]
            if not token:
                break
        assert paged == records
        moves = await running.client.call("GET", "/v1/audit?kind=fund_move&include_payload=true")
        assert moves["audit_records"]
        assert {record["kind"] for record in moves["audit_records"]} == {"AUDIT_KIND_FUND_MOVE"}
        listed = await asyncio.to_thread(minara, data_dir, "audit", "list", "--kind", "decision")
        assert len(listed.stdout.splitlines()) == 1
        assert "decision" in listed.stdout
        for foreign in ("x", "W10=", "eyJmb3JlaWduIjogIiJ9", "eyJ0b29scyI6IDF9"):
            with pytest.raises(ProblemError) as refused:
                await running.client.call("GET", f"/v1/audit?page_token={foreign}")
            assert refused.value.reason is ErrorReason.REQUEST_INVALID


async def test_a_backup_made_beside_a_running_minara_opens_and_verifies(
    data_dir: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    async with a_process(data_dir) as running:
        await buy(running.client)
        done = await asyncio.to_thread(minara, data_dir, "backup", str(copy))
        assert done.returncode == 0, done.stderr
        await buy(running.client)
    check_manifest(copy)
    code, reports = await verified(copy)
    assert (code, reports["tools"]["findings"]) == (0, [])
    async with a_process(copy) as restored:
        answer = await restored.client.call("GET", "/v1/sessions")
        assert answer["sessions"]
        await restored.client.call("POST", "/v1/chat", {"message": "price of BTC"})
    code, reports = await verified(copy)
    assert code == 0, reports


def check_manifest(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_bytes())
    listed = {file["path"]: file for file in manifest["files"]}
    found = {path.relative_to(copy).as_posix(): path for path in copy.rglob("*") if path.is_file()}
    assert listed.keys() | {"manifest.json"} == found.keys()
    assert {f"{name}.db" for name in ("tools", "workspace", "gateway", "paper")} <= listed.keys()
    for name, path in found.items():
        assert path.stat().st_mode & 0o777 == 0o600, name
        if name != "manifest.json":
            assert listed[name]["size"] == path.stat().st_size
            assert listed[name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert copy.stat().st_mode & 0o777 == 0o700


def test_a_backup_overwrites_nothing_and_leaves_postgresql_to_its_own_tool(
    data_dir: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "precious").write_text("x", "ascii")
    refused = minara(data_dir, "backup", str(taken))
    assert (refused.returncode, "overwrites nothing" in refused.stderr) == (1, True)
    assert [path.name for path in taken.iterdir()] == ["precious"]
    elsewhere = minara(
        data_dir,
        "backup",
        str(tmp_path / "new"),
        MINARA_TOOLS_DATABASE_URL="postgresql://127.0.0.1/minara",
    )
    assert elsewhere.returncode == 1
    assert "pg_dump" in elsewhere.stderr
    assert not (tmp_path / "new").exists()
