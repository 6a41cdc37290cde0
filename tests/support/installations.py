"""Installations outside this process, which tests share: what all of them have in common, and those
that are processes of this machine."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path

import grpc.aio
import httpx

from minara_core.clock import SystemClock
from minara_core.ids import RandomIds, UserId
from minara_core.money import parse_amount
from minara_core.taxonomy import Scope
from minara_gateway.client import GatewayClient, ProblemError
from minara_gateway.settings import GatewaySettings
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.database import Database
from minara_runtime.span_file import read_trace
from minara_runtime.telemetry import SPAN_FILE
from minara_tools.adapters.halt_file import NAME as HALT_FILE
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.venue_paper import PaperVenue
from support.cluster import HOST, START_SECONDS, Cluster, Port
from support.eventually import eventually
from support.minara import Installation, Minara, client_of, method_served, named, text_at
from support.model_server import (
    PlayingOverTheWire,
    Script,
    a_model_server,
    settings_of,
)

_OFFLINE = {"MINARA_MODEL": "offline", "MINARA_OPENAI_BASE_URL": ""}
_PROBE = Caller(user_id=UserId("probe"), scopes=frozenset(Scope), is_interactive=True)
_UNTOLD_SECONDS = 1.3
"""Spans are on disk this long after they ended, at the latest."""
_TELLING_SECONDS = 20.0


class Gateways(httpx.AsyncBaseTransport):
    """Sends each request to the next gateway."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._true = httpx.AsyncHTTPTransport()
        self._next = cycle(addresses)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host, _, port = next(self._next).rpartition(":")
        request.url = request.url.copy_with(host=host, port=int(port))
        return await self._true.handle_async_request(request)

    async def aclose(self) -> None:
        await self._true.aclose()


class SharedInstallation(ABC):
    """Implements Installation, and what tests that share it need besides."""

    def __init__(self, *, model_host: str = HOST, model_listens_on: str = HOST) -> None:
        self._model_port = Port(model_listens_on)
        self._model_host = model_host
        self._is_scripted = False

    @property
    @abstractmethod
    def gateways(self) -> tuple[str, ...]:
        """The addresses of all gateways."""

    @abstractmethod
    def channel(self, service: str, until: AsyncExitStack) -> grpc.aio.Channel: ...

    @abstractmethod
    def database_url(self, name: str) -> str: ...

    @abstractmethod
    def gateway_settings(self) -> GatewaySettings: ...

    @abstractmethod
    async def page(self, user_id: UserId, name: str) -> str: ...

    @abstractmethod
    def down(self, service: str) -> AbstractAsyncContextManager[None]: ...

    @abstractmethod
    def halted_by_file(self) -> AbstractAsyncContextManager[None]: ...

    @abstractmethod
    async def spans(self) -> Path:
        """A file with the spans of all its processes, as it is now."""

    @abstractmethod
    async def restart_orchestrators(self, environment: Mapping[str, str]) -> None:
        """Start all of them anew with these variables added, one after the other."""

    @abstractmethod
    async def start(self) -> None:
        """Start it, or find it running, and wait until everybody has found everybody."""

    @abstractmethod
    def close(self) -> None: ...

    def transport(self) -> httpx.AsyncBaseTransport:
        return Gateways(self.gateways)

    async def methods_called(self, turn_id: str) -> Sequence[str]:
        clock, found, since = SystemClock(), list[str](), 0.0

        async def is_whole() -> bool:
            nonlocal found, since
            seen, now = _methods(await self.spans(), turn_id), clock.monotonic()
            if seen != found:
                found, since = seen, now
            return "RunTurn" in found and now - since >= _UNTOLD_SECONDS

        await eventually(is_whole, timeout=_TELLING_SECONDS, every=0.1)
        return found

    @asynccontextmanager
    async def playing(self, scripts: Iterable[Script]) -> AsyncGenerator[PlayingOverTheWire]:
        """Its orchestrators ask a model server for what these scripts say."""
        async with a_model_server(self._model_port, scripts) as playing:
            await self._choose(is_scripted=True)
            yield playing

    async def offline(self) -> None:
        """Its orchestrators ask the offline model."""
        await self._choose(is_scripted=False)

    async def settled(self, has_found: Callable[[GatewayClient], Awaitable[bool]]) -> None:
        """Wait until all gateways have found who was gone: that is tried anew within a second or
        two."""
        client = client_of(self, await new_token(self, _PROBE))
        in_a_row = 0

        async def answers() -> bool:
            nonlocal in_a_row
            in_a_row = in_a_row + 1 if await has_found(client) else 0
            return in_a_row >= 2 * len(self.gateways)

        try:
            await eventually(answers, timeout=START_SECONDS)
        finally:
            await client.aclose()

    async def _choose(self, *, is_scripted: bool) -> None:
        if is_scripted is self._is_scripted:
            return
        scripted = settings_of(self._model_host, self._model_port)
        await self.restart_orchestrators(scripted if is_scripted else _OFFLINE)
        self._is_scripted = is_scripted


class Processes(SharedInstallation):
    """A cluster on this machine."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster

    @property
    def gateways(self) -> tuple[str, ...]:
        return self.cluster.gateways()

    def channel(self, service: str, until: AsyncExitStack) -> grpc.aio.Channel:
        channel = self.cluster.channel(service)
        until.push_async_callback(channel.close)
        return channel

    def database_url(self, name: str) -> str:
        return self.cluster.database_url(name)

    def gateway_settings(self) -> GatewaySettings:
        return GatewaySettings(
            data_dir=self.cluster.data_dir, gateway_database_url=self.database_url("gateway")
        )

    async def page(self, user_id: UserId, name: str) -> str:
        return text_at(self.cluster.data_dir / "workspaces" / user_id / name)

    @asynccontextmanager
    async def halted_by_file(self) -> AsyncGenerator[None]:
        file = self.cluster.data_dir / HALT_FILE
        async with self.down("tools"):
            file.write_text("by hand", "utf-8")
        try:
            yield
        finally:
            file.unlink()

    async def spans(self) -> Path:
        return self.cluster.data_dir / SPAN_FILE

    @asynccontextmanager
    async def down(self, service: str) -> AsyncGenerator[None]:
        await self.cluster.terminate([service])
        try:
            yield
        finally:
            await self.cluster.start([service])
            await self.settled(finds_everybody)

    async def restart_orchestrators(self, environment: Mapping[str, str]) -> None:
        for replica in self.cluster.replicas_of("orchestrator"):
            await replica.restart(**environment)
            await self.settled(finds_orchestrator)

    async def start(self) -> None:
        await self.cluster.start()
        await self.settled(finds_everybody)

    def close(self) -> None:
        self.cluster.close()
        self._model_port.close()


async def finds_orchestrator(client: GatewayClient) -> bool:
    """Whether a gateway reaches an orchestrator; the model is not asked."""
    try:
        await client.call("POST", "/v1/chat/prompt", {"message": "price of BTC"})
    except ProblemError as error:
        return _has_answered(error)
    return True


async def finds_everybody(client: GatewayClient) -> bool:
    """Whether a turn that calls a tool goes well, and tools answers a gateway."""
    try:
        await client.call("GET", "/v1/trading")
        turn = [e async for e in client.stream("/v1/chat/stream", {"message": "price of BTC"})]
    except ProblemError as error:
        return _has_answered(error)
    return any("success" in fields["result"] for fields in named(turn, "tool_call_finished"))


def _has_answered(error: ProblemError) -> bool:
    """False when a peer is missing; anything else is a fault."""
    if error.status != 503:
        raise error
    return False


async def new_person(
    installation: Installation,
    *,
    user_id: UserId | None = None,
    scopes: Iterable[Scope] = tuple(Scope),
    balances: Mapping[str, str] | None = None,
) -> Minara:
    """Somebody with a token of these scopes: `user_id`, else a new person, whose paper account then
    holds `balances`. Close them in the end."""
    if user_id is None:
        user_id = UserId(f"person-{RandomIds().new()}")
        if balances:
            await _fund(installation, user_id, balances)
    caller = Caller(user_id=user_id, scopes=frozenset(scopes), is_interactive=True)
    token = await new_token(installation, caller)
    client = client_of(installation, token)
    return Minara(installation=installation, client=client, user_id=user_id, token=token)


async def new_token(installation: Installation, caller: Caller) -> str:
    """A token of this caller, known to all gateways of the installation."""
    store = GatewayStore(Database.open(installation.database_url("gateway")), SystemClock())
    token = secrets.token_urlsafe(24)
    await store.add_token(token, caller, name="test")
    await store.aclose()
    return token


async def _fund(installation: Installation, user_id: UserId, balances: Mapping[str, str]) -> None:
    """Open the person's paper account with these balances, before the services know of them."""
    clock = SystemClock()
    database = Database.open(installation.database_url("paper"))
    starting = {asset: parse_amount(text) for asset, text in balances.items()}
    venue = PaperVenue(database, SimulatedMarket(clock), clock, starting_balances=starting)
    await venue.accounts(user_id)
    await database.aclose()


def _methods(spans: Path, turn_id: str) -> list[str]:
    return [
        name
        for span in read_trace(spans, turn_id)
        if (name := method_served(span.attributes, turn_id)) is not None
    ]
