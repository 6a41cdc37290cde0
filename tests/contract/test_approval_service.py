"""ApprovalService over both databases: a yes executes exactly what was shown, at most once."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara_core.actions import (
    ActionState,
    PendingAction,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
)
from minara_core.errors import Conflict, NotAuthenticated, NotFound, Unavailable
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.tooling import ToolDenial, ToolFailure, ToolPending, ToolResult, ToolSuccess
from minara_runtime.convert import result_from_pb
from minara_runtime.convert_actions import action_from_pb
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import ToolsHouse, a_buy, a_house
from support.tools.venue import placed


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


def action_of(response: approval_pb.ConfirmActionResponse) -> PendingAction:
    return action_from_pb(response.pending_action)


def pending_in(result: ToolResult) -> PendingAction:
    assert isinstance(result.outcome, ToolPending), result.outcome
    return result.outcome.action


async def refused(house: ToolsHouse, action: PendingAction, **options: str) -> ErrorReason:
    with pytest.raises(Conflict) as caught:
        await house.confirm(action, **options)
    return caught.value.reason


async def test_a_confirmation_sends_the_stored_order_once_and_records_its_fill(
    house: ToolsHouse,
) -> None:
    action = await house.pending()
    response = await house.confirm(action)
    done = action_of(response)
    assert done.state is ActionState.DONE
    assert done.order == action.order
    assert done.outcome is not None
    assert done.outcome.spent == Decimal("50.05")
    assert done.outcome.client_order_id == client_order_id(action.pending_action_id)
    assert house.venue.sent == [done.outcome.client_order_id]
    assert isinstance(result_from_pb(response.result).outcome, ToolSuccess)
    assert await house.stored(action) == done
    events = await house.rows("SELECT event FROM tier_events ORDER BY position")
    assert [row["event"] for row in events] == ["pending", "executing", "done"]
    kinds = await house.rows("SELECT kind FROM audit_records ORDER BY sequence")
    assert [row["kind"] for row in kinds] == ["tool_call", "decision", "fund_move"]


async def test_the_same_confirmation_again_returns_the_recorded_outcome(house: ToolsHouse) -> None:
    action = await house.pending()
    first = await house.confirm(action)
    assert await house.confirm(action) == first
    assert len(house.venue.sent) == 1


async def test_many_confirmations_at_once_send_one_order(house: ToolsHouse) -> None:
    action = await house.pending()
    house.venue.gate = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(house.confirm(action)) for _ in range(8)]
        await house.venue.arrived.wait()
        running.append(tasks.create_task(house.confirm(action)))
        house.venue.gate.set()
    assert len({task.result().SerializeToString(deterministic=True) for task in running}) == 1
    assert len(house.venue.sent) == 1


async def test_of_confirm_and_reject_at_once_the_first_wins(house: ToolsHouse) -> None:
    action = await house.pending()

    async def confirm() -> ActionState | ErrorReason:
        try:
            return action_of(await house.confirm(action)).state
        except Conflict as error:
            return error.reason

    async def reject() -> ActionState | ErrorReason:
        try:
            return (await house.reject(action)).state
        except Conflict as error:
            return error.reason

    async with asyncio.TaskGroup() as tasks:
        confirming, rejecting = tasks.create_task(confirm()), tasks.create_task(reject())
    outcomes = (confirming.result(), rejecting.result())
    assert outcomes in {
        (ActionState.DONE, ErrorReason.CONFIRMATION_USED),
        (ErrorReason.CONFIRMATION_USED, ActionState.REJECTED),
    }
    assert len(house.venue.sent) == (outcomes[0] is ActionState.DONE)


async def test_a_rejected_action_stays_rejected(house: ToolsHouse) -> None:
    action = await house.pending()
    first = await house.reject(action)
    assert first.state is ActionState.REJECTED
    assert await house.reject(action) == first
    assert await refused(house, action) is ErrorReason.CONFIRMATION_USED
    assert house.venue.sent == []


async def test_a_done_action_cannot_be_rejected(house: ToolsHouse) -> None:
    action = await house.pending()
    await house.confirm(action)
    with pytest.raises(Conflict) as caught:
        await house.reject(action)
    assert caught.value.reason is ErrorReason.CONFIRMATION_USED
    assert (await house.stored(action)).state is ActionState.DONE


async def test_another_hash_confirms_nothing(house: ToolsHouse) -> None:
    action = await house.pending()
    reason = await refused(house, action, action_hash="f" * 64)
    assert reason is ErrorReason.CONFIRMATION_MISMATCH
    assert (await house.stored(action)).state is ActionState.PENDING


async def test_a_grant_for_another_action_hash_or_decision_confirms_nothing(
    house: ToolsHouse,
) -> None:
    action = await house.pending()
    request = approval_pb.ConfirmActionRequest(
        pending_action_id=action.pending_action_id, action_hash=action.action_hash
    )
    for bound in (
        ("another", action.action_hash, "confirm"),
        (action.pending_action_id, "f" * 64, "confirm"),
        (action.pending_action_id, action.action_hash, "reject"),
    ):
        with pytest.raises(NotAuthenticated) as caught:
            await house.approvals.ConfirmAction(request, metadata=house.decision(*bound))
        assert caught.value.reason is ErrorReason.GRANT_MISMATCH
    assert house.venue.sent == []


async def test_nobody_else_sees_or_confirms_an_action(house: ToolsHouse) -> None:
    action = await house.pending()
    with pytest.raises(NotFound):
        await house.stored(action, user_id="bob")
    with pytest.raises(NotFound) as caught:
        await house.confirm(action, user_id="bob")
    assert caught.value.reason is ErrorReason.ACTION_NOT_FOUND


async def test_a_late_confirmation_expires_the_action(house: ToolsHouse) -> None:
    action = await house.pending()
    house.installation.clock.advance(timedelta(minutes=10))
    assert await refused(house, action) is ErrorReason.CONFIRMATION_EXPIRED
    assert (await house.stored(action)).state is ActionState.EXPIRED
    assert await refused(house, action) is ErrorReason.CONFIRMATION_EXPIRED
    with pytest.raises(Conflict) as caught:
        await house.reject(action)
    assert caught.value.reason is ErrorReason.CONFIRMATION_EXPIRED


async def test_a_newer_preview_after_another_message_supersedes_the_older(
    house: ToolsHouse,
) -> None:
    old = await house.pending("turn-1")
    new = await house.pending("turn-2", "make it: buy $80 of ETH", amount="80")
    assert (await house.stored(old)).state is ActionState.SUPERSEDED
    assert await refused(house, old) is ErrorReason.CONFIRMATION_USED
    assert action_of(await house.confirm(new)).state is ActionState.DONE


async def test_two_moves_of_one_message_wait_beside_each_other(house: ToolsHouse) -> None:
    await house.open(message="buy ETH")
    results = await house.execute(
        a_buy("1.0", "50", intent="buy ETH"), a_buy("1.1", "60", intent="buy ETH")
    )
    assert all(isinstance(result.outcome, ToolPending) for result in results.values())
    states = await house.rows("SELECT state FROM pending_actions")
    assert [row["state"] for row in states] == ["pending", "pending"]


async def test_the_same_order_within_five_minutes_is_a_possible_duplicate(
    house: ToolsHouse,
) -> None:
    first = await house.pending("turn-1")
    assert not first.possible_duplicate
    await house.confirm(first)
    house.installation.clock.advance(timedelta(minutes=4))
    assert (await house.pending("turn-2")).possible_duplicate
    house.installation.clock.advance(timedelta(minutes=2))
    assert not (await house.pending("turn-3")).possible_duplicate


async def test_a_twin_becomes_a_possible_duplicate_once_the_other_is_confirmed(
    house: ToolsHouse,
) -> None:
    await house.open(message="buy ETH")
    results = await house.execute(
        *(a_buy(call, "50", intent="buy ETH") for call in ("1.0", "1.1", "1.2"))
    )
    first, second, third = (pending_in(results[call]) for call in ("1.0", "1.1", "1.2"))
    assert not (await house.stored(second)).possible_duplicate
    await house.reject(first)
    assert not (await house.stored(second)).possible_duplicate
    await house.confirm(second)
    assert (await house.stored(third)).possible_duplicate
    rejected = await house.reject(third)
    assert rejected.possible_duplicate
    assert await house.stored(third) == rejected


@pytest.mark.parametrize("is_answered", [True, False])
async def test_words_whose_move_was_answered_solicit_nothing_again(
    house: ToolsHouse, is_answered: bool
) -> None:
    first = await house.pending("turn-1")
    if is_answered:
        await house.reject(first)
    await house.close("turn-1")
    await house.open("turn-2", message="hmm, tell me about it again")
    again = pending_in(await house.one(a_buy(), turn_id="turn-2"))
    assert again.solicited == (not is_answered)


@pytest.mark.parametrize(
    ("state", "filled", "expected"),
    [
        (PlacedState.CANCELLED, "0.01", ActionState.DONE),
        (PlacedState.CANCELLED, "0", ActionState.FAILED),
        (PlacedState.REJECTED, "0", ActionState.FAILED),
        (PlacedState.OPEN, "0", ActionState.UNCERTAIN),
    ],
)
async def test_what_the_venue_says_becomes_the_outcome(
    house: ToolsHouse, state: PlacedState, filled: str, expected: ActionState
) -> None:
    def answer(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        return placed(order, client_id, state=state, filled=filled)

    house.venue.answer = answer
    action = await house.pending()
    response = await house.confirm(action)
    assert action_of(response).state is expected
    is_failure = isinstance(result_from_pb(response.result).outcome, ToolFailure)
    assert is_failure == (expected is ActionState.FAILED)


async def test_a_request_that_the_venue_refused_as_late_is_doubted(house: ToolsHouse) -> None:
    # A second copy may yet reach a venue whose clock has run back.
    def answer(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise ToolFailed("REQUEST_EXPIRED", "too late")

    house.venue.answer = answer
    doubted = action_of(await house.confirm(await house.pending()))
    assert doubted.state is ActionState.UNCERTAIN


async def test_a_refusal_that_the_venue_did_not_record_is_doubted(house: ToolsHouse) -> None:
    # A second copy of the request may yet be taken.
    def answer(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise ToolFailed("PRICE_UNAVAILABLE", "no price")

    house.venue.answer = answer
    doubted = action_of(await house.confirm(await house.pending()))
    assert doubted.state is ActionState.UNCERTAIN


async def test_a_venue_that_does_not_answer_leaves_the_outcome_uncertain(
    house: ToolsHouse,
) -> None:
    def answer(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise Unavailable("gone")

    house.venue.answer = answer
    action = await house.pending()
    assert action_of(await house.confirm(action)).state is ActionState.UNCERTAIN
    assert len(house.venue.sent) == 1
    assert action_of(await house.confirm(action)).state is ActionState.UNCERTAIN
    assert len(house.venue.sent) == 1
    assert (await house.pending("turn-2")).possible_duplicate


async def test_an_action_of_another_account_mode_or_venue_is_void(house: ToolsHouse) -> None:
    action = await house.pending()
    house.venue.account_of = lambda user: "another"
    response = await house.confirm(action)
    assert action_of(response).state is ActionState.VOIDED
    outcome = result_from_pb(response.result).outcome
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.CONFIRMATION_MISMATCH
    assert house.venue.sent == []


async def test_a_caller_that_goes_away_stops_nothing(house: ToolsHouse) -> None:
    action = await house.pending()
    house.venue.gate = asyncio.Event()
    confirming = asyncio.create_task(house.confirm(action))
    await house.venue.arrived.wait()
    confirming.cancel()
    await asyncio.wait([confirming])
    assert (await house.stored(action)).state is ActionState.EXECUTING
    house.venue.gate.set()
    assert action_of(await house.confirm(action)).state is ActionState.DONE
    assert len(house.venue.sent) == 1


async def test_actions_are_listed_newest_first_in_pages(house: ToolsHouse) -> None:
    await house.open(message="buy ETH")
    calls = [a_buy(f"1.{at}", f"{at + 10}", intent="buy ETH") for at in range(5)]
    await house.execute(*calls)
    seen: list[str] = []
    token = ""
    while True:
        page = await house.approvals.ListPendingActions(
            approval_pb.ListPendingActionsRequest(page_size=2, page_token=token),
            metadata=house.request_grant(),
        )
        assert len(page.pending_actions) <= 2
        seen += [action.tool_call_id for action in page.pending_actions]
        token = page.next_page_token
        if not token:
            break
    assert seen == ["1.4", "1.3", "1.2", "1.1", "1.0"]


async def test_a_list_shows_decided_ones_only_when_asked_and_only_of_its_session(
    house: ToolsHouse,
) -> None:
    action = await house.pending()
    await house.reject(action)

    async def count(**options: object) -> int:
        request = approval_pb.ListPendingActionsRequest()
        for name, value in options.items():
            setattr(request, name, value)
        response = await house.approvals.ListPendingActions(request, metadata=house.request_grant())
        return len(response.pending_actions)

    assert await count() == 0
    assert await count(include_decided=True) == 1
    assert await count(include_decided=True, session_id="session-1") == 1
    assert await count(include_decided=True, session_id="session-2") == 0


async def test_an_outcome_is_told_until_a_completed_turn_told_it(house: ToolsHouse) -> None:
    action = await house.pending("turn-1")
    await house.confirm(action)

    async def told(turn_id: str, decides: str = "") -> list[str]:
        response = await house.open(turn_id, None, decides=decides)
        return [one.pending_action_id for one in response.untold_outcomes]

    expected = [action.pending_action_id]
    assert await told("turn-2", action.pending_action_id) == expected
    assert await told("turn-2", action.pending_action_id) == expected
    assert await told("turn-3") == expected
    await house.close("turn-3", is_completed=False)
    assert await told("turn-4") == expected
    await house.close("turn-4", is_completed=True)
    assert await told("turn-5") == []


async def test_open_actions_stand_in_the_sessions_next_turn(house: ToolsHouse) -> None:
    action = await house.pending("turn-1")
    response = await house.open("turn-2", "hm")
    assert [one.pending_action_id for one in response.pending_actions] == [action.pending_action_id]
    other = await house.open("turn-3", "hm", session_id="session-2")
    assert not other.pending_actions


async def test_the_stored_order_is_what_its_hash_covers(house: ToolsHouse) -> None:
    action = await house.pending()
    assert (await house.stored(action)) == replace(action)
    from minara_tools.domain.action_json import action_hash

    assert action_hash(action.order, action.preview) == action.action_hash
