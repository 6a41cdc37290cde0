"""A whole Minara for end-to-end tests: five services, real HTTP over a socket, real databases."""

import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minara_core.clock import Clock
from minara_gateway.client import GatewayClient, StreamedEvent
from minara_gateway.embedded import EmbeddedSettings, Engine, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.model import ChatModel
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import genai, telemetry
from minara_skills.settings import SkillsSettings
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings

OFF_THE_PATH = frozenset(
    {"CreateSession", "GetSession", "ListPendingActions", "GetPendingAction", "ConfirmAction",
     "RejectAction", "CloseTurn", "ListTools"}
)  # fmt: skip
"""What architecture.md §7 does not count into a turn: before it, after it, or the gateway's own."""


def settings_for(
    data_dir: Path, *, balances: Mapping[str, str] | None = None, **gateway: Any
) -> EmbeddedSettings:
    """Settings that touch nothing but `data_dir`; with `balances` a paper account starts."""
    tools: dict[str, Any] = {"paper_balances": balances} if balances else {}
    return EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir, **gateway),
        orchestrator=OrchestratorSettings(data_dir=data_dir),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir, **tools),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )


@dataclass
class Minara:
    """One running installation and its owner's client."""

    data_dir: Path
    engine: Engine
    client: GatewayClient
    spans: InMemorySpanExporter
    session_id: str = ""
    shown_action_id: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def token(self) -> str:
        return self.engine.gateway.token

    async def say(self, message: str, **body: Any) -> list[StreamedEvent]:
        """Say something in this conversation as its web chat would; the turn's events."""
        request = {"message": message, **body}
        if self.session_id:
            request.setdefault("session_id", self.session_id)
        if self.shown_action_id:
            request.setdefault("shown_action_id", self.shown_action_id)
        events = [event async for event in self.client.stream("/v1/chat/stream", request)]
        started = named(events, "turn_started")
        if started:
            self.session_id = started[0]["session_id"]
        requested = named(events, "approval_requested")
        self.shown_action_id = (
            str(requested[-1].get("action", {}).get("pending_action_id", "")) if requested else ""
        )
        return events

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A raw HTTP client on the same socket, without any header of ours."""
        transport = httpx.AsyncHTTPTransport(uds=str(self.data_dir / "test.sock"))
        return httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, trust_env=False
        )

    def rpcs(self, turn_id: str) -> Counter[str]:
        """The RPCs on the path of a turn, as its servers saw them."""
        names = (
            str(span.attributes[genai.RPC_METHOD])
            for span in self.spans.get_finished_spans()
            if span.attributes
            and span.attributes.get(genai.TURN_ID) == turn_id
            and genai.RPC_METHOD in span.attributes
        )
        return Counter(name for name in names if name not in OFF_THE_PATH)

    def rows(self, service: str, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """What a service's database holds, read beside it."""
        connection = sqlite3.connect(f"file:{self.data_dir / service}.db?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query, parameters)]
        finally:
            connection.close()


@asynccontextmanager
async def a_minara(
    data_dir: Path,
    *,
    model: ChatModel | None = None,
    clock: Clock | None = None,
    balances: Mapping[str, str] | None = None,
    **gateway: Any,
) -> AsyncGenerator[Minara]:
    """Start one in `data_dir`. Without `model` the offline one answers; without `clock` the time is
    the world's."""
    spans = InMemorySpanExporter()
    settings = settings_for(data_dir, balances=balances, **gateway)
    traces = telemetry.configure(settings.gateway, "minara", exporter=spans)
    async with run_embedded(settings, telemetry=traces, model=model, clock=clock) as engine:
        socket = data_dir / "test.sock"
        async with serving(engine.gateway.app, bind_unix(socket)):
            client = GatewayClient.over_socket(socket, engine.gateway.token)
            try:
                yield Minara(data_dir=data_dir, engine=engine, client=client, spans=spans)
            finally:
                await client.aclose()
    traces.close()


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


def as_dict(text: str) -> dict[str, Any]:
    return json.loads(text)
