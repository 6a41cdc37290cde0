"""The emergency stop over both databases."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara.type.v1 import permission_pb2 as permission_pb
from minara_core.actions import ActionState
from minara_core.errors import Conflict, NotAuthenticated, NotReady
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.tooling import ToolDenial
from minara_runtime.convert import result_from_pb
from minara_runtime.convert_actions import action_from_pb
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import ToolsHouse, a_buy, a_call, a_house

HALTED = permission_pb.TRADING_STATE_HALTED
ACTIVE = permission_pb.TRADING_STATE_ACTIVE


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


async def state(house: ToolsHouse) -> control_pb.TradingStateRecord:
    response = await house.control.GetTradingState(
        control_pb.GetTradingStateRequest(), metadata=house.request_grant()
    )
    return response.trading_state


async def resume(house: ToolsHouse, etag: str) -> control_pb.TradingStateRecord:
    response = await house.control.ResumeTrading(
        control_pb.ResumeTradingRequest(etag=etag),
        metadata=house.decision("trading:resume", etag, "confirm"),
    )
    return response.trading_state


async def test_nobody_halted_means_active(house: ToolsHouse) -> None:
    assert (await state(house)).state == ACTIVE


async def test_a_halt_rejects_what_waits_and_stops_new_moves(house: ToolsHouse) -> None:
    action = await house.pending()
    halted = await house.halt()
    assert list(halted.rejected_action_ids) == [action.pending_action_id]
    assert halted.trading_state.state == HALTED
    stored = await house.stored(action)
    assert stored.state is ActionState.REJECTED
    assert stored.outcome is not None
    assert stored.outcome.reason == DenialReason.TRADING_HALTED
    with pytest.raises(Conflict):
        await house.confirm(action)
    outcome = (await house.one(a_buy("2.0"))).outcome
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.TRADING_HALTED
    assert not isinstance((await house.one(a_call("get_price", "2.1"))).outcome, ToolDenial)


async def test_halting_twice_is_halting_once(house: ToolsHouse) -> None:
    first = await house.halt()
    second = await house.halt()
    assert first.trading_state == second.trading_state
    rows = await house.rows("SELECT * FROM audit_records WHERE subject = 'trading'")
    assert len(rows) == 1


async def test_a_move_on_its_way_is_told_by_the_halt_and_recorded_all_the_same(
    house: ToolsHouse,
) -> None:
    action = await house.pending()
    house.venue.gate = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        confirming = tasks.create_task(house.confirm(action))
        await house.venue.arrived.wait()
        halted = await house.halt()
        house.venue.gate.set()
    assert list(halted.unsettled_action_ids) == [action.pending_action_id]
    assert action_from_pb(confirming.result().pending_action).state is ActionState.DONE


async def test_resuming_takes_the_etag_of_the_state_that_was_seen(house: ToolsHouse) -> None:
    before = await state(house)
    halted = (await house.halt()).trading_state
    assert halted.etag != before.etag
    with pytest.raises(Conflict) as stale:
        await resume(house, before.etag)
    assert stale.value.reason is ErrorReason.CONFIRMATION_MISMATCH
    resumed = await resume(house, halted.etag)
    assert resumed.state == ACTIVE
    assert await resume(house, halted.etag) == resumed
    assert (await house.pending("turn-9")).state is ActionState.PENDING


async def test_a_confirmation_of_something_else_does_not_resume(house: ToolsHouse) -> None:
    etag = (await house.halt()).trading_state.etag
    for action_id, shown, decision in (
        ("another", etag, "confirm"),
        ("trading:resume", "f" * 32, "confirm"),
        ("trading:resume", etag, "reject"),
    ):
        with pytest.raises(NotAuthenticated):
            await house.control.ResumeTrading(
                control_pb.ResumeTradingRequest(etag=etag),
                metadata=house.decision(action_id, shown, decision),
            )
    assert (await state(house)).state == HALTED


async def test_the_file_halts_everybody_until_it_is_gone(house: ToolsHouse) -> None:
    action = await house.pending()
    (house.data_dir / "HALT").touch()
    shown = await state(house)
    assert shown.state == HALTED
    assert shown.is_installation_wide
    response = await house.confirm(action)
    outcome = result_from_pb(response.result).outcome
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.TRADING_HALTED
    assert (await house.stored(action)).state is ActionState.VOIDED
    assert house.venue.sent == []
    with pytest.raises(NotReady) as caught:
        await resume(house, shown.etag)
    assert caught.value.reason is ErrorReason.TRADING_HALTED
    (house.data_dir / "HALT").unlink()
    assert (await state(house)).state == ACTIVE


async def test_a_user_cannot_resume_while_the_installation_is_halted_too(
    house: ToolsHouse,
) -> None:
    await house.halt()
    (house.data_dir / "HALT").touch()
    shown = await state(house)
    with pytest.raises(NotReady):
        await resume(house, shown.etag)


async def test_a_halt_survives_a_restart(databases: Databases, tmp_path: Path) -> None:
    url = await databases.url(VERSIONS)
    async with a_house(databases.reopen(url), tmp_path) as first:
        await first.halt()
    async with a_house(databases.reopen(url), tmp_path) as second:
        assert (await state(second)).state == HALTED


async def test_halts_and_confirmations_at_once_never_send_after_the_halt(
    house: ToolsHouse,
) -> None:
    action = await house.pending()

    async def confirm() -> ActionState | ErrorReason:
        try:
            return action_from_pb((await house.confirm(action)).pending_action).state
        except Conflict as error:
            return error.reason

    async with asyncio.TaskGroup() as tasks:
        confirming, halting = tasks.create_task(confirm()), tasks.create_task(house.halt())
    rejected = list(halting.result().rejected_action_ids)
    if rejected:
        assert confirming.result() is ErrorReason.CONFIRMATION_USED
        assert house.venue.sent == []
    else:
        assert confirming.result() in {ActionState.DONE, ActionState.VOIDED}
