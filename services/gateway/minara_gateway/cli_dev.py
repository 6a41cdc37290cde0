"""`minara dev`: parts of Minara as processes of their own, for development and tests."""

from pathlib import Path
from typing import Annotated

import typer

from minara_gateway.cli_ends import run

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
