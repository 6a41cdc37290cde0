"""Whether this gateway should get requests, and which of its peers answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc as health_grpc
from starlette.responses import JSONResponse

from minara_core.clock import Clock
from minara_core.errors import DeadlineExceeded, MinaraError, Unavailable
from minara_gateway.peers import Channels
from minara_gateway.store import GatewayStore

CHECK_SECONDS = 1.0
REUSE_SECONDS = 0.5

router = APIRouter()


class Readiness:
    """Ready is who has its database and is not about to leave; peers are told, not judged: without
    one of them a request may still succeed, and its refusal says more than none at all."""

    def __init__(self, store: GatewayStore, channels: Channels, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._health: Mapping[str, Any] = {
            name: health_grpc.HealthStub(channel)
            for name, channel in (
                ("orchestrator", channels.orchestrator),
                ("workspace", channels.workspace),
                ("tools", channels.tools),
            )
        }
        self._is_leaving = False
        self._known: tuple[float, dict[str, Any]] | None = None

    def leave(self) -> None:
        """From now on it is not ready."""
        self._is_leaving = True
        self._known = None

    async def report(self) -> dict[str, Any]:
        """`ready`, `database`, `leaving`, and under `peers` who answers; at most half a second old,
        since anybody may ask."""
        now = self._clock.monotonic()
        if self._known is None or now >= self._known[0] + REUSE_SECONDS:
            self._known = (now, await self._look())
        return self._known[1]

    async def _look(self) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            database = group.create_task(self._store.answers())
            peers = {name: group.create_task(self._answers(name)) for name in self._health}
        return {
            "ready": database.result() and not self._is_leaving,
            "database": database.result(),
            "leaving": self._is_leaving,
            "peers": {name: answer.result() for name, answer in peers.items()},
        }

    async def _answers(self, name: str) -> bool:
        try:
            answer = await self._health[name].Check(
                health_pb.HealthCheckRequest(), timeout=CHECK_SECONDS
            )
        except (Unavailable, DeadlineExceeded):
            return False
        except MinaraError:
            return True  # a peer in this process has no health service: it lives as long as we do
        return bool(answer.status == health_pb.HealthCheckResponse.SERVING)


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """200 when requests may come here, 503 when not; without a token, like health."""
    readiness: Readiness = request.app.state.readiness
    report = await readiness.report()
    return JSONResponse(report, status_code=200 if report["ready"] else 503)
