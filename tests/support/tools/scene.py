"""One pending action, one venue, and as many processes as a test wants."""

from pathlib import Path

from minara_core.actions import PendingAction, PlacedOrder, PlacedState, ResolvedOrder
from minara_core.failpoints import Failpoint, no_failpoint
from minara_runtime.database import Database
from minara_tools.app.records import action_event
from minara_tools.app.stores import ParkedAction
from minara_tools.domain.approvals import Parking
from support.clock import FixedClock
from support.databases import Databases
from support.grants import Installation
from support.tools.house import a_house
from support.tools.money import Process, a_money
from support.tools.venue import FakeVenue, placed


class Killed(BaseException):
    """The process is gone: nothing after this point runs."""


class KillAt:
    def __init__(self, point: str) -> None:
        self._point = point
        self.hit: list[str] = []

    def __call__(self, name: str) -> None:
        if name == self._point:
            self.hit.append(name)
            raise Killed(name)


class Scene:
    """One pending action, one venue, and as many processes as a test wants."""

    def __init__(
        self, databases: Databases, url: str, data_dir: Path, installation: Installation
    ) -> None:
        self.clock: FixedClock = installation.clock
        self.venue = FakeVenue(clock=self.clock, name="paper")
        self._databases, self._url, self._data_dir = databases, url, data_dir
        self._installation = installation

    async def pending(self) -> PendingAction:
        async with a_house(
            self.database(), self._data_dir, venue=self.venue, installation=self._installation
        ) as house:
            return await house.pending()

    def database(self) -> Database:
        return self._databases.reopen(self._url)

    async def process(
        self, owner: str = "own", *, failpoint: Failpoint = no_failpoint, send_seconds: float = 5.0
    ) -> Process:
        database = self.database()
        money = await a_money(
            database,
            self._data_dir,
            self.venue,
            self.clock,
            owner=owner,
            failpoint=failpoint,
            send_seconds=send_seconds,
        )
        return Process(money, self.clock, database)


def rests(order: ResolvedOrder, client_id: str) -> PlacedOrder:
    return placed(order, client_id, state=PlacedState.OPEN, filled="0")


def parked_alone(action: PendingAction) -> ParkedAction:
    event = action_event(action, 2, now=action.create_time, trace_id="")
    return ParkedAction(parking=Parking(action=action, superseded=()), audits=(), tier_event=event)
