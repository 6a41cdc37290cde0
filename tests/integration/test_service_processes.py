"""Each service runs in a process of its own: healthy over TCP, one turn across all, a clean end."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc as health_grpc

from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from minara_gateway.serving import SOCKET_FILE
from support.eventually import eventually

SERVICES = ("workspace", "tools", "skills", "orchestrator")
SERVICE_NAMES = {
    "workspace": "minara.workspace.v1.ContextService",
    "tools": "minara.tools.v1.ApprovalService",
    "skills": "minara.skills.v1.SkillService",
    "orchestrator": "minara.orchestrator.v1.AgentService",
}
START_SECONDS = 40.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.asynccontextmanager
async def five_processes(
    data_dir: Path, ports: dict[str, int]
) -> AsyncGenerator[dict[str, asyncio.subprocess.Process]]:
    kept = {n: v for n, v in os.environ.items() if n in {"PATH", "LANG"}}  # noqa: TID251 - the children's environment is explicit
    environment = kept | {
        "HOME": str(data_dir.parent),
        "MINARA_DATA_DIR": str(data_dir),
        "MINARA_PORT": str(free_port()),
    }
    environment |= {
        f"MINARA_{name.upper()}_ADDRESS": f"127.0.0.1:{port}" for name, port in ports.items()
    }
    processes = {
        name: await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"minara_{name}"),
            env=environment,
            cwd=data_dir.parent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        for name in (*SERVICES, "gateway")
    }
    try:
        yield processes
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.terminate()
        for process in processes.values():
            await asyncio.wait_for(process.wait(), 40)


async def is_serving(port: int, service: str) -> bool:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = health_grpc.HealthStub(channel)  # its types know the blocking stub alone
        try:
            answer = await stub.Check(health_pb.HealthCheckRequest(service=service), timeout=2)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb.HealthCheckResponse.SERVING)


@pytest.mark.timeout(180)
async def test_one_turn_crosses_five_processes_and_they_end_cleanly(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    ports = {name: free_port() for name in SERVICES}
    async with five_processes(data_dir, ports) as processes:
        for name, port in ports.items():
            await eventually(
                lambda port=port, name=name: is_serving(port, SERVICE_NAMES[name]),
                timeout=START_SECONDS,
                every=0.1,
            )
        await eventually((data_dir / SOCKET_FILE).exists, timeout=START_SECONDS)
        token = (data_dir / TOKEN_FILE).read_text("ascii").strip()
        client = GatewayClient.over_socket(data_dir / SOCKET_FILE, token)
        await eventually(client.healthy, timeout=START_SECONDS)
        reply = await client.call("POST", "/v1/chat", {"message": "price of BTC"})
        assert reply["finish_reason"] == "stop"
        parked = await client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
        action = parked["pending_actions"][0]
        done = await client.call(
            "POST",
            f"/v1/approvals/{action['pending_action_id']}:confirm",
            {"action_hash": action["action_hash"]},
        )
        assert done["state"] == "ACTION_STATE_DONE"
        await client.aclose()
    assert {name: process.returncode for name, process in processes.items()} == dict.fromkeys(
        processes, 0
    )
