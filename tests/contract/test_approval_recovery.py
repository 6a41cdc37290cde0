"""A process that dies or is held up while it confirms: looked up at the venue, never sent again."""

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from minara_core.actions import (
    ActionState,
    PlacedOrder,
    ResolvedOrder,
)
from minara_core.errors import InvalidRequest, NotReady, Unavailable
from minara_core.ids import SessionId, UserId
from minara_core.taxonomy import TradingState
from minara_runtime.process_lease import ProcessLease
from minara_tools.adapters.counter_file import counter_path
from minara_tools.app.confirm_action import CONFIRM_REPLY
from minara_tools.app.execute_move import (
    CONFIRM_HELD,
    CONFIRM_INTENT,
    CONFIRM_SENT,
    CONFIRM_SIGNED,
    FAILPOINTS,
)
from minara_tools.domain.postings import LedgerAccount
from minara_tools.domain.venue_terms import VenueRequest
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.eventually import eventually
from support.grants import an_installation
from support.tools.house import a_house
from support.tools.money import a_money, ledger_of
from support.tools.scene import KillAt, Killed, Scene
from support.tools.venue import placed

AVAILABLE = (LedgerAccount.AVAILABLE, "USDC")
HELD = (LedgerAccount.HELD, "USDC")
NEVER_SENT = {CONFIRM_INTENT, CONFIRM_HELD, CONFIRM_SIGNED, CONFIRM_SENT}


@pytest.fixture
async def scene(databases: Databases, tmp_path: Path) -> Scene:
    return Scene(databases, await databases.url(VERSIONS), tmp_path, an_installation())


@pytest.mark.parametrize("point", [*FAILPOINTS, CONFIRM_REPLY])
async def test_a_kill_at_any_point_sends_at_most_one_order_and_the_books_agree(
    scene: Scene, point: str
) -> None:
    action = await scene.pending()
    killer = KillAt(point)
    dying = await scene.process("first", failpoint=killer)
    with pytest.raises(Killed):
        await dying.confirm(action)
    assert killer.hit == [point]

    living = await scene.process("second")
    await living.prove_absence()
    left = await living.stored(action)
    is_pending = point == CONFIRM_INTENT
    is_sent = point not in NEVER_SENT
    expected = ActionState.DONE if is_sent else ActionState.VOIDED
    assert left.state is (ActionState.PENDING if is_pending else expected)
    assert len(scene.venue.sent) == is_sent
    standing = await ledger_of(living.money).standing(action.user_id, "paper", "paper-local")
    venue = {one.asset: one.available for one in await scene.venue.balances("paper-local")}
    assert standing.balances[AVAILABLE] == venue["USDC"]
    assert standing.balances.get(HELD, Decimal(0)) == 0
    assert await living.faults() == ()


async def test_a_held_operation_of_a_dead_process_is_void_at_once(scene: Scene) -> None:
    action = await scene.pending()
    dying = await scene.process("first", failpoint=KillAt(CONFIRM_SIGNED))
    with pytest.raises(Killed):
        await dying.confirm(action)
    living = await scene.process("second")
    await living.settle()
    assert (await living.stored(action)).state is ActionState.VOIDED


async def test_who_was_held_up_before_the_send_finds_the_operation_void_and_sends_nothing(
    scene: Scene,
) -> None:
    action = await scene.pending()
    waiting, going_on = asyncio.Event(), asyncio.Event()
    first = await scene.process("first")
    prepare = scene.venue.prepare

    async def held_up(order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        waiting.set()
        await going_on.wait()
        return await prepare(order, client_order_id)

    scene.venue.prepare = held_up
    confirming = asyncio.ensure_future(first.confirm(action))
    await waiting.wait()
    other = await scene.process("second")
    await other.settle()
    going_on.set()
    assert (await confirming).state is ActionState.VOIDED
    assert scene.venue.sent == []


async def test_who_was_held_up_after_the_send_was_recorded_sends_nothing_too_late(
    scene: Scene,
) -> None:
    action = await scene.pending()

    def hold_up(name: str) -> None:
        if name == CONFIRM_SENT:
            scene.clock.advance(timedelta(seconds=6))

    process = await scene.process(failpoint=hold_up)
    void = await process.confirm(action)
    assert void.state is ActionState.VOIDED
    assert void.outcome is not None
    assert void.outcome.reason == "REQUEST_EXPIRED"
    assert scene.venue.sent == []


async def test_another_living_process_is_left_to_settle_its_own(scene: Scene) -> None:
    action = await scene.pending()
    await ProcessLease(scene.database(), owner="first").begin()
    dying = await scene.process("first", failpoint=KillAt(CONFIRM_SENT))
    with pytest.raises(Killed):
        await dying.confirm(action)
    other = await scene.process("second")
    await other.settle()
    assert (await other.stored(action)).state is ActionState.EXECUTING


async def test_a_decision_repeated_elsewhere_keeps_nobody_from_recovering(scene: Scene) -> None:
    action = await scene.pending()
    dying = await scene.process("first", failpoint=KillAt(CONFIRM_SIGNED))
    with pytest.raises(Killed):
        await dying.confirm(action)
    living = await scene.process("second")
    repeated = asyncio.ensure_future(living.confirm(action))
    await eventually(lambda: action.pending_action_id in living.money.decisions.in_flight)
    await living.settle()
    assert (await asyncio.wait_for(repeated, 5)).state is ActionState.VOIDED


async def test_an_uncertain_order_is_adopted_when_the_venue_knows_it(scene: Scene) -> None:
    def goes_silent(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        scene.venue.take(order, placed(order, client_id))
        raise Unavailable("the answer was lost")

    action = await scene.pending()
    scene.venue.answer = goes_silent
    process = await scene.process()
    assert (await process.confirm(action)).state is ActionState.UNCERTAIN
    await process.settle()
    assert (await process.stored(action)).state is ActionState.DONE
    assert len(scene.venue.sent) == 1


async def test_a_venue_that_hangs_is_given_up_and_looked_up(scene: Scene) -> None:
    action = await scene.pending()
    scene.venue.gate = asyncio.Event()
    process = await scene.process(send_seconds=0.05)
    assert (await process.confirm(action)).state is ActionState.UNCERTAIN
    client_id = scene.venue.sent[0]
    scene.venue.take(action.order, placed(action.order, client_id))
    await process.settle()
    assert (await process.stored(action)).state is ActionState.DONE
    assert len(scene.venue.sent) == 1


def is_gone(order: ResolvedOrder, client_id: str) -> PlacedOrder:
    raise Unavailable("gone")


async def test_an_uncertain_order_is_void_only_after_proof_of_absence(scene: Scene) -> None:
    action = await scene.pending()
    scene.venue.answer = is_gone
    process = await scene.process()
    await process.confirm(action)
    for _ in range(5):
        await process.settle()
        assert (await process.stored(action)).state is ActionState.UNCERTAIN
    scene.clock.advance(timedelta(seconds=36))
    for _ in range(2):
        await process.settle()
        await process.settle()  # a second look in the same moment proves nothing more
        assert (await process.stored(action)).state is ActionState.UNCERTAIN
        scene.clock.advance(timedelta(seconds=3))
    await process.settle()
    void = await process.stored(action)
    assert void.state is ActionState.VOIDED
    assert void.outcome is not None
    assert void.outcome.reason == "NOTHING_SENT"


async def test_a_wall_clock_that_jumps_proves_no_absence(scene: Scene) -> None:
    action = await scene.pending()
    scene.venue.answer = is_gone
    process = await scene.process()
    await process.confirm(action)
    await process.settle()
    for _ in range(6):
        scene.clock.jump(timedelta(minutes=1))
        await process.settle()
    assert (await process.stored(action)).state is ActionState.UNCERTAIN
    await process.prove_absence()
    assert (await process.stored(action)).state is ActionState.VOIDED


async def test_an_unreachable_venue_settles_nothing(scene: Scene) -> None:
    action = await scene.pending()
    scene.venue.answer = is_gone
    process = await scene.process()
    await process.confirm(action)
    scene.venue.is_unavailable = True
    scene.clock.advance(timedelta(hours=1))
    for _ in range(5):
        await process.settle()
        scene.clock.advance(timedelta(seconds=3))
    assert (await process.stored(action)).state is ActionState.UNCERTAIN


async def test_a_fill_of_what_was_void_is_booked_and_halts(scene: Scene) -> None:
    action = await scene.pending()
    scene.venue.answer = is_gone
    process = await scene.process()
    await process.confirm(action)
    await process.prove_absence()
    assert (await process.stored(action)).state is ActionState.VOIDED
    client_id = scene.venue.sent[0]
    scene.venue.take(action.order, placed(action.order, client_id))
    await process.money.reconciliation.run_once()
    standing = await ledger_of(process.money).standing(action.user_id, "paper", "paper-local")
    assert standing.trading.state is TradingState.HALTED
    assert standing.balances[(LedgerAccount.AVAILABLE, "ETH")] == Decimal("0.02")


async def test_overdue_actions_expire_by_themselves_and_are_told(
    databases: Databases, tmp_path: Path
) -> None:
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path) as house:
        action = await house.pending()
        clock = house.installation.clock
        clock.advance(timedelta(minutes=10))
        money = await a_money(database, tmp_path, house.venue, clock)
        await money.recovery.expire_overdue()
        assert (await house.stored(action)).state is ActionState.EXPIRED
        response = await house.open("turn-2", "hm", session_id=SessionId("session-1"))
        told = [one.pending_action_id for one in response.untold_outcomes]
    assert told == [action.pending_action_id]


async def test_after_a_day_without_an_answer_a_person_is_needed_and_may_settle_it(
    scene: Scene,
) -> None:
    action = await scene.pending()
    scene.venue.answer = is_gone
    process = await scene.process()
    await process.confirm(action)
    books = process.money.books
    with pytest.raises(NotReady):
        await books.resolve(
            action.user_id, action.pending_action_id, was_executed=False, evidence="asked them"
        )
    scene.venue.is_unavailable = True
    scene.clock.advance(timedelta(hours=24))
    for _ in range(2):
        await process.settle()
    doubted = await process.stored(action)
    assert doubted.state is ActionState.UNCERTAIN
    assert doubted.outcome is not None
    assert doubted.outcome.reason == "NEEDS_PERSON"
    with pytest.raises(InvalidRequest):
        await books.resolve(
            action.user_id, action.pending_action_id, was_executed=False, evidence=" "
        )
    for _ in range(2):
        settled = await books.resolve(
            action.user_id, action.pending_action_id, was_executed=False, evidence="asked them"
        )
        assert settled.state is ActionState.VOIDED
    standing = await ledger_of(process.money).standing(action.user_id, "paper", "paper-local")
    assert standing.balances[HELD] == 0
    assert await process.faults() == ()


async def test_restored_books_halt_and_void_until_a_person_adopts_them(
    scene: Scene, tmp_path: Path
) -> None:
    action = await scene.pending()
    first = await scene.process()
    assert (await first.stored(action)).state is ActionState.PENDING
    counter = counter_path(tmp_path)
    newer = json.loads(counter.read_text())
    counter.write_text(json.dumps(newer | {"counter": newer["counter"] + 5}))

    restored = await scene.process("second")
    beside = await scene.process("third")
    void = await restored.stored(action)
    assert void.state is ActionState.VOIDED
    assert void.outcome is not None
    assert void.outcome.reason == "BOOKS_RESTORED"
    ledger = ledger_of(restored.money)
    standing = await ledger.standing(action.user_id, "paper", "paper-local")
    assert standing.trading.state is TradingState.HALTED
    await restored.money.books.adopt()
    standing = await ledger.standing(action.user_id, "paper", "paper-local")
    assert standing.trading.state is TradingState.ACTIVE

    await beside.money.control.halt(action.user_id, reason="by hand")
    await beside.money.books.adopt()
    standing = await ledger.standing(action.user_id, "paper", "paper-local")
    # What another replica has adopted is not adopted again.
    assert standing.trading.state is TradingState.HALTED
    assert not await (await scene.process("fourth")).money.restored.begin()


async def test_any_replica_adopts_what_a_replica_without_its_folder_has_doubted(
    databases: Databases, tmp_path: Path
) -> None:
    installation = an_installation()
    url = await databases.url(VERSIONS)
    healthy = Scene(databases, url, tmp_path / "right", installation)
    await healthy.pending()
    right = await healthy.process("right")
    lost = Scene(databases, url, tmp_path / "forgotten-volume", installation)
    reason = await (await lost.process("wrong")).money.restored.begin()
    assert "counter file is missing" in reason
    assert "forgotten-volume" in reason
    assert (await right.money.control.current(UserId("local"))).state is TradingState.HALTED
    await right.money.books.adopt()
    assert (await right.money.control.current(UserId("local"))).state is TradingState.ACTIVE
    assert not await (await healthy.process("again")).money.restored.begin()
