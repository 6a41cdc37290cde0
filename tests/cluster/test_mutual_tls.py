"""With certificates, services speak to each other alone: to nobody in plaintext, to no stranger,
and to nobody who shows the certificate of another service."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc as health_grpc

from minara_core.errors import DeadlineExceeded, Unavailable
from minara_runtime.addresses import peer_target
from minara_runtime.channels import connect
from minara_runtime.tls import Tls
from support.cluster import PEERS, START_SECONDS, Cluster
from support.cluster_certificates import Authority
from support.cluster_people import a_crowd
from support.eventually import eventually
from support.nursery import Nursery


def a_secured_cluster(nursery: Nursery, folder: Path, authority: Authority) -> Cluster:
    """One process of each service, each with its certificate, not started."""
    cluster = Cluster(nursery, folder)
    for replica in cluster.replicas:
        replica.environment |= authority.settings(replica.service)
    return cluster


def start(cluster: Cluster) -> None:
    for replica in cluster.replicas:
        replica.start()


async def peers_seen(cluster: Cluster) -> dict[str, bool]:
    """Who answers the gateway, by its own word; nobody while it does not."""
    (address,) = cluster.gateways()
    async with httpx.AsyncClient(trust_env=False) as http:
        try:
            return (await http.get(f"http://{address}/readyz")).json()["peers"]
        except httpx.TransportError:
            return {}


async def answers(cluster: Cluster, service: str, tls: Tls | None) -> bool:
    """Whether a service tells a client with this certificate how it is."""
    async with connect(peer_target(cluster.addresses(service)), peer=service, tls=tls) as channel:
        return await is_told(channel)


async def is_told(channel: grpc.aio.Channel) -> bool:
    stub: Any = health_grpc.HealthStub(channel)
    try:
        await stub.Check(health_pb.HealthCheckRequest(), timeout=1)
    except (Unavailable, DeadlineExceeded):
        return False
    return True


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
async def secured(
    nursery: Nursery, tmp_path: Path, authority: Authority
) -> AsyncGenerator[Cluster]:
    cluster = a_secured_cluster(nursery, tmp_path / "cluster", authority)
    start(cluster)

    async def is_ready() -> bool:
        return all((await peers_seen(cluster) or {"nobody": False}).values())

    try:
        await eventually(is_ready, timeout=START_SECONDS, every=0.1)
        yield cluster
    finally:
        cluster.close()


async def test_a_purchase_crosses_five_services_that_show_certificates(secured: Cluster) -> None:
    async with a_crowd(secured, 1) as crowd:
        await crowd.people[0].talk()
    assert crowd.faults == []
    assert list(crowd.people[0].answers.values()) == ["ACTION_STATE_DONE"]
    assert crowd.notices == {}


async def test_who_shows_no_certificate_of_the_authority_is_refused(
    secured: Cluster, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "elsewhere").tls("gateway")
    for service in PEERS:
        assert await answers(secured, service, authority.tls("gateway"))
        assert not await answers(secured, service, stranger)
        assert not await answers(secured, service, None)


async def test_a_service_with_the_certificate_of_another_is_not_spoken_to(
    nursery: Nursery, tmp_path: Path, authority: Authority
) -> None:
    cluster = a_secured_cluster(nursery, tmp_path / "cluster", authority)
    skills = cluster.addresses("skills")
    cluster.replica("gateway").environment |= {"MINARA_TOOLS_ADDRESS": skills}
    start(cluster)

    async def only_tools_are_missing() -> bool:
        seen = await peers_seen(cluster)
        return seen == {"orchestrator": True, "workspace": True, "tools": False}

    async def skills_are_up() -> bool:
        return await answers(cluster, "skills", authority.tls("gateway"))

    try:
        await eventually(skills_are_up, timeout=START_SECONDS, every=0.1)
        await eventually(only_tools_are_missing, timeout=START_SECONDS, every=0.1)
    finally:
        cluster.close()


async def test_a_service_does_not_start_with_the_certificate_of_another(
    nursery: Nursery, tmp_path: Path, authority: Authority
) -> None:
    cluster = a_secured_cluster(nursery, tmp_path / "cluster", authority)
    tools = cluster.replica("tools")
    tools.environment |= authority.settings("skills")
    tools.start()
    try:
        assert (await tools.ended()).code == 2
        assert "MINARA_TLS_CERTIFICATE" in tools.tail()
        assert "Traceback" not in tools.tail()
    finally:
        cluster.close()
