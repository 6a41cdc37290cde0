"""`minara keys`: what signs grants and audit checkpoints, and new keys in the place of old ones."""

import json
from pathlib import Path
from typing import Annotated

import typer

from minara_core.clock import SystemClock
from minara_gateway.cli_ends import JsonFlag, ended, settings_or_end
from minara_runtime import keys
from minara_runtime.data_folder import DataFolder
from minara_runtime.settings import SettingsError

app = typer.Typer(no_args_is_help=True, help="The signing keys of this installation.")

NAMES = {keys.CONFIRMATION: keys.GATEWAY} | {name: name for name in keys.SERVICES}


@app.command()
def init(
    public: Annotated[
        Path | None,
        typer.Option(help="Copy the public halves here, a folder per service."),
    ] = None,
) -> None:
    """Make the keys of all services where they are missing; again is harmless.

    For installations whose services have their own key folders: give each its own below `keys` in
    the data folder, and all of them the public halves.
    """
    folder = DataFolder(settings_or_end().gateway.data_dir)
    for service in keys.SERVICES:
        own = folder.keys(service)
        try:
            pairs = keys.own_keys(own, service)
        except SettingsError as error:
            raise ended(error.message) from error
        if public is not None:
            keys.publish(own, public / service)
        typer.echo(f"{service}: {', '.join(pair.kid for pair in pairs)}")


@app.command()
def rotate(
    name: Annotated[str, typer.Argument(help="gateway, gateway-confirmation, or a service.")],
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Believe nothing that the old key has signed.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a new key; what the old one has signed counts as long as it lives. Start the services
    anew afterwards, those that only verify first."""
    if name not in NAMES:
        raise ended(f"no key {name}; there are {', '.join(sorted(NAMES))}", code=2)
    folder = DataFolder(settings_or_end().gateway.data_dir).keys(NAMES[name])
    try:
        pair = keys.rotate(folder, name, now=SystemClock().now(), is_compromised=compromised)
    except SettingsError as error:
        raise ended(error.message) from error
    if as_json:
        typer.echo(json.dumps({"kid": pair.kid}))
    else:
        typer.echo(f"{name} signs with {pair.kid} from the next start on")
