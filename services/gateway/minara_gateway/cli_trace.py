"""`minara trace`: one turn as a tree, from the spans that lie on this machine."""

import json
from urllib.parse import urlencode

import typer
from rich.console import Console

from minara_core.errors import MinaraError
from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import find_running
from minara_gateway.trace_view import trace_json, trace_view
from minara_runtime.span_file import read_trace
from minara_runtime.telemetry import SPAN_FILE

_RECORDS = 50


def trace(turn_id: str, as_json: JsonFlag = False) -> None:
    """Print one turn as a tree: prompt sizes, gates, calls, timings, cost."""
    settings = settings_or_end()
    spans = read_trace(settings.gateway.data_dir / SPAN_FILE, turn_id)
    if not spans:
        raise ended(missing(settings, turn_id, run(_trace_id(settings, turn_id))))
    if as_json:
        typer.echo(json.dumps(trace_json(turn_id, spans), ensure_ascii=False))
    else:
        Console().print(trace_view(turn_id, spans))


def missing(settings: EmbeddedSettings, turn_id: str, trace_id: str) -> str:
    """Why a turn is not shown, and where else it may be; `trace_id` is empty when not known."""
    path = settings.gateway.data_dir / SPAN_FILE
    said = (
        f"no trace of turn {turn_id} in {path}: it ran on another machine, was not written yet, or "
        "was so long ago that its spans are gone"
    )
    name = f"its trace id is {trace_id}" if trace_id else f"there its minara.turn_id is {turn_id}"
    endpoint = settings.gateway.otlp_endpoint
    if endpoint is not None:
        return f"{said}.\nSpans also go to {endpoint} (MINARA_OTLP_ENDPOINT): {name}."
    where = "MINARA_OTLP_ENDPOINT is not set here, so this file is the only place it could be in"
    return f"{said}.\n{where}." + (f" {name[0].upper()}{name[1:]}." if trace_id else "")


async def _trace_id(settings: EmbeddedSettings, turn_id: str) -> str:
    """The trace that the audit names for a turn, if a Minara runs here that can be asked."""
    try:
        client = await find_running(settings)
        if client is None:
            return ""
        try:
            query = urlencode({"page_size": str(_RECORDS), "turn_id": turn_id})
            page = await client.call("GET", f"/v1/audit?{query}")
        finally:
            await client.aclose()
    except MinaraError:
        return ""
    traces = (str(record.get("trace_id", "")) for record in page["audit_records"])
    return next((trace_id for trace_id in traces if trace_id), "")
