"""The venue as a process of its own, with its fault switchboard and a controlled clock."""

import asyncio

import uvloop
from pydantic import SecretStr

from minara_tools.dev_venue import dev_venue
from minara_tools.settings import ToolsSettings
from support.faults.control import Control, ControlledClock
from support.faults.orders import Start

SECRET = "a-secret-of-the-fault-harness"
BALANCES = {"USDC": "100000", "ETH": "10"}


def settings_of(start: Start) -> ToolsSettings:
    return ToolsSettings(
        data_dir=start.data_dir,
        paper_venue_secret=SecretStr(SECRET),
        paper_balances=BALANCES,
        paper_database_url=start.database_url if start.kind == "venue" else None,
        paper_venue_url=start.venue_url or None,
    )


def main(start: Start) -> None:
    uvloop.run(_serve(start))


async def _serve(start: Start) -> None:
    clock = ControlledClock(Control(start.control), start.who)
    async with dev_venue(settings_of(start), clock, port=0, with_faults=True) as url:
        announce(start, url)
        await asyncio.Event().wait()


def announce(start: Start, where: str) -> None:
    """Say where the process answers, all at once."""
    draft = start.place("draft")
    draft.write_text(where)
    draft.replace(start.place("ready"))
