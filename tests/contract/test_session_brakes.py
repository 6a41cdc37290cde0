"""What keeps a model from pressing: after two rejections a person is not asked again before they
ask themselves, and however a turn's calls are sent they share one budget."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minara_core.actions import PendingAction
from minara_core.reasons import DenialReason
from minara_core.tooling import ToolDenial, ToolOutcome, ToolPending, ToolSuccess
from minara_tools.domain.ledger import MAX_TOOL_CALLS
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import ToolsHouse, a_buy, a_call, a_house


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


async def rejected(house: ToolsHouse, *turns: str) -> None:
    """The person asks, and says no to what they get, once in each turn."""
    for number, turn in enumerate(turns):
        amount = str(50 + number)
        action = await house.pending(turn, f"buy ${amount} of ETH", amount=amount)
        await house.reject(action)


async def presses(
    house: ToolsHouse, message: str, turn: str = "turn-9", *, session: str = "session-1"
) -> ToolOutcome:
    """What becomes of a purchase that the model makes of this message."""
    await house.open(turn, message, session_id=session)
    return (await house.one(a_buy("9.0"), turn_id=turn)).outcome


async def test_after_two_rejections_money_tools_are_off(house: ToolsHouse) -> None:
    await rejected(house, "turn-1", "turn-2")
    denied = await presses(house, "hm, and what now?")
    assert isinstance(denied, ToolDenial)
    assert (denied.reason, denied.gate) == (DenialReason.RATE_LIMITED, "rejections")
    assert await house.rows("SELECT 1 FROM pending_actions WHERE state = 'pending'") == []
    read = await house.one(a_call("get_price", "9.1"), turn_id="turn-9")
    assert isinstance(read.outcome, ToolSuccess)


async def test_they_stay_off_until_a_message_asks_for_a_move(house: ToolsHouse) -> None:
    await rejected(house, "turn-1", "turn-2")
    for number, message in enumerate(("price of BTC", "yes", "should I buy ETH?"), start=3):
        outcome = await presses(house, message, f"turn-{number}")
        assert isinstance(outcome, ToolDenial), message
    opened = await presses(house, "buy $50 of ETH")
    assert isinstance(opened, ToolPending)
    assert opened.action.solicited


async def test_one_rejection_turns_nothing_off(house: ToolsHouse) -> None:
    await rejected(house, "turn-1")
    assert isinstance(await presses(house, "hm, and what now?"), ToolPending)


async def test_a_move_that_was_confirmed_between_ends_the_row(house: ToolsHouse) -> None:
    await rejected(house, "turn-1")
    await house.confirm(await house.pending("turn-2", "buy $70 of ETH", amount="70"))
    await rejected(house, "turn-3")
    assert isinstance(await presses(house, "hm, and what now?"), ToolPending)


async def test_rejections_in_one_session_turn_nothing_off_in_another(house: ToolsHouse) -> None:
    await rejected(house, "turn-1", "turn-2")
    outcome = await presses(house, "hm, and what now?", session="session-2")
    assert isinstance(outcome, ToolPending)


async def test_what_expired_is_no_rejection(house: ToolsHouse) -> None:
    actions: list[PendingAction] = []
    for number in (1, 2):
        amount = str(50 + number)
        actions.append(
            await house.pending(f"turn-{number}", f"buy ${amount} of ETH", amount=amount)
        )
    await house.reject(actions[1])
    assert isinstance(await presses(house, "hm, and what now?"), ToolPending)


def ran(outcomes: list[ToolOutcome]) -> int:
    assert all(
        isinstance(one, ToolSuccess)
        or (isinstance(one, ToolDenial) and one.reason is DenialReason.BUDGET_EXCEEDED)
        for one in outcomes
    )
    return sum(isinstance(one, ToolSuccess) for one in outcomes)


@pytest.mark.parametrize("batches", [4, 8])
async def test_batches_at_once_share_the_budget_of_their_turn(
    house: ToolsHouse, batches: int
) -> None:
    await house.open()
    size = MAX_TOOL_CALLS * 5 // 4 // batches

    async def batch(number: int) -> list[ToolOutcome]:
        calls = [a_call("get_price", f"{number}.{one}") for one in range(size)]
        return [result.outcome for result in (await house.execute(*calls)).values()]

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(batch(number)) for number in range(batches)]
    outcomes = [outcome for one in running for outcome in one.result()]
    assert len(outcomes) > MAX_TOOL_CALLS
    assert ran(outcomes) == MAX_TOOL_CALLS


async def use_up(house: ToolsHouse) -> None:
    for start in range(0, MAX_TOOL_CALLS, 50):
        await house.execute(*(a_call("get_price", f"{start}.{one}") for one in range(50)))


async def test_a_budget_used_up_stays_so_in_the_next_batch(house: ToolsHouse) -> None:
    await house.open()
    await use_up(house)
    assert isinstance((await house.one(a_buy("99.0"))).outcome, ToolDenial)


async def test_turns_have_budgets_of_their_own(house: ToolsHouse) -> None:
    await house.open()
    await use_up(house)
    await house.open("turn-2", "price of ETH")
    outcome = (await house.one(a_call("get_price", "1.0"), turn_id="turn-2")).outcome
    assert isinstance(outcome, ToolSuccess)
