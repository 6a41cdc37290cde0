"""The emergency stop: it holds at once, survives a restart, and only a person ends it."""

import pytest

from minara_gateway.client import ProblemError
from support.minara import Minara, finish_reason, named


async def test_a_halt_stops_what_waits_and_what_comes(minara: Minara) -> None:
    events = await minara.say("buy $50 of ETH")
    action = named(events, "approval_requested")[0]["action"]
    halted = await minara.client.call("POST", "/v1/trading:halt", {"reason": "test"})
    assert halted["trading_state"]["state"] == "TRADING_STATE_HALTED"
    assert halted["rejected_action_ids"] == [action["pending_action_id"]]
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    with pytest.raises(ProblemError):
        await minara.client.call("POST", path, {"action_hash": action["action_hash"]})
    refused = await minara.say("buy $50 of ETH")
    denial = named(refused, "tool_call_finished")[0]["result"]["denial"]
    assert denial["reason"] == "DENIAL_REASON_TRADING_HALTED"
    async with minara.installation.down("tools"):
        pass
    state = (await minara.client.call("GET", "/v1/trading"))["trading_state"]
    assert state["state"] == "TRADING_STATE_HALTED"
    with pytest.raises(ProblemError):
        await minara.client.call("POST", "/v1/trading:resume", {"etag": "another"})
    resumed = await minara.client.call("POST", "/v1/trading:resume", {"etag": state["etag"]})
    assert resumed["trading_state"]["state"] == "TRADING_STATE_ACTIVE"
    assert finish_reason(await minara.say("buy $50 of ETH")) == "approval_requested"
    assert not await minara.rows("paper", "paper_orders")


async def test_a_stop_needs_no_body_and_decisions_name_their_trace_and_origin(
    minara: Minara,
) -> None:
    action = named(await minara.say("buy $50 of ETH"), "approval_requested")[0]["action"]
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    await minara.client.call("POST", path, {"action_hash": action["action_hash"]})
    halted = await minara.client.call("POST", "/v1/trading:halt")
    assert halted["trading_state"]["state"] == "TRADING_STATE_HALTED"
    audited = await minara.rows("tools", "audit_records")
    decided = [row for row in audited if row["kind"] in {"decision", "fund_move"}]
    assert len(decided) == 2
    assert all(len(row["trace_id"]) == 32 and row["origin"] == "http" for row in decided), decided


async def test_a_file_halts_the_installation_with_every_service_dead(minara: Minara) -> None:
    async with minara.installation.halted_by_file():
        events = await minara.say("buy $50 of ETH")
        denial = named(events, "tool_call_finished")[0]["result"]["denial"]
        assert denial["reason"] == "DENIAL_REASON_TRADING_HALTED"
        assert finish_reason(await minara.say("price of BTC")) == "stop"
    assert finish_reason(await minara.say("buy $50 of ETH")) == "approval_requested"
