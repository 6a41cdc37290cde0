"""The ways a Minara is deployed under test. Embedded, each test has its own; the others live as
long as the test process, and each test is a new person in them."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from minara_core.clock import Clock
from minara_core.ids import UserId
from minara_core.taxonomy import Scope
from minara_runtime.settings import TrustedIssuer
from support.cluster import Cluster, new_databases
from support.compose_installation import ComposeInstallation
from support.installations import Processes, SharedInstallation, new_person
from support.minara import Installation, Minara, a_minara
from support.model_server import Playing, PlayingHere, Script
from support.nursery import Nursery
from support.postgres import SharedCluster

EMBEDDED = "embedded"
REPLICAS = {"processes": 1, "replicas": 2}
"""How many of each service run; more than one on PostgreSQL."""
COMPOSE = "compose"
KNOWN = (EMBEDDED, *REPLICAS, COMPOSE)


class MinaraFactory(Protocol):
    """Makes a person in the deployment under test, who leaves when the test ends.

    `balances` are in their paper account; `scripts` are what the model plays, to its end; `scopes`
    are those of their token. Only an embedded one has a `clock`.
    """

    async def __call__(
        self,
        *,
        balances: Mapping[str, str] | None = None,
        scripts: Iterable[Script] | None = None,
        clock: Clock | None = None,
        scopes: Iterable[Scope] = tuple(Scope),
    ) -> Minara: ...

    @property
    def model(self) -> Playing:
        """What plays the scripts that were given last."""
        ...


class Deployments:
    """The shared installations of this test process, each started when it is first asked for."""

    def __init__(self, folder: Path, nursery: Nursery, shared: Path, issuer: TrustedIssuer) -> None:
        self.issuer = issuer
        self._folder = folder
        self._nursery = nursery
        self._postgres = SharedCluster(shared)
        self._running: dict[str, SharedInstallation] = {}
        self._unready: set[str] = set()

    async def installation(self, name: str) -> SharedInstallation:
        """`name` as in REPLICAS, or COMPOSE."""
        if name not in self._running:
            issuers = TypeAdapter(tuple[TrustedIssuer, ...]).dump_json((self.issuer,)).decode()
            environment = {"MINARA_TRUSTED_ISSUERS": issuers}
            made = (
                ComposeInstallation(self._folder / name, environment)
                if name == COMPOSE
                else Processes(await self._cluster(name, environment))
            )
            self._running[name] = made
            self._unready.add(name)
            await made.start()
            self._unready.discard(name)
        assert name not in self._unready, f"{name} did not start; the first failure says why"
        return self._running[name]

    async def _cluster(self, name: str, environment: Mapping[str, str]) -> Cluster:
        replicas = REPLICAS[name]
        return Cluster(
            self._nursery,
            self._folder / name,
            replicas=replicas,
            databases=None if replicas == 1 else await new_databases(self._postgres.join()),
            environment=environment,
        )

    def close(self) -> None:
        for running in self._running.values():
            running.close()
        self._postgres.leave()


class Persons:
    """Implements MinaraFactory."""

    def __init__(self, name: str, deployments: Deployments, folder: Path) -> None:
        self._name = name
        self._deployments = deployments
        self._folder = folder
        self._until = AsyncExitStack()
        self._model: Playing | None = None
        self._numbers = count(1)

    @property
    def model(self) -> Playing:
        assert self._model is not None, "no scripts were given"
        return self._model

    async def __call__(
        self,
        *,
        balances: Mapping[str, str] | None = None,
        scripts: Iterable[Script] | None = None,
        clock: Clock | None = None,
        scopes: Iterable[Scope] = tuple(Scope),
    ) -> Minara:
        if self._name == EMBEDDED:
            minara = await self._embedded(balances, scripts, clock)
            if frozenset(scopes) == frozenset(Scope):
                return minara
            return await self._person(minara.installation, user_id=minara.user_id, scopes=scopes)
        assert clock is None, "only an embedded Minara has a clock of the test's"
        installation = await self._deployments.installation(self._name)
        if scripts is None:
            await installation.offline()
        else:
            self._model = await self._until.enter_async_context(installation.playing(scripts))
        return await self._person(installation, scopes=scopes, balances=balances)

    async def aclose(self) -> None:
        await self._until.aclose()

    async def _embedded(
        self,
        balances: Mapping[str, str] | None,
        scripts: Iterable[Script] | None,
        clock: Clock | None,
    ) -> Minara:
        model = None if scripts is None else PlayingHere(scripts)
        self._model = model
        running = a_minara(
            self._folder / f"data-{next(self._numbers)}",
            model=model,
            clock=clock,
            balances=balances,
            trusted_issuers=(self._deployments.issuer,),
        )
        return await self._until.enter_async_context(running)

    async def _person(
        self,
        installation: Installation,
        *,
        user_id: UserId | None = None,
        scopes: Iterable[Scope],
        balances: Mapping[str, str] | None = None,
    ) -> Minara:
        minara = await new_person(installation, user_id=user_id, scopes=scopes, balances=balances)
        self._until.push_async_callback(minara.aclose)
        return minara


@asynccontextmanager
async def persons_of(
    name: str, deployments: Deployments, folder: Path
) -> AsyncGenerator[MinaraFactory]:
    """A factory of persons in the deployment of this name, who leave when the body ends."""
    persons = Persons(name, deployments, folder)
    try:
        yield persons
    finally:
        await persons.aclose()
