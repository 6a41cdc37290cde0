"""The one command: `minara`. Talks to the Minara that runs, else starts one here."""

import minara_runtime.load_env as load_env  # isort: skip - it must run before anything reads the environment

import asyncio
import json
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from minara_core.errors import MinaraError
from minara_gateway import (
    cli_audit,
    cli_dev,
    cli_goals,
    cli_keys,
    cli_ledger,
    cli_limits,
    cli_models,
    cli_moves,
    cli_services,
    cli_tokens,
    cli_trace,
)
from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import Attached, attach, find_running, start
from minara_gateway.orders_view import describe_halt
from minara_gateway.repl import Repl, describe_trading
from minara_gateway.terminal import PipedLines, TerminalLines, readable
from minara_gateway.trace_view import trace_view
from minara_runtime.span_file import read_trace
from minara_runtime.telemetry import SPAN_FILE

HALT_FILE = "HALT"
"""In the data folder; the tools service reads it as a halt of the installation."""

app = typer.Typer(no_args_is_help=False, add_completion=False, help=__doc__)
env_app = typer.Typer(help="Which .env files are trusted.")
app.add_typer(env_app, name="env")
app.add_typer(cli_audit.app, name="audit")
app.add_typer(cli_dev.app, name="dev")
app.add_typer(cli_goals.app, name="goal")
app.add_typer(cli_keys.app, name="keys")
app.add_typer(cli_ledger.app, name="ledger")
app.add_typer(cli_services.local_app, name="local")
app.add_typer(cli_models.app, name="model")
app.add_typer(cli_tokens.app, name="token")
app.command()(cli_services.health)
app.command()(cli_services.service)
app.command()(cli_audit.backup)
app.add_typer(cli_limits.limits_app, name="limits")
app.add_typer(cli_limits.addresses_app, name="addresses")
app.add_typer(cli_limits.tools_app, name="tools")
app.command()(cli_limits.setup)
app.command()(cli_moves.confirm)
app.command()(cli_moves.reject)
app.command()(cli_moves.orders)
app.command()(cli_moves.withdraw)
app.command()(cli_trace.trace)

HALT_SECONDS = 5.0
"""How long the running Minara may take to say that it halted; the file holds meanwhile."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("minara-gateway"))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Without a command: chat. Exit codes: 0 done, 1 failed, 2 a wrong setting or call."""
    if context.invoked_subcommand is None:
        run(_chat(settings_or_end(), session=""))


@app.command()
def chat(
    message: Annotated[str | None, typer.Option("--message", "-m", help="Say one thing.")] = None,
    session: Annotated[str, typer.Option(help="Go on in this session.")] = "",
    as_json: JsonFlag = False,
    dump_prompt: Annotated[
        bool, typer.Option("--dump-prompt", help="Print the prompt --message would produce.")
    ] = False,
) -> None:
    """Chat in this terminal, or say one thing and print the reply."""
    if message is None and (as_json or dump_prompt):
        raise ended("--json and --dump-prompt go with --message", code=2)
    settings = settings_or_end()
    if message is None:
        run(_chat(settings, session=session))
    elif dump_prompt:
        run(_dump_prompt(settings, readable(message), session, as_json=as_json))
    else:
        run(_say(settings, readable(message), session, as_json=as_json))


@app.command()
def serve(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="First port to try.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    repl: Annotated[bool, typer.Option("--repl", help="Chat too, on a terminal.")] = False,
) -> None:
    """Serve HTTP until interrupted."""
    run(_serve(settings_or_end(port=port, host=host), with_repl=repl))


@app.command()
def halt(
    reason: Annotated[str, typer.Option(help="Why, for the audit.")] = "",
    cancel_protection: Annotated[
        bool, typer.Option("--cancel-protection", help="Cancel protective orders too.")
    ] = False,
    close: Annotated[
        bool, typer.Option("--close", help="Preview the sale of every position.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop all trading at once; works also when nothing runs."""
    settings = settings_or_end()
    body = {
        "reason": reason,
        "cancel_protection": cancel_protection,
        "close_positions": close,
    }
    run(_halt(settings, body, as_json=as_json))


@app.command()
def resume(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let trading go on after a halt; a person's act, so it asks first."""
    run(_resume(settings_or_end(), yes=yes, as_json=as_json))


@env_app.command("allow")
def env_allow(path: Annotated[Path, typer.Argument(help="The .env file.")] = Path(".env")) -> None:
    """Trust this .env as it is now; a changed file must be allowed again."""
    if not path.is_file():
        raise ended(f"no file {path}")
    load_env.allow(path)
    typer.echo(f"{path.resolve()} is trusted as it is now")


async def _chat(settings: EmbeddedSettings, *, session: str) -> None:
    console = Console()
    async with attach(settings) as attached:
        await _report(settings, console, attached)
        await _talk(settings, attached, console, session)


async def _report(settings: EmbeddedSettings, console: Console, attached: Attached) -> None:
    """Say plainly what runs for real, what is a demo, and whether trading is halted."""
    if not attached.is_ours:
        where = settings.gateway.url or settings.gateway.data_dir
        console.print(f"attached to the Minara that runs on {where}", style="dim", markup=False)
    for part in attached.parts:
        console.print(part, style="dim", markup=False, highlight=False)
    for name, file, why in load_env.loaded.ignored:
        console.print(f"not taken: {name} from {file}: {why}", style="yellow", markup=False)
    record = (await attached.client.call("GET", "/v1/trading"))["trading_state"]
    if record["state"] != "TRADING_STATE_ACTIVE":
        console.print(describe_trading(record), style="bold red", markup=False)


async def _talk(
    settings: EmbeddedSettings, attached: Attached, console: Console, session: str
) -> None:
    def print_trace(turn_id: str) -> None:
        attached.flush_traces()
        spans = read_trace(settings.gateway.data_dir / SPAN_FILE, turn_id)
        console.print(trace_view(turn_id, spans) if spans else "no trace of that turn yet")

    repl = Repl(attached.client, console, print_trace=print_trace, session_id=session)
    is_terminal = sys.stdin.isatty()
    await repl.run(TerminalLines() if is_terminal else PipedLines(sys.stdin))


async def _say(settings: EmbeddedSettings, message: str, session: str, *, as_json: bool) -> None:
    async with attach(settings) as attached:
        body = {"message": message, "session_id": session}
        answer = await attached.client.call("POST", "/v1/chat", body)
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    typer.echo(answer["reply"])
    ends = [answer["rendered_end"]] if answer["rendered_end"] != answer["reply"] else []
    for line in (*answer["notices"], *ends):
        if line:
            typer.echo(line, err=True)


async def _dump_prompt(
    settings: EmbeddedSettings, message: str, session: str, *, as_json: bool
) -> None:
    async with attach(settings) as attached:
        body = {"message": message, "session_id": session}
        answer = await attached.client.call("POST", "/v1/chat/prompt", body)
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    for block in answer["blocks"]:
        cached = ", cached" if block["is_cached"] else ""
        typer.echo(f"===== {block['number']} {block['name']}{cached}\n{block['text']}\n")


async def _serve(settings: EmbeddedSettings, *, with_repl: bool) -> None:
    console = Console()
    stop = asyncio.Event()
    async with start(settings, over_tcp=True) as attached:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
        await _report(settings, console, attached)
        address = f"{attached.url}/?token={attached.token}"
        console.print(
            f"serving {attached.url}\nopen it with your token: {address}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        if not (with_repl and sys.stdin.isatty()):
            await stop.wait()
            return
        talk = asyncio.create_task(_talk(settings, attached, console, ""))
        halt_wait = asyncio.create_task(stop.wait())
        await asyncio.wait([talk, halt_wait], return_when=asyncio.FIRST_COMPLETED)
        for task in (talk, halt_wait):
            task.cancel()
        await asyncio.wait([talk, halt_wait])


async def _halt(settings: EmbeddedSettings, body: dict[str, Any], *, as_json: bool) -> None:
    """Stop first, ask afterwards: the file holds with every service dead, hung or locked."""
    path = settings.gateway.data_dir / HALT_FILE
    path.write_text(body["reason"] or "halted from the command line", encoding="utf-8")
    answer = await _halt_running(settings, body)
    if answer is None:
        said = f"halted, also for whatever starts next, until `minara resume` ({path})"
        if body["close_positions"] or body["cancel_protection"]:
            said += "\nNothing runs here, so no position was closed and no order cancelled."
        answer = {"trading_state": {"state": "TRADING_STATE_HALTED", "file": str(path)}}
    else:
        path.unlink()  # the running Minara remembers it from here on
        said = "\n".join([describe_trading(answer["trading_state"]), *describe_halt(answer)])
    typer.echo(json.dumps(answer, ensure_ascii=False) if as_json else said)


async def _halt_running(settings: EmbeddedSettings, body: dict[str, Any]) -> dict[str, Any] | None:
    """Tell the running Minara, which then also rejects what waits; None when it cannot be told."""
    try:
        async with asyncio.timeout(HALT_SECONDS):
            client = await find_running(settings)
            if client is None:
                return None
            try:
                return await client.call("POST", "/v1/trading:halt", body)
            finally:
                await client.aclose()
    except (MinaraError, TimeoutError) as error:
        why = error.message if isinstance(error, MinaraError) else "it does not answer"
        Console(stderr=True).print(f"the running Minara was not told: {why}", style="yellow")
        return None


async def _resume(settings: EmbeddedSettings, *, yes: bool, as_json: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise ended("resuming is a person's act: answer on a terminal, or say --yes", code=2)
    async with attach(settings) as attached:
        state = await attached.client.call("GET", "/v1/trading")
        question = f"{describe_trading(state['trading_state'])}; let it go on?"
        if not yes and not typer.confirm(question):
            raise typer.Exit(1)
        # The file halts the installation; whoever may remove it from the folder may resume.
        (settings.gateway.data_dir / HALT_FILE).unlink(missing_ok=True)
        state = await attached.client.call("GET", "/v1/trading")
        answer = await attached.client.call(
            "POST", "/v1/trading:resume", {"etag": state["trading_state"]["etag"]}
        )
    record = answer["trading_state"]
    typer.echo(json.dumps(answer, ensure_ascii=False) if as_json else describe_trading(record))


def main() -> None:
    """Entry point of the console script."""
    app()
