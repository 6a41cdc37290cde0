"""Sub-agents at the tools service, over both databases: the call that begins one, and its own."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import sqlalchemy as sa

from minara_core.errors import InvalidRequest
from minara_core.reasons import DenialReason
from minara_core.tooling import ToolDelegated, ToolDenial, ToolPending, ToolResult, ToolSuccess
from minara_tools.adapters.sql_tables import TOOL_CALLS
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import ToolsHouse, a_buy, a_call, a_house


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


def denied(result: ToolResult) -> DenialReason:
    assert isinstance(result.outcome, ToolDenial), result.outcome
    return result.outcome.reason


def forget_ends(connection: sa.Connection) -> None:
    """As if the process had died before any call was recorded as ended."""
    connection.execute(sa.update(TOOL_CALLS).values(is_finished=False, result_json=""))


async def test_a_delegated_call_sent_again_after_a_crash_is_delegated_again(
    house: ToolsHouse,
) -> None:
    await house.open()
    task = '{"task":"compare ETH and BTC","tool_sets":["read"]}'
    call = a_call("subagent", "3.1", task)
    first = await house.one(call)
    assert isinstance(first.outcome, ToolDelegated)
    assert await house.one(call) == first
    await house.database.transaction(forget_ends)
    assert await house.one(call) == first
    changed = await house.one(a_call("subagent", "3.1", task.replace("BTC", "SOL")))
    assert denied(changed) is DenialReason.OPERATION_ARGUMENTS_CHANGED


async def test_the_calls_of_a_sub_agent_are_the_turns_under_a_path(house: ToolsHouse) -> None:
    await house.open()
    results = await house.execute(
        a_call("get_price", "3.1/2.0"),
        a_call("write_file", "3.1/2.1"),
        a_call("get_price", "3.1/2.2/1.0"),
        a_buy("3.1/2.3"),
        a_call("ask_user", "3.1/2.4", '{"question":"Which one?"}'),
    )
    assert isinstance(results["3.1/2.0"].outcome, ToolSuccess)
    assert isinstance(results["3.1/2.1"].outcome, ToolSuccess)
    assert isinstance(results["3.1/2.2/1.0"].outcome, ToolSuccess)
    assert denied(results["3.1/2.3"]) is DenialReason.SUBAGENT_FORBIDDEN
    assert denied(results["3.1/2.4"]) is DenialReason.SUBAGENT_FORBIDDEN
    assert {row["turn_id"] for row in await house.rows("SELECT * FROM tool_calls")} == {"turn-1"}
    assert not await house.rows("SELECT * FROM pending_actions")


async def test_what_a_sub_agent_read_marks_the_turn(house: ToolsHouse) -> None:
    await house.open()
    await house.one(a_call("read_file", "1.0/1.0"))
    outcome = (await house.one(a_buy("2.0"))).outcome
    assert isinstance(outcome, ToolPending)
    assert outcome.action.read_sources == ("read_file",)


@pytest.mark.parametrize("call_id", ["call_1", "1", "1.0/2", "1.0/2.0/3.0/4.0", "01.0"])
async def test_a_call_of_another_id_is_refused(house: ToolsHouse, call_id: str) -> None:
    await house.open()
    with pytest.raises(InvalidRequest) as caught:
        await house.one(a_call("get_price", call_id))
    assert caught.value.metadata == {"field": "calls.tool_call_id"}
    assert not await house.rows("SELECT * FROM audit_records")
