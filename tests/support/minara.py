"""A running Minara as one person sees it: over HTTP, and beside it its databases and spans.

How it runs is its `Installation`'s affair: in this process (`a_minara`), as processes, as replicas,
or in containers (`support.deployments`).
"""

import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
import httpx
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minara_core.clock import Clock
from minara_core.ids import SINGLE_USER, UserId
from minara_gateway.client import GatewayClient, StreamedEvent
from minara_gateway.embedded import EmbeddedSettings, Engine, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.model import ChatModel
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import genai, telemetry
from minara_runtime.database import Database
from minara_skills.settings import SkillsSettings
from minara_tools.adapters.halt_file import NAME as HALT_FILE
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings
from support.stored import rows_of, tables_with

OFF_THE_PATH = frozenset(
    {"CreateSession", "GetSession", "ListPendingActions", "GetPendingAction", "ConfirmAction",
     "RejectAction", "CloseTurn", "ListTools"}
)  # fmt: skip
"""What architecture.md §7 does not count into a turn: before it, after it, or the gateway's own."""

URL = "http://localhost"
"""What every request names as its host, wherever its transport sends it."""


def settings_for(
    data_dir: Path,
    *,
    balances: Mapping[str, str] | None = None,
    orchestrator: Mapping[str, Any] | None = None,
    **gateway: Any,
) -> EmbeddedSettings:
    """Settings that touch nothing but `data_dir`; with `balances` a paper account starts, with
    `orchestrator` that service has settings of its own."""
    tools: dict[str, Any] = {"paper_balances": balances} if balances else {}
    return EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir, **gateway),
        orchestrator=OrchestratorSettings(data_dir=data_dir, **(orchestrator or {})),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir, **tools),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )


class Installation(Protocol):
    """What stands behind all persons of a running Minara, however it is deployed."""

    def transport(self) -> httpx.AsyncBaseTransport:
        """The way of HTTP requests to any of its gateways; their URL is `URL`."""
        ...

    def channel(self, service: str, until: AsyncExitStack) -> grpc.aio.Channel:
        """A channel to a service, good until that stack is closed."""
        ...

    def database_url(self, name: str) -> str:
        """Of the database of a service, or "paper"."""
        ...

    def gateway_settings(self) -> GatewaySettings:
        """What a further gateway of this installation would be built with."""
        ...

    async def page(self, user_id: UserId, name: str) -> str:
        """A person's Markdown page; empty where there is none."""
        ...

    async def methods_called(self, turn_id: str) -> Sequence[str]:
        """The RPC methods that servers saw in a turn, once all of them have told."""
        ...

    def down(self, service: str) -> AbstractAsyncContextManager[None]:
        """The service, at the least, does not run while the body does; then it serves again."""
        ...

    def halted_by_file(self) -> AbstractAsyncContextManager[None]:
        """While the body runs, the file HALT lies there; it was put there while no tools service
        ran."""
        ...


@dataclass
class Minara:
    """One person in a running installation, and their client."""

    installation: Installation
    client: GatewayClient
    user_id: UserId
    token: str
    session_id: str = ""
    shown_action_id: str = ""
    _until: AsyncExitStack = field(default_factory=AsyncExitStack)
    _channels: dict[str, grpc.aio.Channel] = field(default_factory=dict[str, grpc.aio.Channel])
    _databases: dict[str, Database] = field(default_factory=dict[str, Database])

    async def say(
        self, message: str, *, through: GatewayClient | None = None, **body: Any
    ) -> list[StreamedEvent]:
        """Say something in this conversation as its web chat would; the turn's events."""
        client = through or self.client
        request = {"message": message, **body}
        if self.session_id:
            request.setdefault("session_id", self.session_id)
        if self.shown_action_id:
            request.setdefault("shown_action_id", self.shown_action_id)
        events = [event async for event in client.stream("/v1/chat/stream", request)]
        started = named(events, "turn_started")
        if started:
            self.session_id = started[0]["session_id"]
        requested = named(events, "approval_requested")
        self.shown_action_id = (
            str(requested[-1].get("action", {}).get("pending_action_id", "")) if requested else ""
        )
        return events

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A raw HTTP client, without any header of ours."""
        return httpx.AsyncClient(
            transport=self.installation.transport(), base_url=URL, headers=headers, trust_env=False
        )

    def channel(self, service: str) -> grpc.aio.Channel:
        """A channel to a service."""
        if service not in self._channels:
            self._channels[service] = self.installation.channel(service, self._until)
        return self._channels[service]

    async def rpcs(self, turn_id: str) -> Counter[str]:
        """The RPCs on the path of a turn, as its servers saw them."""
        names = await self.installation.methods_called(turn_id)
        return Counter(name for name in names if name not in OFF_THE_PATH)

    async def rows(self, service: str, table: str, **equal: object) -> list[dict[str, Any]]:
        """What a service has stored of this person: the rows of a table whose columns have these
        values."""
        return await rows_of(self._database(service), self.user_id, service, table, **equal)

    async def tables_with(self, service: str, text: str) -> list[str]:
        """The tables of a service in which this text stands, in anybody's rows."""
        return await tables_with(self._database(service), text)

    async def page(self, name: str) -> str:
        """A Markdown page of this person; empty where there is none."""
        return await self.installation.page(self.user_id, name)

    async def aclose(self) -> None:
        await self.client.aclose()
        await self._until.aclose()

    def _database(self, service: str) -> Database:
        if service not in self._databases:
            database = Database.open(self.installation.database_url(service))
            self._until.push_async_callback(database.aclose)
            self._databases[service] = database
        return self._databases[service]


class Embedded:
    """An installation in this process, on in-process channels and SQLite, behind a Unix socket."""

    def __init__(
        self,
        settings: EmbeddedSettings,
        *,
        model: ChatModel | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._model = model
        self._clock = clock
        self._spans = InMemorySpanExporter()
        self._stack = AsyncExitStack()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "it does not run"
        return self._engine

    @property
    def data_dir(self) -> Path:
        return self._settings.gateway.data_dir

    async def start(self) -> None:
        traces = telemetry.configure(self._settings.gateway, "minara", exporter=self._spans)
        self._stack.callback(traces.close)
        self._engine = await self._stack.enter_async_context(
            run_embedded(self._settings, telemetry=traces, model=self._model, clock=self._clock)
        )
        await self._stack.enter_async_context(
            serving(self._engine.gateway.app, bind_unix(self._socket))
        )

    async def stop(self) -> None:
        """Again is harmless."""
        self._engine = None
        await self._stack.aclose()

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport(uds=str(self._socket))

    def channel(self, service: str, until: AsyncExitStack) -> grpc.aio.Channel:
        channels = {
            "orchestrator": self.engine.orchestrator,
            "workspace": self.engine.workspace,
            "skills": self.engine.skills,
            "tools": self.engine.tools,
        }
        return channels[service]

    def database_url(self, name: str) -> str:
        return f"sqlite:///{self.data_dir / name}.db"

    def gateway_settings(self) -> GatewaySettings:
        return self._settings.gateway

    async def page(self, user_id: UserId, name: str) -> str:
        assert user_id == SINGLE_USER
        return text_at(self.data_dir / "pages" / name)

    async def methods_called(self, turn_id: str) -> Sequence[str]:
        return [
            name
            for span in self._spans.get_finished_spans()
            if (name := method_served(span.attributes or {}, turn_id)) is not None
        ]

    def forget_spans(self) -> None:
        """Keep nothing of what was traced so far."""
        self._spans.clear()

    @asynccontextmanager
    async def down(self, service: str) -> AsyncGenerator[None]:
        await self.stop()
        yield
        await self.start()

    @asynccontextmanager
    async def halted_by_file(self) -> AsyncGenerator[None]:
        file = self.data_dir / HALT_FILE
        async with self.down("tools"):
            file.write_text("by hand", "utf-8")
        yield
        file.unlink()

    @property
    def _socket(self) -> Path:
        return self.data_dir / "test.sock"


class EmbeddedMinara(Minara):
    """The owner of an installation in this process."""

    @property
    def engine(self) -> Engine:
        return self._embedded.engine

    @property
    def data_dir(self) -> Path:
        return self._embedded.data_dir

    def forget_spans(self) -> None:
        """Keep nothing of what was traced so far: a test that counts memory is not to count it."""
        self._embedded.forget_spans()

    @property
    def _embedded(self) -> Embedded:
        assert isinstance(self.installation, Embedded)
        return self.installation


@asynccontextmanager
async def a_minara(
    data_dir: Path,
    *,
    model: ChatModel | None = None,
    clock: Clock | None = None,
    balances: Mapping[str, str] | None = None,
    orchestrator: Mapping[str, Any] | None = None,
    **gateway: Any,
) -> AsyncGenerator[EmbeddedMinara]:
    """Start one in `data_dir`. Without `model` the settings of the orchestrator say who answers, by
    default the offline model; without `clock` the time is the world's."""
    settings = settings_for(data_dir, balances=balances, orchestrator=orchestrator, **gateway)
    installation = Embedded(settings, model=model, clock=clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(installation.stop)
        await installation.start()
        token = installation.engine.gateway.token
        minara = EmbeddedMinara(
            installation=installation,
            client=client_of(installation, token),
            user_id=SINGLE_USER,
            token=token,
        )
        stack.push_async_callback(minara.aclose)
        yield minara


def method_served(attributes: Mapping[str, object], turn_id: str) -> str | None:
    """The bare name of the RPC method that a span of this turn served, if it is such a span."""
    if attributes.get(genai.TURN_ID) != turn_id or genai.RPC_METHOD not in attributes:
        return None
    return str(attributes[genai.RPC_METHOD]).rpartition("/")[2]


def client_of(installation: Installation, token: str) -> GatewayClient:
    """A client of the installation's gateways with this token."""
    http = httpx.AsyncClient(
        base_url=URL,
        transport=installation.transport(),
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx.Timeout(None, connect=2.0),
        trust_env=False,
    )
    return GatewayClient(http)


def text_at(path: Path) -> str:
    """The text of a file, empty where there is none."""
    return path.read_text("utf-8") if path.exists() else ""


def sqlite_rows(data_dir: Path, service: str, query: str, *parameters: Any) -> list[dict[str, Any]]:
    """What a service of an installation on SQLite has stored, by any query."""
    path = f"file:{data_dir / service}.db?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query, parameters)]


def named(events: Iterable[StreamedEvent], name: str) -> list[dict[str, Any]]:
    """The fields of all events of one name, in order."""
    return [event.fields for event in events if event.name == name]


def text_of(events: Iterable[StreamedEvent]) -> str:
    return "".join(fields["text"] for fields in named(events, "text_delta"))


def finish_reason(events: list[StreamedEvent]) -> str:
    """How the turn ended: its finish reason, or the name of another terminal event."""
    last = events[-1]
    if last.name != "turn_completed":
        return last.name
    return str(last.fields["finish_reason"]).removeprefix("FINISH_REASON_").lower()


def tools_called(events: Iterable[StreamedEvent]) -> list[str]:
    return [fields["name"] for fields in named(events, "tool_call_started")]


def is_well_formed(events: list[StreamedEvent]) -> bool:
    """Sequences from 1 without gaps, each started call finished, one terminal event at the end."""
    sequences = [event.sequence for event in events]
    started = [fields["tool_call_id"] for fields in named(events, "tool_call_started")]
    finished = [fields["result"]["tool_call_id"] for fields in named(events, "tool_call_finished")]
    terminal = [e for e in events if e.name in {"turn_completed", "turn_failed", "turn_cancelled"}]
    return (
        sequences == list(range(1, len(events) + 1))
        and sorted(started) == sorted(finished)
        and terminal == events[-1:]
    )
