"""`minara ledger` and `minara keys` as a person meets them: real processes on a data folder."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from minara_gateway.client import GatewayClient
from support.process import a_process, minara

pytestmark = pytest.mark.timeout(240)  # whole processes, one after another, on a busy machine


async def run(data_dir: Path, *arguments: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(minara, data_dir, *arguments)
    return done.returncode, done.stdout, done.stderr


async def buy(client: GatewayClient) -> str:
    parked = await client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
    action = parked["pending_actions"][0]
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    await client.call("POST", path, {"action_hash": action["action_hash"]})
    return action["pending_action_id"]


def execute(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


async def test_sound_books_are_told_also_beside_a_running_minara_and_each_damage_is_named(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir) as alive:
        await buy(alive.client)
        assert await run(data_dir, "ledger", "check") == (0, "the books are sound\n", "")
    tools = data_dir / "tools.db"
    execute(tools, "UPDATE ledger_balances SET amount = '1' WHERE ledger_account = 'available'")
    code, printed, _ = await run(data_dir, "ledger", "check", "--json")
    assert code == 1
    broken = {fault["invariant"] for fault in json.loads(printed)}
    assert "a balance is the sum of its entries" in broken
    execute(tools, "DELETE FROM audit_records WHERE kind IN ('decision', 'fund_move')")
    code, printed, _ = await run(data_dir, "ledger", "check")
    assert code == 1
    assert "BROKEN: a move has its audit row" in printed


async def test_a_copied_data_folder_halts_until_its_books_are_adopted(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir) as alive:
        await buy(alive.client)
    (data_dir / "audit" / "money-counter.json").unlink()
    async with a_process(data_dir) as alive:
        state = (await alive.client.call("GET", "/v1/trading"))["trading_state"]
        assert state["state"] == "TRADING_STATE_HALTED"
        assert "counter" in state["reason"]
        code, printed, _ = await run(data_dir, "ledger", "adopt", "--yes")
        assert code == 0
        assert "ACTIVE" in printed
        await buy(alive.client)
    async with a_process(data_dir) as alive:
        state = (await alive.client.call("GET", "/v1/trading"))["trading_state"]
        assert state["state"] == "TRADING_STATE_ACTIVE"


async def test_what_is_not_stuck_cannot_be_resolved(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir) as alive:
        await alive.client.call("POST", "/v1/chat", {"message": "price of BTC"})
        unknown = await run(
            data_dir, "ledger", "resolve", "nothing", "--executed", "--evidence", "x"
        )
        undecided = await run(data_dir, "ledger", "resolve", "nothing", "--evidence", "x")
    assert unknown[0] == 1
    assert "ACTION_NOT_FOUND" in unknown[2]
    assert undecided[0] == 2


async def test_a_rotated_key_is_used_from_the_next_start_on(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir) as alive:
        await buy(alive.client)
    for name in ("gateway", "gateway-confirmation", "tools"):
        code, printed, _ = await run(data_dir, "keys", "rotate", name)
        assert code == 0
        assert f"{name} signs with {name}-" in printed
    assert (await run(data_dir, "keys", "rotate", "nobody"))[0] == 2
    async with a_process(data_dir) as alive:
        await buy(alive.client)
    code, printed, _ = await run(data_dir, "audit", "verify")
    assert code == 0, printed
