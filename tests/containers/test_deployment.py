"""One image as five services on one PostgreSQL: turns, purchases, crashes, what is published."""

import json
from typing import Any

import pytest

from minara_core.errors import MinaraError
from minara_gateway.client import GatewayClient
from support.compose import (
    COMPOSE_FILE,
    GRPC_SERVICES,
    PROJECT,
    REPLICAS,
    ComposeProject,
    health,
    inspect,
    run_in,
)
from support.eventually import eventually

pytestmark = pytest.mark.timeout(300)

PORTS = {"orchestrator": 50051, "workspace": 50052, "skills": 50053, "tools": 50054}
KILL_THE_SERVICE = """
import os, pathlib, signal
for place in pathlib.Path("/proc").glob("[0-9]*"):
    is_spared = int(place.name) in (1, os.getpid())
    try:  # a health check may come and go meanwhile
        if b"minara" in place.joinpath("cmdline").read_bytes() and not is_spared:
            os.kill(int(place.name), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass
"""
CALLERS = """
import pathlib, sys
port, peers = format(int(sys.argv[1]), "04X"), set()
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in pathlib.Path(table).read_text().splitlines()[1:]:
        own, peer, state = line.split()[1:4]
        if own.endswith(":" + port) and state == "01":
            peers.add(peer.partition(":")[0])
print(len([peer for peer in peers if not peer.endswith("0100007F")]))
"""


async def price(client: GatewayClient) -> dict[str, Any]:
    return await client.call("POST", "/v1/chat", {"message": "price of BTC"})


async def test_a_turn_calls_its_tool_across_containers(client: GatewayClient) -> None:
    reply = await price(client)
    assert reply["finish_reason"] == "stop"
    assert [call["name"] for call in reply["tool_calls"]] == ["get_price"]
    assert json.loads(reply["tool_calls"][0]["envelope"])["ok"] is True
    assert "BTC" in reply["reply"]


async def test_a_purchase_happens_once_it_is_confirmed(client: GatewayClient) -> None:
    parked = await client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
    assert parked["finish_reason"] == "approval_requested"
    action = parked["pending_actions"][0]
    path = f"/v1/approvals/{action['pending_action_id']}"
    body = {"action_hash": action["action_hash"]}
    done = await client.call("POST", f"{path}:confirm", body)
    assert done["state"] == "ACTION_STATE_DONE"
    again = await client.call("POST", f"{path}:confirm", body)
    assert again["rendered_receipt"] == done["rendered_receipt"]


async def test_callers_speak_to_every_replica(
    project: ComposeProject, client: GatewayClient
) -> None:
    for _ in range(4):
        await price(client)
    for service in GRPC_SERVICES:
        replicas = project.containers(service)
        assert len(replicas) == REPLICAS
        for replica in replicas:
            found = run_in(replica, "python", "-c", CALLERS, str(PORTS[service]))
            assert int(found.stdout) > 0, f"nobody calls {replica}: {found.stderr}"


def test_only_the_gateway_is_published(project: ComposeProject) -> None:
    listed = project.compose("config", "--format", "json", files=[COMPOSE_FILE])
    services = json.loads(listed)["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert [*published] == ["gateway"]
    assert [port["host_ip"] for port in published["gateway"]] == ["127.0.0.1"]
    for service in GRPC_SERVICES:
        for replica in project.containers(service):
            ports = inspect(replica)["NetworkSettings"]["Ports"]
            assert not any(ports.values()), ports


def test_only_services_that_need_the_world_can_reach_it(project: ComposeProject) -> None:
    networks = {
        service: set(inspect(project.containers(service)[0])["NetworkSettings"]["Networks"])
        for service in ("skills", "tools", "keys")
    }
    inside, world = f"{PROJECT}_inside", f"{PROJECT}_default"
    assert networks == {"skills": {inside}, "tools": {inside, world}, "keys": {"none"}}
    assert inspect(inside)["Internal"] is True


async def test_turns_go_on_while_a_killed_replica_comes_back(
    project: ComposeProject, client: GatewayClient
) -> None:
    victim = project.containers("tools")[0]
    restarts = inspect(victim)["RestartCount"]
    await price(client)
    killed = run_in(victim, "python", "-c", KILL_THE_SERVICE)
    assert "Traceback" not in killed.stderr
    for _ in range(5):
        reply = await price(client)
        assert json.loads(reply["tool_calls"][0]["envelope"])["ok"] is True
    await eventually(
        lambda: inspect(victim)["RestartCount"] > restarts and health(victim) == "healthy",
        timeout=60,
        every=0.5,
    )
    assert health(project.containers("tools")[1]) == "healthy"


async def test_containers_end_in_good_order_and_what_was_said_and_bought_outlives_them(
    project: ComposeProject, client: GatewayClient
) -> None:
    bought = await client.call("POST", "/v1/chat", {"message": "buy $20 of BTC"})
    action = bought["pending_actions"][0]
    done = await client.call(
        "POST",
        f"/v1/approvals/{action['pending_action_id']}:confirm",
        {"action_hash": action["action_hash"]},
    )
    session = f"/v1/sessions/{bought['session_id']}/turns"
    turns, holdings = await client.call("GET", session), await held(client)
    old = inspect(project.containers("gateway")[0])["Id"]

    project.compose("stop")
    assert_ended_well(project)
    project.down(with_volumes=False)
    project.up()

    assert inspect(project.containers("gateway")[0])["Id"] != old
    assert await client.call("GET", session) == turns
    assert turns["turns"]
    assert await held(client) == holdings
    assert "BTC" in holdings
    receipt = await client.call("GET", f"/v1/approvals/{action['pending_action_id']}")
    assert receipt["rendered_receipt"] == done["rendered_receipt"]


def assert_ended_well(project: ComposeProject) -> None:
    """Every container ended by itself, within its grace: a killed one says 137."""
    services = ("postgres", *GRPC_SERVICES, "gateway")
    ends = {name: inspect(name)["State"] for s in services for name in project.containers(s)}
    assert {name: state["ExitCode"] for name, state in ends.items()} == dict.fromkeys(ends, 0)
    assert not any(state["OOMKilled"] or state["Running"] for state in ends.values())


async def held(client: GatewayClient) -> dict[str, str]:
    """What the portfolio holds, by asset."""
    reply = await client.call("POST", "/v1/chat", {"message": "my portfolio"})
    balances = json.loads(reply["tool_calls"][0]["envelope"])["data"]["balances"]
    return {balance["asset"]: balance["available"] for balance in balances}


async def test_the_gateway_asks_everybody_for_a_token(project: ComposeProject) -> None:
    stranger = GatewayClient.over_url(project.gateway_url, "not-the-token")
    with pytest.raises(MinaraError, match="token"):
        await price(stranger)
    await stranger.aclose()
