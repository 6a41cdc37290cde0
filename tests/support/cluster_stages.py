"""Where the suite tests/cluster plays: clusters of two replicas each, a PostgreSQL and a slow model
of their own, which live as long as the test process."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from minara_core.clock import SystemClock
from support.cluster import GATEWAY, HOST, Cluster, Port, new_databases
from support.cluster_held import HeldProvider, Speak, a_held_provider
from support.cluster_invariants import assert_sound
from support.cluster_model import SlowModel, a_slow_model
from support.cluster_people import Crowd, a_crowd
from support.cluster_postgres import OwnPostgres
from support.model_server import settings_of
from support.nursery import Nursery

CROWD = int(os.environ.get("MINARA_CLUSTER_TURNS", "0"))  # noqa: TID251 - a test's own size
"""How many turns run at once, where the default of a test is not enough."""
IS_THOROUGH = CROWD > 0
"""Whether to play what takes longer, too."""
GRACE_SECONDS = 20.0
_MODEL_SECONDS = 1.0

MakeCluster = Callable[[Mapping[str, str]], Cluster]


class Stage:
    """A running cluster. Tests share it: each leaves it whole."""

    def __init__(self, cluster: Cluster, postgres: OwnPostgres, model_port: Port) -> None:
        self.cluster = cluster
        self.postgres = postgres
        self._model_port = model_port

    @asynccontextmanager
    async def crowd(
        self, size: int, *, model_seconds: float = _MODEL_SECONDS
    ) -> AsyncGenerator[Crowd]:
        """People who talk while the body runs. In the end they finish what they began, nothing may
        be broken in any database, and figures are printed."""
        async with (
            self.model(model_seconds),
            a_crowd(self.cluster, CROWD or size) as crowd,
        ):
            crowd.begin()
            await crowd.has_begun()
            yield crowd
            await crowd.end()
            print(f"\n{crowd.figures()}")
            await assert_sound(self.cluster, crowd.people)

    async def sees_everybody(self) -> bool:
        """Whether each gateway that runs is ready and says that all its peers answer."""
        async with httpx.AsyncClient(trust_env=False) as http:
            found = [
                (await http.get(f"http://{gateway.address}/readyz")).json()
                for gateway in self.cluster.replicas_of(GATEWAY)
                if gateway.is_alive
            ]
        return all(one["ready"] and all(one["peers"].values()) for one in found)

    async def answers_again(self) -> float:
        """Wait until a newcomer has had a turn completed by each gateway; the seconds that took."""
        clock = SystemClock()
        begin = clock.monotonic()
        async with a_crowd(self.cluster, len(self.cluster.gateways())) as newcomers:
            for person in newcomers.people:
                while (await person.client.ask("price of BTC")).end != "turn_completed":
                    continue
        return clock.monotonic() - begin

    @asynccontextmanager
    async def model(self, seconds: float = _MODEL_SECONDS) -> AsyncGenerator[SlowModel]:
        async with a_slow_model(self._model_port, seconds=seconds) as model:
            yield model

    @asynccontextmanager
    async def held_model(self, speak: Speak) -> AsyncGenerator[HeldProvider]:
        """A model that a test holds back where it wants, in the slow one's place."""
        async with a_held_provider(self._model_port, speak) as model:
            yield model


class Stages:
    """The stage of this test process, made when it is first asked for."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._folder = folder
        self._nursery = nursery
        self._model_port = Port()
        self._postgres: OwnPostgres | None = None
        self._stage: Stage | None = None

    @property
    def postgres(self) -> OwnPostgres:
        if self._postgres is None:
            self._postgres = OwnPostgres(self._folder)
        return self._postgres

    async def running(self) -> Stage:
        """Two replicas of each service, behind proxies, all of them up."""
        if self._stage is None:
            await self.postgres.prepare()
            cluster = Cluster(
                self._nursery,
                self._folder / "cluster",
                replicas=2,
                databases=await new_databases(self.postgres.cluster),
                environment={
                    **settings_of(HOST, self._model_port),
                    "MINARA_GRACE_SECONDS": str(GRACE_SECONDS),
                },
                is_proxied=True,
            )
            self._stage = Stage(cluster, self.postgres, self._model_port)
            await cluster.start()
        for replica in self._stage.cluster.replicas:
            if not replica.is_alive:
                replica.start()
        await self._stage.cluster.ready()
        return self._stage

    def close(self) -> None:
        if self._stage is not None:
            self._stage.cluster.close()
        if self._postgres is not None:
            self._postgres.close()
        self._model_port.close()
