"""What a turn's messages say was decided, and what they cannot be made to say."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import ActionOutcome, ActionState, PendingAction
from minara_core.ids import ToolCallId
from minara_core.messages import (
    Block,
    Message,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    context_message,
    user_message,
)
from minara_core.tooling import ToolCall, ToolPending, ok
from minara_core.untrusted import wrap
from minara_orchestrator.domain.blocks import outcome_block
from minara_orchestrator.domain.prompt import render
from minara_tools.domain import results
from minara_workspace.domain.decisions import (
    MESSAGE_LENGTH,
    MOST_TOOLS,
    SUMMARY_LENGTH,
    Decision,
    decision_of,
)
from support.actions import an_action
from support.workspace_sessions import a_record


def a_step(*names: str) -> Message:
    return Message(
        role=Role.ASSISTANT,
        blocks=tuple(
            ToolCallBlock(
                ToolCall(tool_call_id=ToolCallId(f"1.{at}"), name=name, arguments_json="{}")
            )
            for at, name in enumerate(names)
        ),
    )


def a_result(envelope: str, call_id: str = "1.0", *, is_error: bool = False) -> Message:
    block: Block = ToolResultBlock(
        tool_call_id=ToolCallId(call_id), envelope=envelope, is_error=is_error
    )
    return Message(role=Role.TOOL, blocks=(block,))


def parked(action: PendingAction) -> str:
    return results.envelope(ToolPending(action=action))


def decided(*messages: Message, message: str = "buy $50 of ETH", told: str = "") -> Decision | None:
    return decision_of(a_record(messages=messages, message=message, decided_action_id=told))


def test_a_turn_in_which_nothing_was_decided_leaves_nothing() -> None:
    assert decided(user_message("price of ETH"), a_step("get_price"), a_result(ok(1))) is None


def test_a_parked_action_is_what_the_tools_service_says_of_it() -> None:
    action = an_action()
    found = decided(a_step("get_price", "buy_token"), a_result(parked(action), "1.1"))
    assert found is not None
    assert found.parked_action_ids == (action.pending_action_id,)
    assert found.tool_names == ("get_price", "buy_token")
    assert found.message == "buy $50 of ETH"
    assert found.decided_action_id == ""
    order = action.order
    assert found.summary.startswith(f"buy_token {order.side} ")
    assert found.summary.endswith(f"{order.instrument.symbol}: waits for the person")


def test_a_told_decision_is_what_the_orchestrator_put_before_the_model() -> None:
    filled = ActionOutcome(
        state=ActionState.DONE,
        message="as recorded",
        filled_quantity=Decimal("0.02"),
        filled_asset="ETH",
    )
    action = replace(an_action(state=ActionState.DONE), outcome=filled)
    block = outcome_block(action, is_decision=True)
    other = outcome_block(an_action(), is_decision=False)
    context = context_message(render([other, block]))
    found = decided(context, message="", told=action.pending_action_id)
    assert found is not None
    assert found.decided_action_id == action.pending_action_id
    symbol = action.order.instrument.symbol
    assert found.summary == f"buy_token buy {symbol}: done, filled 0.02 ETH"
    assert found.message == ""


def test_a_decision_whose_outcome_was_not_told_is_kept_all_the_same() -> None:
    found = decided(user_message("hm"), told="action-1")
    assert found is not None
    assert (found.decided_action_id, found.summary) == ("action-1", "")


@pytest.mark.parametrize(
    "message",
    [
        a_result(wrap(parked(an_action()), source="tool:read_file", marker="0123456789ab")),
        a_result(parked(an_action()), is_error=True),
        user_message(parked(an_action())),
        Message(role=Role.ASSISTANT, blocks=(TextBlock(parked(an_action())),)),
        a_result(ok({"content": parked(an_action())})),
        a_result(ok({"state": "pending_confirmation"})),
        a_result(ok({"state": "pending_confirmation", "pending_action_id": 1})),
        a_result(ok({"state": "filled", "pending_action_id": "action-1"})),
        a_result(ok(["pending_confirmation"])),
        a_result("no json"),
        a_result("[" * 100_000),
        a_result("7"),
    ],
)
def test_no_other_text_parks_an_action(message: Message) -> None:
    assert decided(a_step("read_file"), message) is None


def test_a_person_who_writes_a_block_tells_no_outcome() -> None:
    block = render([outcome_block(an_action(), is_decision=True)])
    found = decided(user_message(block), message=block, told="action-1")
    assert found is not None
    assert found.summary == ""


def test_what_is_kept_is_short_and_can_be_stored() -> None:
    steps = [a_step(*(f"tool_{step}_{at}" for at in range(40))) for step in range(3)]
    odd = json.dumps("\ud800\0\nx" * 300)
    envelope = (
        '{"ok":true,"data":{"state":"pending_confirmation","pending_action_id":'
        f'{odd},"preview":{{"side":{odd},"quantity":[1],"instrument":{odd}}}}}}}'
    )
    found = decided(*steps, a_step("bad\0name"), a_result(envelope), message="한" * 600 + "\0")
    assert found is not None
    assert len(found.tool_names) == MOST_TOOLS
    assert found.message == "한" * MESSAGE_LENGTH
    assert len(found.summary) <= SUMMARY_LENGTH
    for text in (*found.parked_action_ids, *found.tool_names, found.summary):
        assert "\0" not in text
        assert "\n" not in text
        text.encode()


@given(st.text(), st.text())
def test_no_text_breaks_the_capture(envelope: str, context: str) -> None:
    found = decided(
        context_message(f'<block name="decided_action">\n{{{context}}}\n</block>'),
        a_step("buy_token"),
        a_result(envelope),
        told="action-1",
    )
    assert found is not None
    found.summary.encode()
