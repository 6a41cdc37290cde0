"""`minara token`: who may speak to the gateway over HTTP, and what they may do."""

import json
import secrets
from typing import Annotated

import typer

from minara_core.clock import SystemClock
from minara_core.errors import NotFound
from minara_core.ids import UserId
from minara_core.taxonomy import Scope
from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.settings import GatewaySettings
from minara_gateway.store import Caller, GatewayStore, KnownToken
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database

app = typer.Typer(no_args_is_help=True, help="Tokens for people and programs that use HTTP.")

_DEFAULT = "read,chat,trade"
_LONGEST_NAME = 100


@app.command()
def create(
    user: Annotated[str, typer.Option(help="Whose data and money it reaches.")],
    scopes: Annotated[str, typer.Option(help="Of read, chat, trade, admin.")] = _DEFAULT,
    name: Annotated[str, typer.Option(help="What it is for; shown in the list.")] = "",
    can_confirm: Annotated[
        bool, typer.Option("--can-confirm", help="It may confirm moves of money.")
    ] = False,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="A person's log-in: a typed yes counts as theirs."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    caller = Caller(
        user_id=_user(user),
        scopes=_scopes(scopes, can_confirm=can_confirm),
        is_interactive=interactive,
    )
    token = secrets.token_urlsafe(32)
    settings = settings_or_end().gateway
    run(_add(settings, token, caller, name or f"token of {user}"))
    if can_confirm and not interactive:
        typer.echo("this token can move money without asking a person", err=True)
    typer.echo(json.dumps({"token": token, "user": user}) if as_json else token)


@app.command("list")
def list_all(as_json: JsonFlag = False) -> None:
    """Whose tokens there are; the tokens themselves are not known here."""
    found = run(_list(settings_or_end().gateway))
    if as_json:
        typer.echo(json.dumps([_facts(token) for token in found]))
        return
    for token in found:
        facts = _facts(token)
        kind = "person" if token.caller.is_interactive else "program"
        made = f"{token.create_time:%Y-%m-%d}"
        typer.echo(
            f"{facts['id']}  {facts['user']}  {kind}  {facts['scopes']}  {made}  {facts['name']}"
        )


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="As `minara token list` shows it.")],
) -> None:
    """Make a token worthless; running gateways forget it within half a minute."""
    try:
        run(_revoke(settings_or_end().gateway, token_id))
    except NotFound as error:
        raise ended(error.message) from error
    typer.echo("revoked")


def _user(name: str) -> UserId:
    if not (name.isprintable() and 0 < len(name.strip()) == len(name) <= _LONGEST_NAME):
        raise ended(f"--user: 1 to {_LONGEST_NAME} printable characters", code=2)
    return UserId(name)


def _scopes(text: str, *, can_confirm: bool) -> frozenset[Scope]:
    names = {part.strip() for part in text.split(",") if part.strip()}
    known = {scope.value for scope in Scope} - {Scope.CONFIRM.value}
    if unknown := names - known:
        raise ended(
            f"--scopes: no scope {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(known))}; confirming takes --can-confirm",
            code=2,
        )
    if can_confirm:
        names |= {Scope.CONFIRM.value}
    return frozenset(Scope(name) for name in names)


def _facts(token: KnownToken) -> dict[str, str | bool]:
    return {
        "id": token.token_id,
        "user": token.caller.user_id,
        "scopes": ",".join(sorted(token.caller.scopes)),
        "interactive": token.caller.is_interactive,
        "name": token.name,
        "create_time": token.create_time.isoformat(),
    }


async def _opened(settings: GatewaySettings) -> GatewayStore:
    folder = DataFolder(settings.data_dir)
    url = settings.gateway_database_url or folder.database_url("gateway")
    store = GatewayStore(Database.open(url), SystemClock())
    await store.migrate()
    return store


async def _add(settings: GatewaySettings, token: str, caller: Caller, name: str) -> None:
    store = await _opened(settings)
    try:
        await store.add_token(token, caller, name=name)
    finally:
        await store.aclose()


async def _list(settings: GatewaySettings) -> list[KnownToken]:
    store = await _opened(settings)
    try:
        return await store.tokens()
    finally:
        await store.aclose()


async def _revoke(settings: GatewaySettings, token_id: str) -> None:
    store = await _opened(settings)
    try:
        await store.revoke_token(token_id)
    finally:
        await store.aclose()
