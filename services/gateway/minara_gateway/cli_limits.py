"""`minara limits`, `minara addresses`, `minara setup`: what a person allows themselves."""

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.cli_talk import call, tell
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.limits_view import (
    TITLES,
    describe_addresses,
    describe_limits,
    describe_tools,
    read_changes,
)

limits_app = typer.Typer(help="Your limits: what one move and one day may take at most.")
addresses_app = typer.Typer(help="The recipients you know.")
tools_app = typer.Typer(no_args_is_help=True, help="The tools Minara has.")

CHOICES: Mapping[str, str] = MappingProxyType(
    {
        "small": "up to $500 a move and $1,000 a day",
        "standard": "up to $5,000 a move and $10,000 a day",
        "own": "your own numbers",
    }
)


@limits_app.callback(invoke_without_command=True)
def limits_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Without a command: show them."""
    if context.invoked_subcommand is None:
        show_limits(as_json=as_json)


@limits_app.command("show")
def show_limits(as_json: JsonFlag = False) -> None:
    """Show your limits and the raises that wait."""
    answer = run(call(settings_or_end(), "GET", "/v1/limits"))
    tell(answer, describe_limits(answer["limits"]), as_json=as_json)


@limits_app.command("set")
def set_limits(
    changes: Annotated[list[str], typer.Argument(help="Such as max_move_usd=8000.")],
    as_json: JsonFlag = False,
) -> None:
    """Set limits: lower ones hold at once, higher ones an hour later."""
    answer = run(_update(settings_or_end(), words=changes))
    tell(answer, describe_limits(answer["limits"]), as_json=as_json)


@addresses_app.callback(invoke_without_command=True)
def addresses_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Without a command: list them."""
    if context.invoked_subcommand is None:
        list_addresses(as_json=as_json)


@addresses_app.command("list")
def list_addresses(as_json: JsonFlag = False) -> None:
    """List your recipients."""
    answer = run(call(settings_or_end(), "GET", "/v1/addresses?page_size=500"))
    tell(answer, describe_addresses(answer["addresses"]), as_json=as_json)


@addresses_app.command("add")
def add_address(
    name: Annotated[str, typer.Argument(help="What you call them.")],
    chain: Annotated[str, typer.Argument(help="The chain, as the venue calls it.")],
    address: Annotated[str, typer.Argument(help="In full.")],
    memo: Annotated[str, typer.Option(help="Memo or tag, where the chain needs one.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Enter a recipient; usable 24 hours later."""
    body = {"name": name, "chain": chain, "address": address, "memo": memo}
    answer = run(call(settings_or_end(), "POST", "/v1/addresses", body))
    tell(answer, describe_addresses([answer["address"]]), as_json=as_json)


@addresses_app.command("remove")
def remove_address(
    address_id: Annotated[str, typer.Argument(help="The id that `list` shows.")],
    as_json: JsonFlag = False,
) -> None:
    """Take a recipient out."""
    answer = run(call(settings_or_end(), "DELETE", f"/v1/addresses/{address_id}", {}))
    tell(answer, ["removed"], as_json=as_json)


@tools_app.command("list")
def list_tools(as_json: JsonFlag = False) -> None:
    """List every tool by set, with its tier and what it lacks to work here."""
    answer = run(call(settings_or_end(), "GET", "/v1/tools"))
    tell(answer, describe_tools(answer["tool_sets"]), as_json=as_json)


def setup(
    limits: Annotated[
        str, typer.Option(help="small, standard, or own with --set; else you are asked.")
    ] = "",
    own: Annotated[
        list[str] | None, typer.Option("--set", help="Your own, such as max_move_usd=800.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Choose your limits; the first choice holds at once."""
    if limits and limits not in CHOICES:
        raise ended(f"--limits is one of {', '.join(CHOICES)}", code=2)
    if (limits == "own") != bool(own):
        raise ended("--limits own goes with --set, such as --set max_move_usd=800", code=2)
    settings = settings_or_end()
    if limits:
        answer = run(_chosen(settings, limits, own or []))
    elif sys.stdin.isatty():
        answer = _asked(settings)
    else:
        raise ended("say --limits small or --limits standard, or answer on a terminal", code=2)
    tell(answer, describe_limits(answer["limits"]), as_json=as_json)


def _asked(settings: EmbeddedSettings) -> dict[str, Any]:
    """Asked once: whoever chose before changes single limits."""
    current = run(call(settings, "GET", "/v1/limits"))
    if current["limits"]["is_chosen"]:
        typer.echo("you chose before; `minara limits set NAME=VALUE` changes one")
        return current
    for name, what in CHOICES.items():
        typer.echo(f"  {name}: {what}")
    choice = ""
    while choice not in CHOICES:
        choice = str(typer.prompt("Your limits", default="small")).strip().lower()
    if choice != "own":
        return run(_chosen(settings, choice, []))
    shown = {one["name"]: one["value"]["value"] for one in current["limits"]["limits"]}
    words = [
        f"{name}={str(typer.prompt(TITLES.get(name, name), default=value)).strip()}"
        for name, value in shown.items()
    ]
    return run(_chosen(settings, "own", words))


async def _chosen(settings: EmbeddedSettings, choice: str, words: list[str]) -> dict[str, Any]:
    preset = "" if choice == "own" else choice
    return await _update(settings, preset=preset, words=words)


async def _update(
    settings: EmbeddedSettings, *, words: Iterable[str], preset: str = ""
) -> dict[str, Any]:
    body = {"preset": preset, "values": read_changes(words)}
    return await call(settings, "PATCH", "/v1/limits", body)
