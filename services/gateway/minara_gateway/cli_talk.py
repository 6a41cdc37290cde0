"""What commands ask of the Minara that runs, and how they show its answer."""

import json
from collections.abc import Iterable
from typing import Any

import typer

from minara_gateway.embedded import EmbeddedSettings
from minara_gateway.engine import attach
from minara_gateway.screen import plain


async def call(
    settings: EmbeddedSettings, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The answer of a running Minara, or of one started for this call. Raises MinaraError."""
    async with attach(settings) as attached:
        return await attached.client.call(method, path, body)


def tell(answer: dict[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the lines, or the answer itself as JSON."""
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in lines:
        typer.echo(plain(line))
