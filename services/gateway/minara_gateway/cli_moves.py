"""`minara orders` and `minara withdraw`: what a person does themselves, without a model."""

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from minara_gateway.cli_ends import JsonFlag, ended, run, settings_or_end
from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import attach
from minara_gateway.limits_view import describe_addresses
from minara_gateway.orders_view import describe_answer, describe_orders
from minara_gateway.screen import plain

REFUSED = 1


def orders(
    recent: Annotated[int, typer.Option(min=0, max=50, help="How many of the latest moves.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """List your open orders and your latest moves."""
    answer = run(_call(settings_or_end(), "GET", f"/v1/orders?recent={recent}"))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    _print(describe_orders(answer))


def confirm(
    code: Annotated[str, typer.Argument(help="The code that stands in the preview.")],
    session: Annotated[str, typer.Option(help="The session it was made in, if in one.")] = "",
) -> None:
    """Do exactly what the preview with this code shows, once."""
    _decide_by_code("confirmByCode", code, session)


def reject(
    code: Annotated[str, typer.Argument(help="The code that stands in the preview.")],
    session: Annotated[str, typer.Option(help="The session it was made in, if in one.")] = "",
) -> None:
    """Do not do what the preview with this code shows."""
    _decide_by_code("rejectByCode", code, session)


def _decide_by_code(verb: str, code: str, session: str) -> None:
    body = {"code": code, "session_id": session}
    told = run(_call(settings_or_end(), "POST", f"/v1/approvals:{verb}", body))
    typer.echo(plain(told["rendered_receipt"]))


def withdraw(
    asset: Annotated[str, typer.Option(help="Such as USDC; else you are asked.")] = "",
    amount: Annotated[str, typer.Option(help="How much arrives.")] = "",
    address: Annotated[str, typer.Option(help="An entry of your address book: id or name.")] = "",
    last_six: Annotated[
        str, typer.Option(help="The recipient's last six characters, typed by you.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Fill in a withdrawal to a recipient of your address book, and decide on its preview."""
    is_asking = sys.stdin.isatty()
    if not is_asking and not (asset and amount and address and last_six):
        raise ended("say --asset, --amount, --address and --last-six, or use a terminal", code=2)
    settings = settings_or_end()
    if not address:
        book = run(_call(settings, "GET", "/v1/addresses?page_size=500"))
        _print(describe_addresses(book["addresses"]))
    card = {
        "symbol": asset or str(typer.prompt("Asset")),
        "amount": amount or str(typer.prompt("How much arrives")),
        "address": address or str(typer.prompt("To which entry (id or name)")),
        "last_six": last_six or str(typer.prompt("Its address' last six characters")),
    }
    body = {"tool": "withdraw_token", "arguments": card}
    answer = run(_call(settings, "POST", "/v1/manual-actions", body))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        _print(describe_answer(answer))
    action = answer.get("pending_action")
    if action is None:
        raise typer.Exit(REFUSED)
    if is_asking and not as_json:
        _decide(settings, action)


def _decide(settings: EmbeddedSettings, action: dict[str, Any]) -> None:
    decision = "confirm" if typer.confirm("Do exactly this?") else "reject"
    path = f"/v1/approvals/{action['pending_action_id']}:{decision}"
    told = run(_call(settings, "POST", path, {"action_hash": action["action_hash"]}))
    typer.echo(plain(told["rendered_receipt"]))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(plain(line))


async def _call(
    settings: EmbeddedSettings, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    async with attach(settings) as attached:
        return await attached.client.call(method, path, body)
