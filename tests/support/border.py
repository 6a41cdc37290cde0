"""The border of a service in front of an echo, on either kind of channel."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minara_core.taxonomy import Scope
from minara_runtime import telemetry
from minara_runtime.channels import with_grant
from minara_runtime.interceptors import server_interceptors
from minara_runtime.settings import Settings
from support.channels import a_channel
from support.echo import EchoServicer
from support.grants import Installation, an_installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """The interceptors of a service, and a grant that lets a call in."""

    kind: str
    installation: Installation
    spans: InMemorySpanExporter
    telemetry: telemetry.Telemetry

    @property
    def grant(self) -> tuple[tuple[str, str], ...]:
        return with_grant(self.installation.request_grant(Scope.READ))

    def open(self, servicer: EchoServicer, *, is_raw: bool = False) -> Any:
        interceptors = server_interceptors(self.installation.verifier, self.telemetry)
        return a_channel(self.kind, servicer.register, interceptors, is_raw=is_raw)


def a_border(kind: str, data_dir: Path) -> Border:
    """A border whose spans are kept in memory."""
    spans = InMemorySpanExporter()
    settings = Settings(data_dir=data_dir)
    return Border(
        kind=kind,
        installation=an_installation(),
        spans=spans,
        telemetry=telemetry.configure(settings, "echo", exporter=spans),
    )
