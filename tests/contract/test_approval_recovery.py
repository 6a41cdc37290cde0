"""A process that dies while it confirms: looked up at the next start, never sent again."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from minara_core.actions import ActionState, PlacedOrder, ResolvedOrder
from minara_core.errors import MinaraError, Unavailable
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.grant import Grant, GrantType
from minara_core.ids import RandomIds, SessionId, UserId
from minara_runtime import telemetry
from minara_runtime.database import Database
from minara_runtime.process_lease import ProcessLease
from minara_tools.adapters.call_tracing import CallTracing
from minara_tools.adapters.sql_actions import SqlActions
from minara_tools.app.confirm_action import (
    CONFIRM_PLACED,
    CONFIRM_RECORDED,
    CONFIRM_SENT,
    FAILPOINTS,
    PLACE_SECONDS,
    SEND_WITHIN,
    ActionDecisions,
    DecisionRequest,
)
from minara_tools.app.settle_actions import PROOF_OF_ABSENCE, ActionSettling
from minara_tools.domain.registry import ToolRegistry
from minara_tools.main import VERSIONS
from support.clock import FixedClock
from support.databases import Databases
from support.grants import Installation, an_installation
from support.tools.entries import a_move_tool
from support.tools.house import a_house
from support.tools.venue import ScriptedVenue, placed


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


def decisions(
    database: Database,
    venue: ScriptedVenue,
    clock: FixedClock,
    *,
    owner: str,
    failpoint: Failpoint = no_failpoint,
    place_seconds: float = 5.0,
) -> tuple[ActionDecisions, ActionSettling]:
    """One process's decisions and its recovery."""
    store = SqlActions(database, lambda: False, clock, owner=owner)
    registry = ToolRegistry((a_move_tool(venue),))
    tracing = CallTracing(telemetry.disabled())
    deciding = ActionDecisions(
        store,
        registry,
        venue,
        clock=clock,
        tracing=tracing,
        failpoint=failpoint,
        place_seconds=place_seconds,
    )
    settling = ActionSettling(store, deciding, registry, venue, clock=clock, tracing=tracing)
    return deciding, settling


def a_confirmation(action_id: str, action_hash: str, clock: FixedClock) -> Grant:
    return Grant(
        grant_type=GrantType.CONFIRMATION,
        issuer="gateway-confirmation",
        audience="minara",
        subject="local",
        grant_id="grant-1",
        issue_time=clock.now(),
        expire_time=clock.now() + timedelta(seconds=60),
        pending_action_id=action_id,
        action_hash=action_hash,
        decision="confirm",
    )


@pytest.fixture
def installation() -> Installation:
    return an_installation()


@pytest.mark.parametrize("point", FAILPOINTS)
async def test_a_kill_at_any_point_of_a_confirmation_sends_at_most_one_order(
    databases: Databases, tmp_path: Path, installation: Installation, point: str
) -> None:
    url = await databases.url(VERSIONS)
    venue, clock = ScriptedVenue(), installation.clock
    async with a_house(
        databases.reopen(url), tmp_path, venue=venue, installation=installation
    ) as house:
        action = await house.pending()
    request = DecisionRequest(
        pending_action_id=action.pending_action_id, action_hash=action.action_hash
    )
    grant = a_confirmation(action.pending_action_id, action.action_hash, clock)

    killer = KillAt(point)
    first = databases.reopen(url)
    dying, _ = decisions(first, venue, clock, owner="first", failpoint=killer)
    with pytest.raises(Killed):
        await dying.confirm(grant, request)
    assert killer.hit == [point]

    second = databases.reopen(url)
    await ProcessLease(second, owner="second").begin()
    living, settling = decisions(second, venue, clock, owner="second")
    await settling.settle()
    if point == CONFIRM_SENT and second.dialect == "postgresql":
        store = SqlActions(second, lambda: False, clock, owner="second")
        left = await store.find(action.pending_action_id, UserId("local"))
        assert left.state is ActionState.EXECUTING  # its sender may only be held up
        clock.advance(PROOF_OF_ABSENCE)
        await settling.settle()
    expected = {
        CONFIRM_SENT: ActionState.VOIDED,
        CONFIRM_PLACED: ActionState.DONE,
        CONFIRM_RECORDED: ActionState.DONE,
    }[point]
    recovered = await living.confirm(grant, request)
    assert recovered.state is expected
    assert len(venue.sent) == (0 if point == CONFIRM_SENT else 1)
    await settling.settle()
    assert await living.confirm(grant, request) == recovered


async def test_a_process_that_was_held_up_before_it_sent_sends_nothing(
    databases: Databases, tmp_path: Path, installation: Installation
) -> None:
    venue, clock = ScriptedVenue(), installation.clock
    url = await databases.url(VERSIONS)
    async with a_house(
        databases.reopen(url), tmp_path, venue=venue, installation=installation
    ) as house:
        action = await house.pending()
    request = DecisionRequest(
        pending_action_id=action.pending_action_id, action_hash=action.action_hash
    )
    grant = a_confirmation(action.pending_action_id, action.action_hash, clock)

    def hold_up(name: str) -> None:
        if name == CONFIRM_SENT:
            clock.advance(SEND_WITHIN + timedelta(seconds=1))

    deciding, _ = decisions(databases.reopen(url), venue, clock, owner="own", failpoint=hold_up)
    voided = await deciding.confirm(grant, request)
    assert voided.state is ActionState.VOIDED
    assert voided.outcome is not None
    assert voided.outcome.reason == "NOTHING_SENT"
    assert venue.sent == []


def test_absence_is_proven_only_when_no_sender_can_still_send() -> None:
    assert timedelta(seconds=PLACE_SECONDS) + SEND_WITHIN < PROOF_OF_ABSENCE


async def test_another_living_process_is_left_to_settle_its_own(
    databases: Databases, tmp_path: Path, installation: Installation
) -> None:
    url = await databases.url(VERSIONS)
    venue, clock = ScriptedVenue(), installation.clock
    async with a_house(
        databases.reopen(url), tmp_path, venue=venue, installation=installation
    ) as house:
        action = await house.pending()
    first, second = databases.reopen(url), databases.reopen(url)
    await ProcessLease(first, owner="first").begin()
    dying, _ = decisions(first, venue, clock, owner="first", failpoint=KillAt(CONFIRM_SENT))
    request = DecisionRequest(
        pending_action_id=action.pending_action_id, action_hash=action.action_hash
    )
    with pytest.raises(Killed):
        await dying.confirm(
            a_confirmation(action.pending_action_id, action.action_hash, clock), request
        )
    _, others = decisions(second, venue, clock, owner="second")
    await others.settle()
    store = SqlActions(second, lambda: False, clock, owner="second")
    left = await store.find(action.pending_action_id, UserId("local"))
    assert left.state is ActionState.EXECUTING


async def test_an_uncertain_order_is_adopted_when_the_venue_knows_it(
    databases: Databases, tmp_path: Path
) -> None:
    def goes_silent(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        venue.orders[client_id] = placed(order, client_id)
        raise Unavailable("the answer was lost")

    venue = ScriptedVenue()
    venue.answer = goes_silent
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, venue=venue) as house:
        action = await house.pending()
        await house.confirm(action)
        assert (await house.stored(action)).state is ActionState.UNCERTAIN
        owner = (await house.rows("SELECT sender FROM pending_actions"))[0]["sender"]
        _, settling = decisions(database, venue, house.installation.clock, owner=str(owner))
        await settling.settle()
        settled = await house.stored(action)
    assert settled.state is ActionState.DONE
    assert len(venue.sent) == 1


async def test_a_venue_that_hangs_is_given_up_and_looked_up(
    databases: Databases, tmp_path: Path, installation: Installation
) -> None:
    venue, clock = ScriptedVenue(), installation.clock
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, venue=venue, installation=installation) as house:
        action = await house.pending()
        request = DecisionRequest(
            pending_action_id=action.pending_action_id, action_hash=action.action_hash
        )
        grant = a_confirmation(action.pending_action_id, action.action_hash, clock)
        venue.gate = asyncio.Event()
        deciding, settling = decisions(database, venue, clock, owner="own", place_seconds=0.05)
        assert (await deciding.confirm(grant, request)).state is ActionState.UNCERTAIN
        order_id = venue.sent[0]
        venue.orders[order_id] = placed(action.order, order_id)
        await settling.settle()
        assert (await house.stored(action)).state is ActionState.DONE
    assert len(venue.sent) == 1


async def test_an_uncertain_order_is_void_only_after_proof_of_absence(
    databases: Databases, tmp_path: Path
) -> None:
    def is_gone(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise Unavailable("gone")

    venue = ScriptedVenue()
    venue.answer = is_gone
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, venue=venue) as house:
        action = await house.pending()
        await house.confirm(action)
        owner = str((await house.rows("SELECT sender FROM pending_actions"))[0]["sender"])
        clock = house.installation.clock
        _, settling = decisions(database, venue, clock, owner=owner)
        await settling.settle()
        assert (await house.stored(action)).state is ActionState.UNCERTAIN
        clock.advance(PROOF_OF_ABSENCE)
        await settling.settle()
        voided = await house.stored(action)
    assert voided.state is ActionState.VOIDED
    assert voided.outcome is not None
    assert voided.outcome.reason == "NOTHING_SENT"


async def test_an_unreachable_venue_settles_nothing(databases: Databases, tmp_path: Path) -> None:
    class Unreachable(ScriptedVenue):
        async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
            raise Unavailable("gone")

    venue = Unreachable()

    def is_gone(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise MinaraError("broken")

    venue.answer = is_gone
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, venue=venue) as house:
        action = await house.pending()
        await house.confirm(action)
        clock = house.installation.clock
        owner = str((await house.rows("SELECT sender FROM pending_actions"))[0]["sender"])
        clock.advance(timedelta(hours=1))
        _, settling = decisions(database, venue, clock, owner=owner)
        await settling.settle()
        assert (await house.stored(action)).state is ActionState.UNCERTAIN


async def test_overdue_actions_expire_by_themselves_and_are_told(
    databases: Databases, tmp_path: Path
) -> None:
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path) as house:
        action = await house.pending()
        clock = house.installation.clock
        clock.advance(timedelta(minutes=10))
        _, settling = decisions(database, house.venue, clock, owner=RandomIds().new())
        await settling.expire_overdue()
        assert (await house.stored(action)).state is ActionState.EXPIRED
        response = await house.open("turn-2", "hm", session_id=SessionId("session-1"))
        told = [one.pending_action_id for one in response.untold_outcomes]
    assert told == [action.pending_action_id]
