"""`minara dev`: parts of Minara as processes of their own, for development and tests."""

from pathlib import Path
from typing import Annotated

import typer

from minara_gateway.cli_ends import ended, run

app = typer.Typer(no_args_is_help=True, help="Parts of Minara on their own, for development.")


@app.callback()
def dev() -> None:
    """Parts of Minara on their own, for development."""


@app.command()
def venue(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8090,
    data_dir: Annotated[Path | None, typer.Option(help="Where its database lies.")] = None,
    database_url: Annotated[str | None, typer.Option(help="Its database instead.")] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="With the fault switchboard: for tests alone.")
    ] = False,
) -> None:
    """Serve the paper venue over HTTP on loopback, for several Minaras and for fault tests.

    Needs MINARA_PAPER_VENUE_SECRET; whoever trades there sets the same one, and
    MINARA_PAPER_VENUE_URL.
    """
    from minara_tools.dev_venue import run_dev_venue

    run(
        run_dev_venue(
            port=port,
            data_dir=data_dir,
            database_url=database_url,
            with_faults=faults,
            on_ready=lambda url: typer.echo(f"serving the paper venue on {url}"),
        )
    )


@app.command()
def wire(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8095,
    rules: Annotated[bool, typer.Option("--rules", help="Answer by rules; the default.")] = False,
    script: Annotated[
        Path | None,
        typer.Option(help="Answer from this JSON file.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Serve the wire formats of model providers on loopback, to try Minara without a key.

    Refuses what the providers refuse, and prints a line for each request with what the prompt
    cache made of it.
    """
    from minara_llm.wire.dev_wire import run_dev_wire

    if rules and script is not None:
        raise ended("--rules and --script exclude each other", code=2)
    text = None if script is None else script.read_text(encoding="utf-8")
    run(run_dev_wire(port=port, script=text, say=typer.echo))
