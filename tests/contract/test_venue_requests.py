"""Venue: a request is signed, holds for a few seconds, and is one move however often it arrives."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.actions import MoveKind, PlacedState, TradingMode
from minara_core.errors import InvalidRequest
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import VenueRequest
from support.tools.venue_places import FIRST, SECOND, SOMEBODY, Place, a_transfer, a_withdrawal

MUCH = Decimal(100_000)
VALIDITY = timedelta(seconds=5)
A_MOMENT = timedelta(milliseconds=1)


async def a_request(place: Place, client_order_id: str = FIRST) -> VenueRequest:
    return await place.venue.prepare(await place.trade(), client_order_id)


def at_any_time(request: VenueRequest) -> VenueRequest:
    """As a sender that checks no deadline of its own would send it."""
    return replace(request, deadline=None)


async def test_preparing_sends_nothing(place: Place) -> None:
    request = await a_request(place)
    assert await place.venue.find_order(request.account, FIRST) is None
    assert await place.free("USDC") == MUCH


async def test_a_request_is_signed_for_five_seconds(place: Place) -> None:
    request = await a_request(place)
    assert request.sign_time == place.clock.now()
    assert request.not_after == request.sign_time + VALIDITY
    assert request.deadline == place.clock.monotonic() + VALIDITY.total_seconds()
    assert place.venue.capabilities.request_validity == VALIDITY
    assert (request.kind, request.client_order_id) == (MoveKind.TRADE, FIRST)


async def test_the_last_moment_of_its_validity_is_early_enough(place: Place) -> None:
    request = await a_request(place)
    place.clock.advance(VALIDITY)
    assert (await place.venue.send(request)).order.state is PlacedState.FILLED


async def test_a_request_past_its_deadline_does_not_leave(place: Place) -> None:
    request = await a_request(place)
    place.clock.advance(VALIDITY + A_MOMENT)
    with pytest.raises(ToolFailed) as failed:
        await place.venue.send(request)
    assert failed.value.reason == "REQUEST_EXPIRED"
    assert await place.venue.find_order(request.account, FIRST) is None


async def test_a_request_that_comes_late_is_refused_and_not_recorded(place: Place) -> None:
    request = at_any_time(await a_request(place))
    place.clock.advance(VALIDITY + A_MOMENT)
    with pytest.raises(ToolFailed) as failed:
        await place.venue.send(request)
    assert failed.value.reason == "REQUEST_EXPIRED"
    assert await place.venue.find_order(request.account, FIRST) is None
    assert await place.free("USDC") == MUCH
    assert (await place.placed(await place.trade(), FIRST)).state is PlacedState.FILLED


async def test_what_is_recorded_is_answered_however_late_it_is_asked(place: Place) -> None:
    request = at_any_time(await a_request(place))
    placed = (await place.venue.send(request)).order
    place.clock.advance(timedelta(days=1))
    answer = await place.venue.send(request)
    assert answer.order == placed
    assert await place.free("USDC") == MUCH - placed.spent


async def test_the_same_client_id_is_one_order(place: Place) -> None:
    order = await place.trade()
    answer = await place.sent(order, FIRST)
    after = await place.free("USDC")
    place.market.prices_usd["ETH"] = Decimal(2_600)
    place.clock.advance(timedelta(seconds=1))
    assert await place.sent(order, FIRST) == answer
    assert await place.venue.find_order(order.account, FIRST) == answer.order
    assert await place.free("USDC") == after


async def test_eight_sends_at_once_are_one_order(place: Place) -> None:
    request = await a_request(place)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(place.venue.send(request)) for _ in range(8)]
    answers = [task.result() for task in tasks]
    assert all(answer == answers[0] for answer in answers)
    assert await place.free("USDC") == MUCH - answers[0].order.spent


async def test_a_client_id_serves_no_second_order(place: Place) -> None:
    order = await place.trade()
    placed = await place.placed(order, FIRST)
    other = await place.placed(replace(order, quantity=order.quantity * 2), FIRST)
    assert (other.state, other.reason) == (PlacedState.REJECTED, "DUPLICATE_CLIENT_ID")
    assert other.spent == other.received == 0
    assert await place.venue.find_order(order.account, FIRST) == placed
    assert await place.free("USDC") == MUCH - placed.spent


async def test_two_orders_at_once_under_one_client_id_are_one(place: Place) -> None:
    order = await place.trade()
    double = replace(order, quantity=order.quantity * 2, max_spend=Decimal(102))
    requests = [await place.venue.prepare(each, FIRST) for each in (order, double)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(place.venue.send(request)) for request in requests]
    states = sorted(task.result().order.state for task in tasks)
    assert states == [PlacedState.FILLED, PlacedState.REJECTED]
    (spent,) = [task.result().order.spent for task in tasks if task.result().order.spent]
    assert await place.free("USDC") == MUCH - spent


async def test_an_unknown_client_id_is_nobodys(place: Place) -> None:
    placed = await place.trade()
    await place.placed(placed, FIRST)
    assert await place.venue.find_order(placed.account, SECOND) is None
    assert await place.venue.find_order(await place.account(SOMEBODY), FIRST) is None


async def test_the_same_client_id_of_another_account_is_another_order(place: Place) -> None:
    order = await place.trade()
    theirs = await place.account(SOMEBODY)
    assert (await place.placed(order, FIRST)).state is PlacedState.FILLED
    assert (await place.placed(replace(order, account=theirs), FIRST)).state is PlacedState.FILLED
    assert await place.free("ETH", theirs) == order.quantity


@pytest.mark.parametrize("part", ["body", "signature"])
async def test_a_request_that_was_changed_moves_nothing(place: Place, part: str) -> None:
    request = await a_request(place)
    changed = {
        "body": replace(request, body=request.body.replace('"0.02"', '"0.03"')),
        "signature": replace(request, signature="0" * len(request.signature)),
    }[part]
    assert changed != request
    with pytest.raises(ToolFailed) as failed:
        await place.venue.send(changed)
    assert failed.value.reason == "SIGNATURE_INVALID"
    assert await place.venue.find_order(request.account, FIRST) is None


@pytest.mark.parametrize("client_order_id", ["", "xyz", "A" * 32, "0" * 31 + "-"])
async def test_a_client_id_outside_the_alphabet_has_no_request(
    place: Place, client_order_id: str
) -> None:
    with pytest.raises(ToolFailed) as failed:
        await place.venue.prepare(await place.trade(), client_order_id)
    assert failed.value.reason == "ORDER_UNSUPPORTED"


async def test_an_order_for_another_venue_or_mode_has_no_request(place: Place) -> None:
    order = await place.trade()
    for foreign in (replace(order, venue="elsewhere"), replace(order, mode=TradingMode.LIVE)):
        with pytest.raises(ToolFailed) as failed:
            await place.venue.prepare(foreign, FIRST)
        assert failed.value.reason == "ORDER_UNSUPPORTED"


async def test_a_nan_never_becomes_a_request(place: Place) -> None:
    with pytest.raises(InvalidRequest):
        await place.venue.prepare(await place.trade(quantity=Decimal("NaN")), FIRST)


async def test_transfers_and_withdrawals_are_sent_once_too(place: Place) -> None:
    primary, perps = await place.venue.accounts(SOMEBODY)
    moves = (
        a_transfer(place.venue, primary.account, perps.account, "30"),
        a_withdrawal(place.venue, primary.account, "20"),
    )
    for move, client_order_id in zip(moves, (FIRST, SECOND), strict=True):
        request = await place.venue.prepare(move, client_order_id)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(place.venue.send(request)) for _ in range(4)]
        assert len({str(task.result()) for task in tasks}) == 1
        assert tasks[0].result().order.state is PlacedState.FILLED
        found = await place.venue.find_order(primary.account, client_order_id)
        assert found == tasks[0].result().order
    withdrawn = await place.venue.find_order(primary.account, SECOND)
    assert withdrawn is not None
    assert await place.free("USDC", primary.account) == MUCH - 30 - withdrawn.spent
    await place.check_books(SOMEBODY)
