"""`minara audit` and `minara backup`: what was recorded, whether it is whole, and a copy of it."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import typer
from rich.console import Console

from minara_core.audit import AuditKind
from minara_core.clock import SystemClock
from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import attach
from minara_gateway.repl import describe_record
from minara_gateway.screen import plain
from minara_runtime.audit_report import AuditPlace, AuditReport, verify_service
from minara_runtime.backup import back_up
from minara_runtime.data_folder import DataFolder

app = typer.Typer(no_args_is_help=True, help="What was recorded, and whether it is whole.")

BROKEN = 1


@app.command()
def verify(
    service: Annotated[str, typer.Option(help="Only this service: tools or workspace.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Check every audit chain and checkpoint, offline; ends with 1 when anything is broken."""
    places = audit_places(settings_or_end())
    if service and service not in places:
        raise ended(f"{service} keeps no audit records; say {' or '.join(places)}", code=2)
    chosen = [places[service]] if service else list(places.values())
    reports = run(_verify(chosen))
    if as_json:
        facts = [asdict(report) | {"is_broken": report.is_broken} for report in reports]
        typer.echo(json.dumps(facts, ensure_ascii=False))
    else:
        for report in reports:
            _print(report)
    if any(report.is_broken for report in reports):
        raise typer.Exit(BROKEN)


@app.command("list")
def list_records(
    turn: Annotated[str, typer.Option(help="Only this turn.")] = "",
    session: Annotated[str, typer.Option(help="Only this session.")] = "",
    kind: Annotated[AuditKind | None, typer.Option(help="Only this kind.")] = None,
    most: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
    payload: Annotated[bool, typer.Option("--payload", help="Show payloads too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List what was recorded about you, newest first."""
    query = {"page_size": str(most), "turn_id": turn, "session_id": session}
    query |= {"kind": kind.value} if kind else {}
    query |= {"include_payload": "true"} if payload else {}
    answer = run(_list(settings_or_end(), query))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        for record in cast("list[dict[str, Any]]", answer["audit_records"]):
            typer.echo(describe_record(record))


def backup(
    target: Annotated[Path, typer.Argument(help="A folder that is new or empty.")],
    as_json: JsonFlag = False,
) -> None:
    """Copy databases, audit checkpoints and money counter, also while Minara runs."""
    made = run(_back_up(settings_or_end(), target))
    if as_json:
        typer.echo(json.dumps(made, ensure_ascii=False))
    else:
        typer.echo(f"{len(made['files'])} files copied to {target}")


def audit_places(settings: EmbeddedSettings) -> dict[str, AuditPlace]:
    """Where the services that keep audit records keep them."""
    folder = DataFolder(settings.gateway.data_dir)
    urls = {
        "tools": settings.tools.tools_database_url,
        "workspace": settings.workspace.workspace_database_url,
    }
    return {
        service: AuditPlace(
            service=service,
            database_url=url or folder.database_url(service),
            data_dir=folder.path,
        )
        for service, url in urls.items()
    }


async def _verify(places: list[AuditPlace]) -> list[AuditReport]:
    return [await verify_service(place) for place in places]


def _print(report: AuditReport) -> None:
    console = Console(soft_wrap=True)
    state = "BROKEN" if report.is_broken else "whole"
    console.print(
        f"{report.service}: {state}; {report.records} rows of {report.users} users, "
        f"{report.checkpoints} checkpoints, {report.uncovered} rows since the last one",
        style="bold red" if report.is_broken else "green",
        markup=False,
        highlight=False,
    )
    for finding in report.findings:
        style = "red" if finding.is_broken else "yellow"
        console.print(f"  {plain(finding.sentence)}", style=style, markup=False, highlight=False)


async def _list(settings: EmbeddedSettings, query: dict[str, str]) -> dict[str, Any]:
    async with attach(settings) as attached:
        return await attached.client.call("GET", f"/v1/audit?{urlencode(query)}")


async def _back_up(settings: EmbeddedSettings, target: Path) -> dict[str, Any]:
    configured = {
        "gateway": settings.gateway.gateway_database_url,
        "orchestrator": settings.orchestrator.orchestrator_database_url,
        "skills": settings.skills.skills_database_url,
        "tools": settings.tools.tools_database_url,
        "paper": settings.tools.paper_database_url,
        "workspace": settings.workspace.workspace_database_url,
    }
    urls = {service: url for service, url in configured.items() if url}
    made = await asyncio.to_thread(
        back_up, settings.gateway.data_dir, urls, target, clock=SystemClock()
    )
    return asdict(made)
