"""SkillService as its callers see it, in process and over TCP, with grants checked."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest

from minara.skills.v1 import skill_service_pb2 as skills_pb
from minara.skills.v1 import skill_service_pb2_grpc as skills_grpc
from minara.type.v1 import permission_pb2 as permission_pb
from minara.type.v1 import taxonomy_pb2 as taxonomy_pb
from minara_core.errors import NotAuthenticated
from minara_runtime import telemetry
from minara_runtime.interceptors import server_interceptors
from minara_runtime.service import running
from minara_skills.main import build
from minara_skills.settings import SkillsSettings
from support.channels import KINDS, a_channel
from support.clock import FixedClock
from support.grants import Installation, a_context, an_installation
from support.skills_sessions import TOOLS


@pytest.fixture
def installation() -> Installation:
    return an_installation()


@pytest.fixture(params=KINDS)
async def channel(
    request: pytest.FixtureRequest, installation: Installation, tmp_path: Path
) -> AsyncGenerator[grpc.aio.Channel]:
    service = build(SkillsSettings(data_dir=tmp_path / "data"), clock=FixedClock())
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(service))
        register = service.servicers[0].register
        yield await stack.enter_async_context(a_channel(request.param, register, interceptors))


def a_request(
    installation: Installation, message: str, *, validate_only: bool = False
) -> skills_pb.SelectSkillsRequest:
    return skills_pb.SelectSkillsRequest(
        context=a_context(grant=installation.turn_grant(message=message)),
        message=message,
        tool_names=TOOLS,
        validate_only=validate_only,
        is_human_message=True,
    )


async def test_an_order_selects_the_trading_skill(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = skills_grpc.SkillServiceStub(channel)
    response = await stub.SelectSkills(a_request(installation, "buy $50 of ETH"))
    assert "buy_token" in response.callable_tools
    assert response.active_skills[0].skill_id == "trade.spot"
    assert response.active_skills[0].prompt.startswith("# Skill trade.spot\n")
    assert response.stage == taxonomy_pb.LIFECYCLE_STAGE_DECIDE
    assert response.is_stage_sure
    assert list(response.assets) == ["ETH"]
    assert response.risk_ceiling == permission_pb.PERMISSION_TIER_ALWAYS_CONFIRM
    assert response.catalog_etag
    assert "- trade.spot [moves funds]: " in response.catalog_block
    assert sum(score.is_active for score in response.scores) == len(response.active_skills)
    assert response.playbook_block == ""


async def test_a_retry_gets_the_same_bytes(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = skills_grpc.SkillServiceStub(channel)
    first = await stub.SelectSkills(a_request(installation, "price of BTC"))
    again = await stub.SelectSkills(a_request(installation, "price of BTC"))
    assert first.SerializeToString(deterministic=True) == again.SerializeToString(
        deterministic=True
    )


async def test_activation_answers_with_a_note_and_refusals_by_name(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = skills_grpc.SkillServiceStub(channel)
    response = await stub.ActivateSkills(
        skills_pb.ActivateSkillsRequest(
            context=a_context(grant=installation.turn_grant(message="hi")),
            skill_ids=["core.portfolio", "trade.spot", "nothing"],
            tool_names=TOOLS,
            stage=taxonomy_pb.LIFECYCLE_STAGE_EVALUATE,
        )
    )
    assert list(response.activated_skill_ids) == ["core.portfolio"]
    assert list(response.callable_tools) == ["get_portfolio", "get_price"]
    assert set(response.refused_skills) == {"trade.spot", "nothing"}
    assert "Not activated: trade.spot" in response.note


async def test_without_a_stage_the_gate_stays_shut(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    response = await skills_grpc.SkillServiceStub(channel).ActivateSkills(
        skills_pb.ActivateSkillsRequest(
            context=a_context(grant=installation.turn_grant(message="hi")),
            skill_ids=["trade.spot"],
            tool_names=TOOLS,
        )
    )
    assert not response.callable_tools


async def test_nobody_routes_without_a_grant(channel: grpc.aio.Channel) -> None:
    stub = skills_grpc.SkillServiceStub(channel)
    with pytest.raises(NotAuthenticated):
        await stub.SelectSkills(skills_pb.SelectSkillsRequest(context=a_context(grant="")))
