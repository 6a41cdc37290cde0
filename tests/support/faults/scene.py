"""The processes of one run, and the hands of the harness on them."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import httpx

from minara_core.ids import UserId
from minara_core.money import add
from minara_runtime.audit_report import AuditPlace, AuditReport, snapshot, verify_service
from minara_runtime.database import Database
from minara_tools.adapters.venue_paper_http import HttpPaperVenue
from minara_tools.adapters.venue_paper_http_faults import FaultKind
from minara_tools.domain.operations import OperationState
from support.eventually import eventually
from support.faults.children import Child, Nursery
from support.faults.control import FIRST, PERSON, SECOND, VENUE, Control, ControlledClock
from support.faults.evidence import Recorded, Sent, VenueOrder, read_recorded
from support.faults.lab import Room
from support.faults.orders import Bug, Start
from support.faults.person import USER, Line, Person
from support.faults.venue_process import SECRET

_LOOKS = ("find_order", "open_orders", "closed_orders", "facts", "balances")


def rule(kind: FaultKind, call: str = "send", *, count: int = 1, seconds: float = 0.0) -> object:
    """A rule of the venue's switchboard."""
    return {"kind": kind.value, "call": call, "count": count, "seconds": seconds}


OUTAGE = tuple(rule(FaultKind.ERROR_BEFORE, call, count=0) for call in _LOOKS)
"""The venue answers nobody who asks what became of an order."""


class Switchboard:
    """The venue's faults, and its own list of orders."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=10.0)

    async def set_rules(self, *rules: object) -> None:
        await self._post("/faults", {"rules": rules})

    async def set_prices(self, prices: Mapping[str, str]) -> None:
        await self._post("/faults", {"prices": prices})

    async def release(self) -> None:
        """Let the requests that are held go."""
        await self._post("/faults/release", {})

    async def held(self) -> int:
        return (await self._state())["held"]

    async def orders(self) -> tuple[VenueOrder, ...]:
        return tuple(
            VenueOrder(
                client_order_id=one["client_order_id"],
                kind=one["kind"],
                state=one["state"],
                filled_quantity=Decimal(one["filled_quantity"]),
                spent=Decimal(one["spent"]),
                received=Decimal(one["received"]),
            )
            for one in (await self._state())["orders"]
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _state(self) -> dict[str, Any]:
        return (await self._http.get("/state")).raise_for_status().json()

    async def _post(self, path: str, content: Mapping[str, object]) -> None:
        (await self._http.post(path, json=content)).raise_for_status()


class Books:
    """The tools database as an onlooker reads it."""

    def __init__(self, url: str) -> None:
        self._url = url
        is_server = not url.startswith("sqlite")
        self._database = Database.open(url, pool_size=1) if is_server else None

    async def read(self) -> Recorded:
        if self._database is not None:
            return await self._database.read(read_recorded)
        return await snapshot(self._url, read_recorded)

    async def aclose(self) -> None:
        if self._database is not None:
            await self._database.aclose()


class Scene:
    """A venue, the tools processes, a person. `voids` are the void operations and when they were
    first seen."""

    def __init__(self, room: Room, nursery: Nursery, venue: Child, url: str, bug: Bug) -> None:
        self.control = Control(room.folder / "control")
        self.clock = ControlledClock(self.control, PERSON)
        self.person = Person(room.data_dir / "keys", self.clock)
        self.switchboard = Switchboard(url)
        self.voids: dict[str, datetime] = {}
        self.children: list[Child] = [venue]
        self._room = room
        self._nursery = nursery
        self._url = url
        self._bug = bug
        self._books = Books(room.tools_url)
        self._lines: list[Line] = []
        self._account = HttpPaperVenue(url, SECRET.encode(), self.clock)

    async def start_tools(self, who: str, *, point: str = "", is_kill: bool = False) -> Child:
        """A tools process; only the first one crashes at a point."""
        child = await self._nursery.start(
            Start(
                kind="tools",
                who=who,
                folder=str(self._room.folder),
                database_url=self._room.tools_url,
                venue_url=self._url,
                point=point,
                is_kill=is_kill,
                bug=self._bug,
            )
        )
        self.children.append(child)
        return child

    async def line_to(self, child: Child) -> Line:
        line = Line(await child.ready())
        self._lines.append(line)
        return line

    def pass_time(self, seconds: float, *, asleep: str = "") -> None:
        """For everybody; `asleep` has a monotonic clock that does not count it."""
        if asleep:
            name = f"unslept {asleep}"
            self.control.set(name, self.control.get(name) + seconds)
        self.control.set("elapsed", self.control.get("elapsed") + seconds)

    def skew(self, who: str, seconds: float) -> None:
        """Set how far the wall clocks of the tools processes, or of the venue, are off."""
        for one in (VENUE,) if who == VENUE else (FIRST, SECOND):
            self.control.set(f"skew {one}", seconds)

    async def look(self) -> Recorded:
        """What the tools database says now."""
        recorded = await self._books.read()
        now = self.clock.now()
        for one in recorded.books.operations:
            if one.state is OperationState.VOIDED:
                self.voids.setdefault(one.operation_id, now)
        return recorded

    async def somebody_else_cancels(self, client_order_id: str) -> None:
        """Past our books, as from the venue's own website."""
        account = await self._account.account(UserId(USER))
        await self._account.cancel_order(account, client_order_id)

    async def balances(self) -> dict[str, Decimal]:
        found: dict[str, Decimal] = {}
        for one in await self._account.accounts(UserId(USER)):
            for balance in await self._account.balances(one.account):
                total = add(balance.available, balance.held)
                found[balance.asset] = add(found.get(balance.asset, Decimal(0)), total)
        return {asset: amount for asset, amount in found.items() if amount}

    def sends(self) -> tuple[Sent, ...]:
        place = self.children[0].start.sends
        lines = place.read_text().splitlines() if place.exists() else []
        return tuple(Sent.read(line) for line in lines)

    async def audit(self) -> AuditReport:
        return await verify_service(
            AuditPlace(
                service="tools",
                database_url=self._room.tools_url,
                data_dir=self._room.data_dir,
            )
        )

    async def end_processes(self) -> None:
        for child in self.children:
            await child.kill()

    async def aclose(self) -> None:
        for line in self._lines:
            await line.aclose()
        await self.switchboard.aclose()
        await self._account.aclose()
        await self.end_processes()
        await self._books.aclose()
        self.control.close()


@asynccontextmanager
async def a_scene(room: Room, nursery: Nursery, bug: Bug) -> AsyncGenerator[Scene]:
    """A venue that answers, and nobody else yet."""
    Control(room.folder / "control").close()
    start = Start(kind="venue", who=VENUE, folder=str(room.folder), database_url=room.venue_url)
    venue = await nursery.start(start)
    scene = Scene(room, nursery, venue, await venue.ready(), bug)
    try:
        yield scene
    finally:
        await scene.aclose()


async def held_one(switchboard: Switchboard) -> None:
    """Return once the venue holds a request back. Raises AssertionError when none comes."""

    async def is_held() -> bool:
        return await switchboard.held() > 0

    await eventually(is_held, timeout=2.0, every=0.02)
