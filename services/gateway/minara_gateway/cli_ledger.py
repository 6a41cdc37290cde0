"""`minara ledger`: whether the books are sound, and what only a person may do to them."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import attach
from minara_gateway.repl import describe_trading
from minara_gateway.screen import plain
from minara_tools.main import check_ledger

app = typer.Typer(no_args_is_help=True, help="The books of the fund ledger.")

UNSOUND = 1


@app.command()
def check(as_json: JsonFlag = False) -> None:
    """Check every invariant of the books, offline; ends with 1 when one is broken."""
    settings = settings_or_end()
    faults = run(check_ledger(settings.tools))
    if as_json:
        typer.echo(json.dumps([asdict(fault) for fault in faults], ensure_ascii=False))
    elif not faults:
        typer.echo("the books are sound")
    for fault in () if as_json else faults:
        typer.echo(plain(f"BROKEN: {fault.invariant}: {fault.subject}: {fault.detail}"))
    if faults:
        raise typer.Exit(UNSOUND)


@app.command()
def resolve(
    operation_id: Annotated[str, typer.Argument(help="The operation, which has its action's id.")],
    evidence: Annotated[str, typer.Option(help="What shows it, such as a trade id.")],
    executed: Annotated[
        bool | None, typer.Option("--executed/--not-executed", help="What became of it.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Settle an operation of which the venue has told nothing for a day."""
    if executed is None:
        raise ended("say --executed or --not-executed", code=2)
    body = {"was_executed": executed, "evidence": evidence}
    answer = run(_post(settings_or_end(), f"/v1/operations/{operation_id}:resolve", body))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        typer.echo(plain(answer["pending_action"]["outcome"]["message"]))


@app.command()
def adopt(
    yes: Annotated[bool, typer.Option("--yes", help="You have looked at the books.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Go on with books that were restored or copied: ends the halt they start with."""
    if not yes and not typer.confirm("have you compared these books with the venue's?"):
        raise ended("nothing was changed")
    answer = run(_post(settings_or_end(), "/v1/trading:adopt", {}))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        typer.echo(describe_trading(answer["trading_state"]))


async def _post(settings: EmbeddedSettings, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with attach(settings) as attached:
        return await attached.client.call("POST", path, body)
