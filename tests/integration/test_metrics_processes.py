"""Five processes, five `/metrics`: each tells of itself, and none starts on another's address."""

from pathlib import Path

import pytest

from minara_core.errors import MinaraError
from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from support.cluster import HOST, SERVICES, Cluster, Port
from support.eventually import eventually
from support.nursery import Nursery
from support.scrape import Scrape, scrape

RPCS = "rpc_server_call_duration_seconds_count"


async def a_turn(cluster: Cluster) -> None:
    """One that was answered; channels that were made early may still wait."""
    token = (cluster.data_dir / TOKEN_FILE).read_text("ascii").strip()
    client = GatewayClient.over_url(f"http://{cluster.gateways()[0]}", token)

    async def is_answered() -> bool:
        try:
            await client.call("POST", "/v1/chat", {"message": "price of BTC"})
        except MinaraError:
            return False
        return True

    try:
        await eventually(is_answered, timeout=20, every=0.2)
    finally:
        await client.aclose()


def service_of(seen: Scrape) -> str:
    return next(
        has["service_name"] for name, has, _ in seen.samples if name.startswith("target_info")
    )


@pytest.mark.timeout(180)
async def test_each_process_answers_with_its_own_figures(nursery: Nursery, tmp_path: Path) -> None:
    cluster = Cluster(nursery, tmp_path)
    ports = {service: Port() for service in SERVICES}
    for replica in cluster.replicas:
        address = f"{HOST}:{ports[replica.service].number}"
        replica.environment["MINARA_METRICS_ADDRESS"] = address
    try:
        await cluster.start()
        await a_turn(cluster)
        seen = {service: await scrape(port.number) for service, port in ports.items()}
        taken = cluster.replica("skills")
        tools = cluster.replica("tools").environment["MINARA_METRICS_ADDRESS"]
        await taken.terminate()
        taken.environment["MINARA_METRICS_ADDRESS"] = tools
        taken.start()
        ended = await taken.ended()
        assert ended.code != 0
        assert f"MINARA_METRICS_ADDRESS: {tools} cannot be listened on" in taken.tail()
    finally:
        cluster.close()
        for port in ports.values():
            port.close()
    assert {service: service_of(scraped) for service, scraped in seen.items()} == {
        service: service for service in SERVICES
    }
    assert seen["gateway"].of("http_server_request_duration_seconds_count") >= 1
    assert seen["orchestrator"].of("minara_turns_total", minara_outcome="completed") == 1
    assert seen["tools"].of("minara_tool_duration_seconds_count", gen_ai_tool_name="get_price") == 1
    skills = "minara.skills.v1.SkillService/SelectSkills"
    assert seen["skills"].of(RPCS, rpc_method=skills) >= 1
    workspace = "minara.workspace.v1.ContextService/CommitTurn"
    assert seen["workspace"].of(RPCS, rpc_method=workspace) >= 1
    for service in ("orchestrator", "workspace", "skills", "tools"):
        pool = {"db_client_connection_pool_name": service}
        assert seen[service].of("db_client_connection_count", **pool) >= 0
