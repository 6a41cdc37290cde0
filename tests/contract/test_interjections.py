"""Words that a person puts into a running turn, over both databases: they count as theirs there,
and change nothing else."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.type.v1 import permission_pb2 as permission_pb
from minara_core.errors import Conflict, InvalidRequest, MinaraError, NotAuthenticated, NotFound
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import Origin
from minara_core.tooling import ToolDenial, ToolPending, ToolResult, ToolSuccess
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import BUY, ToolsHouse, a_buy, a_call, a_house

QUESTION = "what is the price of ETH?"


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


def denied(result: ToolResult) -> DenialReason:
    assert isinstance(result.outcome, ToolDenial), result.outcome
    return result.outcome.reason


def is_solicited(result: ToolResult) -> bool:
    assert isinstance(result.outcome, ToolPending), result.outcome
    return result.outcome.action.solicited


async def refused(house: ToolsHouse, **told: object) -> MinaraError:
    with pytest.raises(MinaraError) as caught:
        await house.interject(BUY, **told)  # pyright: ignore[reportArgumentType] - a keyword of it
    return caught.value


async def test_words_put_into_a_turn_ask_for_a_move_there(house: ToolsHouse) -> None:
    await house.open(message=QUESTION)
    assert not is_solicited(await house.one(a_buy("1.0")))
    await house.interject(BUY)
    assert is_solicited(await house.one(a_buy("2.0", "50")))


async def test_a_call_against_words_put_into_the_turn_is_denied(house: ToolsHouse) -> None:
    await house.open(message=BUY)
    await house.interject("no, sell 1 ETH")
    result = await house.one(a_buy())
    assert denied(result) is DenialReason.INTENT_MISMATCH


async def test_the_newest_words_replace_what_was_said_before_in_the_turn(
    house: ToolsHouse,
) -> None:
    await house.open(message="buy $500 of ETH")
    await house.interject("buy $70 of ETH", "said-1")
    await house.interject(BUY, "said-2")
    assert is_solicited(await house.one(a_buy("1.0")))
    assert denied(await house.one(a_buy("1.1", "500"))) is DenialReason.INTENT_MISMATCH
    assert denied(await house.one(a_buy("1.2", "70"))) is DenialReason.INTENT_MISMATCH


async def test_the_running_turn_stays_open_and_its_own(house: ToolsHouse) -> None:
    await house.open(message=QUESTION)
    before = await house.rows("SELECT * FROM turns WHERE turn_id = 'turn-1'")
    response = await house.interject(BUY)
    assert response.ceiling == permission_pb.PERMISSION_TIER_ALWAYS_CONFIRM
    assert response.catalog_etag
    assert await house.rows("SELECT * FROM turns WHERE turn_id = 'turn-1'") == before
    assert isinstance((await house.one(a_call("get_price"))).outcome, ToolSuccess)


async def test_no_turn_is_opened_for_them(house: ToolsHouse) -> None:
    await house.open()
    await house.interject("and hurry")
    result = await house.one(a_call("get_price"), turn_id="said-1")
    assert denied(result) is DenialReason.GRANT_INVALID


async def test_the_same_words_again_change_nothing_even_when_the_turn_is_over(
    house: ToolsHouse,
) -> None:
    await house.open(message=QUESTION)
    first = await house.interject(BUY)
    before = await house.rows("SELECT * FROM turns ORDER BY position")
    assert await house.interject(BUY) == first
    assert await house.rows("SELECT * FROM turns ORDER BY position") == before
    await house.close()
    assert await house.interject(BUY) == first


async def test_a_turn_that_is_over_takes_no_words(house: ToolsHouse) -> None:
    await house.open()
    await house.close()
    error = await refused(house)
    assert isinstance(error, Conflict)
    assert error.reason is ErrorReason.TURN_OVER
    assert len(await house.rows("SELECT * FROM turns")) == 1


async def test_a_turn_of_somebody_else_or_elsewhere_is_not_found(house: ToolsHouse) -> None:
    await house.open("turn-1")
    await house.open("turn-2", session_id="session-2")
    await house.open("turn-3", session_id="session-3", user_id="ann")
    for into in ("turn-2", "turn-3", "no-such-turn"):
        error = await refused(house, into=into)
        assert isinstance(error, NotFound)
        assert error.reason is ErrorReason.TURN_NOT_FOUND
    foreign = await refused(house, into="turn-3", session_id="session-3")
    assert foreign.reason is ErrorReason.SESSION_NOT_FOUND
    unknown = await refused(house, session_id="no-such-session")
    assert unknown.reason is ErrorReason.TURN_NOT_FOUND
    assert len(await house.rows("SELECT * FROM sessions")) == 3


async def test_words_do_not_go_into_words(house: ToolsHouse) -> None:
    await house.open()
    await house.interject("and hurry")
    error = await refused(house, turn_id="said-2", into="said-1")
    assert error.reason is ErrorReason.TURN_NOT_FOUND


async def test_a_lower_epoch_is_refused_and_a_higher_one_is_kept(house: ToolsHouse) -> None:
    await house.open(epoch=3)
    error = await refused(house, epoch=2)
    assert error.reason is ErrorReason.EPOCH_STALE
    await house.interject("and hurry", epoch=4)
    with pytest.raises(Conflict) as stale:
        await house.one(a_call("get_price"))
    assert stale.value.reason is ErrorReason.EPOCH_STALE


async def test_only_what_the_messages_own_grant_proves_is_taken(house: ToolsHouse) -> None:
    await house.open()
    context = house.context("said-1", "and hurry")
    with pytest.raises(NotAuthenticated) as caught:
        await house.tools.OpenTurn(
            tools_pb.OpenTurnRequest(context=context, message=BUY, into_turn_id="turn-1")
        )
    assert caught.value.reason is ErrorReason.GRANT_MISMATCH


@pytest.mark.parametrize("origin", [one for one in Origin if not one.is_human])
async def test_only_a_person_puts_words_into_a_turn(house: ToolsHouse, origin: Origin) -> None:
    await house.open()
    error = await refused(house, origin=origin)
    assert isinstance(error, InvalidRequest)
    assert error.metadata == {"field": "context.origin"}


async def test_words_are_no_trial_no_decision_and_not_nothing(house: ToolsHouse) -> None:
    await house.open()
    for told in ({"validate_only": True}, {"decides": "action-1"}, {"turn_id": "turn-1"}):
        error = await refused(house, **told)
        assert isinstance(error, InvalidRequest), told
    with pytest.raises(InvalidRequest) as empty:
        await house.interject("  ")
    assert empty.value.reason is ErrorReason.MESSAGE_EMPTY
    assert len(await house.rows("SELECT * FROM turns")) == 1


async def test_one_message_is_either_a_turn_or_went_into_one(house: ToolsHouse) -> None:
    await house.open("turn-1")
    await house.interject("and hurry", "said-1")
    with pytest.raises(Conflict) as opened:
        await house.open("said-1", "and hurry")
    assert opened.value.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED
    assert isinstance((await house.one(a_call("get_price"))).outcome, ToolSuccess)
    await house.open("turn-2", "thanks")
    for turn_id in ("turn-1", "said-1"):
        error = await refused(house, turn_id=turn_id, into="turn-2")
        assert error.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED


async def test_a_turn_that_no_person_began_stays_as_limited(house: ToolsHouse) -> None:
    await house.open(message=None, origin=Origin.GOAL)
    await house.interject(BUY)
    assert denied(await house.one(a_buy("1.0"))) is DenialReason.TOOL_SET_NOT_ALLOWED
    file = await house.one(a_call("write_file", "1.1"))
    assert denied(file) is DenialReason.TOOL_SET_NOT_ALLOWED


async def test_the_sessions_next_turn_remembers_the_words(house: ToolsHouse) -> None:
    await house.open("turn-1", QUESTION)
    await house.interject(BUY)
    await house.open("turn-2", "well?")
    assert is_solicited(await house.one(a_buy(), turn_id="turn-2"))


async def test_words_whose_move_was_answered_ask_for_nothing_again(house: ToolsHouse) -> None:
    await house.open("turn-1", QUESTION)
    await house.interject(BUY)
    outcome = (await house.one(a_buy())).outcome
    assert isinstance(outcome, ToolPending)
    await house.reject(outcome.action)
    await house.open("turn-2", "hm")
    assert not is_solicited(await house.one(a_buy(), turn_id="turn-2"))


async def test_words_told_elsewhere_do_not_count(house: ToolsHouse) -> None:
    await house.open("turn-1", QUESTION)
    await house.interject(BUY)
    await house.open("turn-2", "hello", session_id="session-2")
    assert not is_solicited(await house.one(a_buy(), turn_id="turn-2"))


async def test_outcomes_are_left_for_a_turn_to_tell(house: ToolsHouse) -> None:
    action = await house.pending("turn-1")
    await house.open("turn-2", "and now?")
    await house.reject(action)
    first = await house.interject("well?", into="turn-2")
    assert [one.pending_action_id for one in first.untold_outcomes] == [action.pending_action_id]
    await house.close("turn-2")
    after = await house.open("turn-3", "hm")
    assert [one.pending_action_id for one in after.untold_outcomes] == [action.pending_action_id]
