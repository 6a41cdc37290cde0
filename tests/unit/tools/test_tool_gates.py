"""The pipeline's order: of two gates that would refuse, the earlier one speaks."""

from dataclasses import replace

import pytest

from minara_core.reasons import DenialReason
from minara_core.taxonomy import LifecycleStage, TradingState
from minara_tools.domain.boundary import check_boundary
from minara_tools.domain.ledger import MAX_TOOL_CALLS, Selection
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.permission import Verdict
from minara_tools.domain.registry import ToolRegistry
from support.tools.entries import a_move_tool, a_tool
from support.tools.gates import BUY, LEDGER, SELECTION, a_gate_input, refusal, tools
from support.tools.venue import FakeVenue

FINAL_ORDER = (
    DenialReason.TOOL_UNKNOWN,
    DenialReason.ARGUMENTS_INVALID,
    DenialReason.TOOL_UNAVAILABLE,
    DenialReason.GRANT_INVALID,
    DenialReason.SUBAGENT_FORBIDDEN,
    DenialReason.TRADING_HALTED,
    DenialReason.TOOL_SET_NOT_ALLOWED,
    DenialReason.TOOL_NOT_CALLABLE,
    DenialReason.TIER_EXCEEDS_CEILING,
    DenialReason.INTENT_MISMATCH,
    DenialReason.BUDGET_EXCEEDED,
)


def test_a_call_that_offends_nobody_passes() -> None:
    assert refusal(a_gate_input()) is None


def test_gates_refuse_in_their_final_order() -> None:
    """Everything is wrong at first; one thing after the other is put right."""
    name, arguments, entries, call_id = "buy_tokens", "{", tools(needs="a key"), "1.0/1.0"
    ledger = replace(
        LEDGER,
        is_open=False,
        trading_state=TradingState.HALTED,
        tool_sets=frozenset[str](),
        message="sell 1 ETH",
        calls_made=MAX_TOOL_CALLS,
    )
    selection = Selection(stage=LifecycleStage.EVALUATE)
    seen: list[DenialReason | None] = []

    def look() -> None:
        given = a_gate_input(
            name,
            arguments,
            ledger=ledger,
            selection=selection,
            entries=entries,
            call_id=call_id,
        )
        seen.append(refusal(given))

    look()
    name = "buy_token"
    look()
    arguments = BUY
    look()
    entries = tools()
    look()
    ledger = replace(ledger, is_open=True)
    look()
    call_id = "1.0"
    look()
    ledger = replace(ledger, trading_state=TradingState.ACTIVE)
    look()
    ledger = replace(ledger, tool_sets=frozenset({"trade"}))
    look()
    selection = replace(selection, callable_tools=frozenset({"buy_token"}))
    look()
    selection = replace(selection, stage=LifecycleStage.DECIDE)
    look()
    ledger = replace(ledger, message="buy $50 of ETH")
    look()
    ledger = replace(ledger, calls_made=0)
    look()
    assert seen == [*FINAL_ORDER, None]


def test_reads_are_always_callable_and_other_sets_only_when_selected() -> None:
    nothing = replace(SELECTION, callable_tools=frozenset[str]())
    assert refusal(a_gate_input("get_price", "{}", selection=nothing)) is None
    for name in ("read_file", "write_file"):
        denied = refusal(a_gate_input(name, "{}", selection=nothing))
        assert denied is DenialReason.TOOL_NOT_CALLABLE


def test_halted_denies_moves_and_nothing_else() -> None:
    halted = replace(LEDGER, trading_state=TradingState.HALTED)
    assert refusal(a_gate_input(ledger=halted)) is DenialReason.TRADING_HALTED
    assert refusal(a_gate_input("write_file", "{}", ledger=halted)) is None


def test_a_missing_stage_and_ceiling_count_as_the_least() -> None:
    unsure = Selection(callable_tools=SELECTION.callable_tools)
    denied = refusal(a_gate_input(selection=unsure))
    assert denied is DenialReason.TIER_EXCEEDS_CEILING


def test_a_money_tool_that_does_not_say_its_direction_is_refused() -> None:
    silent = a_move_tool(FakeVenue(), direction=None)
    assert refusal(a_gate_input(entries=(silent,))) is DenialReason.INTENT_MISMATCH


def test_trade_after_analysis_in_one_turn_is_denied_unless_it_only_asks() -> None:
    buy = a_move_tool(FakeVenue())
    with pytest.raises(ToolCallBlockedError) as caught:
        check_boundary(buy, Verdict.RUN, ("read_file",))
    assert caught.value.reason is DenialReason.ANALYSIS_TRADE_BOUNDARY
    check_boundary(buy, Verdict.ASK, ("read_file",))
    check_boundary(buy, Verdict.RUN, ())
    check_boundary(a_tool("read_file", tool_set="file"), Verdict.RUN, ("read_file",))


def test_a_registry_refuses_duplicates_unknown_sets_and_half_money_tools() -> None:
    with pytest.raises(ValueError, match="two tools"):
        ToolRegistry((a_tool("same"), a_tool("same")))
    with pytest.raises(ValueError, match="no tool set"):
        ToolRegistry((a_tool("odd", tool_set="nothing"),))
    both = replace(a_move_tool(FakeVenue()), handler=a_tool("x").handler)
    with pytest.raises(ValueError, match="only quotes"):
        ToolRegistry((both,))
