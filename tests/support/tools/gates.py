"""One call as the gates see it, with nothing wrong until a test says so."""

from dataclasses import replace

from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, TradingState
from minara_core.tooling import ToolCall
from minara_tools.domain.gates import GATES
from minara_tools.domain.hooks import GateInput, gate_input, pass_gates
from minara_tools.domain.ledger import Selection, TurnLedger
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry, ToolRegistry
from support.tools.entries import a_move_tool, a_tool
from support.tools.venue import FakeVenue

LEDGER = TurnLedger(
    turn_id=TurnId("turn-1"),
    session_id=SessionId("session-1"),
    user_id=UserId("local"),
    origin=Origin.HTTP,
    is_open=True,
    tool_sets=frozenset({"read", "trade", "file"}),
    grant_ceiling=PermissionTier.ALWAYS_CONFIRM,
    trading_state=TradingState.ACTIVE,
    message="buy $50 of ETH",
)
SELECTION = Selection(
    stage=LifecycleStage.DECIDE,
    callable_tools=frozenset({"buy_token", "write_file"}),
    risk_ceiling=PermissionTier.ALWAYS_CONFIRM,
)
BUY = '{"symbol":"ETH","amount":"50","amount_unit":"quote","intent":"buy $50 of ETH"}'


def tools(*, needs: str | None = None) -> tuple[ToolEntry, ...]:
    buy = a_move_tool(FakeVenue())
    return (
        a_tool("get_price"),
        a_tool("read_file", tool_set="file"),
        a_tool("write_file", tool_set="file", tier=PermissionTier.CONFIRM_ONCE),
        replace(buy, check=lambda: needs),
    )


def refusal(given: GateInput) -> DenialReason | None:
    try:
        pass_gates(GATES, given)
    except ToolCallBlockedError as blocked:
        return blocked.reason
    return None


def a_gate_input(
    name: str = "buy_token",
    arguments: str = BUY,
    *,
    ledger: TurnLedger = LEDGER,
    selection: Selection = SELECTION,
    entries: tuple[ToolEntry, ...] | None = None,
    call_id: str = "1.0",
) -> GateInput:
    call = ToolCall(tool_call_id=ToolCallId(call_id), name=name, arguments_json=arguments)
    return gate_input(call, ToolRegistry(entries or tools()), ledger, selection)
