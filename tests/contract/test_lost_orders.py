"""What the venue ended, or lost, while nobody looked."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from minara_core.actions import ActionState, MoveKind, PlacedState, TimeInForce
from minara_core.ids import PendingActionId, RandomIds, ToolCallId
from minara_tools.app.execute_move import CONFIRM_HELD
from minara_tools.domain.postings import LedgerAccount
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.grants import an_installation
from support.tools.money import ledger_of
from support.tools.scene import KillAt, Killed, Scene, parked_alone, rests
from support.tools.venue import placed


@pytest.fixture
async def scene(databases: Databases, tmp_path: Path) -> Scene:
    return Scene(databases, await databases.url(VERSIONS), tmp_path, an_installation())


async def test_a_held_cancel_whose_order_ended_meanwhile_is_void_and_stops_nobody(
    scene: Scene,
) -> None:
    action = await scene.pending()
    process = await scene.process()
    await process.confirm(action)
    ended = next(iter(scene.venue.orders))
    cancel = replace(
        action,
        pending_action_id=PendingActionId(RandomIds().new()),
        tool_call_id=ToolCallId("1.9"),
        order=replace(action.order, kind=MoveKind.CANCEL, cancels=ended),
    )
    await process.money.actions.park(
        action.user_id, scene.clock.now(), lambda _: parked_alone(cancel)
    )
    dying = await scene.process("first", failpoint=KillAt(CONFIRM_HELD))
    with pytest.raises(Killed):
        await dying.confirm(cancel)
    living = await scene.process("second")
    await living.settle()
    assert (await living.stored(cancel)).state is ActionState.VOIDED


async def test_an_order_that_the_venue_took_and_lost_is_doubted_and_never_void(
    scene: Scene,
) -> None:
    action = await scene.pending()
    process = await scene.process()
    scene.venue.answer = rests
    await process.confirm(action)
    client_id = scene.venue.sent[0]
    scene.venue.forget(action.order.account, client_id)
    await process.prove_absence()
    await process.prove_absence()
    doubted = await process.stored(action)
    assert doubted.state is ActionState.UNCERTAIN
    scene.clock.advance(timedelta(hours=24))
    settled = await process.money.books.resolve(
        action.user_id, action.pending_action_id, was_executed=False, evidence="asked them"
    )
    assert settled.state is ActionState.VOIDED
    assert await process.faults() == ()


async def test_a_resting_order_that_is_rejected_after_all_gives_its_hold_back(scene: Scene) -> None:
    action = await scene.pending()
    resting = replace(action.order, time_in_force=TimeInForce.GTC)
    order = replace(
        action,
        pending_action_id=PendingActionId(RandomIds().new()),
        tool_call_id=ToolCallId("1.9"),
        order=resting,
    )
    process = await scene.process()
    await process.money.actions.park(
        order.user_id, scene.clock.now(), lambda _: parked_alone(order)
    )
    scene.venue.answer = rests
    assert (await process.confirm(order)).state is ActionState.DONE
    client_id = scene.venue.sent[0]
    scene.venue.take(resting, placed(resting, client_id, state=PlacedState.REJECTED, filled="0"))
    await process.settle()
    assert (await process.stored(order)).state is ActionState.FAILED
    standing = await ledger_of(process.money).standing(order.user_id, "paper", "paper-local")
    assert standing.balances[(LedgerAccount.HELD, "USDC")] == 0
    assert await process.faults() == ()
