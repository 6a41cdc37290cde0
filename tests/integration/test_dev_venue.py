"""`minara dev venue`: the paper venue as a process of its own."""

import asyncio
import http.client
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from minara_core.actions import PlacedState, Side
from minara_core.clock import SystemClock
from minara_tools.adapters.venue_paper_http import VENUE_WRITTEN, HttpPaperVenue
from support.tools.venue_places import FIRST, ME, SECRET, a_trade

MINARA = Path(sys.executable).parent / "minara"
START_SECONDS = 30


@asynccontextmanager
async def a_dev_venue(
    folder: Path, *options: str, secret: str = SECRET.decode()
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """The process, and the first line it prints."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}  # noqa: TID251 - the child's environment is explicit
    environment = kept | {"HOME": str(folder), "MINARA_PAPER_VENUE_SECRET": secret}
    process = await asyncio.create_subprocess_exec(
        *(MINARA, "dev", "venue", "--port", "0", "--data-dir", str(folder / "venue"), *options),
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        yield process, line.decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def url_in(line: str) -> str:
    return line.rpartition(" ")[2]


async def a_purchase(venue: HttpPaperVenue) -> PlacedState:
    order = a_trade(venue, await venue.account(ME), Side.BUY)
    quote = await venue.quote("ETH/USDC", Side.BUY, order.quantity)
    bounded = replace(order, limit_price=Decimal(1_000_000), max_spend=quote.cost * 2)
    return (await venue.send(await venue.prepare(bounded, FIRST))).order.state


async def test_what_it_took_survives_a_kill(tmp_path: Path) -> None:
    async with a_dev_venue(tmp_path) as (process, line):
        client = HttpPaperVenue(url_in(line), SECRET, SystemClock())
        assert await a_purchase(client) is PlacedState.FILLED
        process.kill()
        await process.wait()
        await client.aclose()
    async with a_dev_venue(tmp_path) as (process, line):
        client = HttpPaperVenue(url_in(line), SECRET, SystemClock())
        found = await client.find_order(await client.account(ME), FIRST)
        assert found is not None
        assert found.state is PlacedState.FILLED
        await client.aclose()
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_it_does_not_start_without_a_secret(tmp_path: Path) -> None:
    async with a_dev_venue(tmp_path, secret="") as (process, line):
        assert line == ""
        assert await asyncio.wait_for(process.wait(), 30) == 2


async def test_a_request_is_with_the_venue_once_it_counts_as_written(tmp_path: Path) -> None:
    """The loop stands still inside the failpoint, as it would if the process were killed there."""
    async with a_dev_venue(tmp_path, "--faults") as (_, line):
        seen = await asyncio.to_thread(uvloop.run, _stand_still_when_written(url_in(line)))
        assert seen == [VENUE_WRITTEN, FIRST]


async def _stand_still_when_written(url: str) -> list[str]:
    seen: list[str] = []

    def stand_still(name: str) -> None:
        seen.append(name)
        end = time.monotonic() + 10
        while not (ids := _order_ids(url)) and time.monotonic() < end:
            pass
        seen.extend(ids)

    client = HttpPaperVenue(url, SECRET, SystemClock(), failpoint=stand_still)
    assert await a_purchase(client) is PlacedState.FILLED
    await client.aclose()
    return seen


def _order_ids(url: str) -> list[str]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.request("GET", "/state")
    state = json.loads(connection.getresponse().read())
    connection.close()
    return [order["client_order_id"] for order in state["orders"]]
