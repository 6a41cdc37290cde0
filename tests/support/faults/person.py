"""A person and their gateway, as the tools service sees them over the wire."""

from dataclasses import dataclass
from pathlib import Path

from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.actions import PendingAction
from minara_core.clock import Clock
from minara_core.ids import RandomIds, ToolCallId
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier
from minara_core.tooling import ToolCall, ToolOutcome, ToolPending, dump_json
from minara_runtime import convert_enums as enums
from minara_runtime.channels import connect, with_grant
from minara_runtime.convert import call_to_pb, result_from_pb
from minara_runtime.convert_actions import action_from_pb
from minara_runtime.grants import GrantSigner
from minara_runtime.keys import CONFIRMATION, GATEWAY, load_or_create

USER = "local"
SESSION = "session-1"
_SETS = ("read", "trade", "transfer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person says, and the call that a model makes of it."""

    words: str
    tool: str
    arguments: dict[str, str]


BUY = Wish(
    words="buy $50 of ETH",
    tool="buy_token",
    arguments={"symbol": "ETH", "amount": "50", "amount_unit": "quote"},
)
SELL = Wish(
    words="sell 0.02 ETH",
    tool="sell_token",
    arguments={"symbol": "ETH", "amount": "0.02", "amount_unit": "base"},
)
REST = Wish(
    words="limit buy 0.02 ETH at 2700",
    tool="place_limit_order",
    arguments={
        "side": "buy",
        "symbol": "ETH",
        "amount": "0.02",
        "amount_unit": "base",
        "limit_price": "2700",
    },
)
TRANSFER = Wish(
    words="transfer 100 USDC from spot to perps",
    tool="transfer_token",
    arguments={
        "symbol": "USDC",
        "amount": "100",
        "amount_unit": "base",
        "from_account": "spot",
        "to_account": "perps",
    },
)
PRICES = {"ETH": "3000"}
"""The venue's, in USD, for as long as a run lasts: REST is below them."""


def a_cancel(order_id: str) -> Wish:
    return Wish(
        words=f"cancel my ETH order {order_id}",
        tool="cancel_order",
        arguments={"symbol": "ETH", "order_id": order_id},
    )


class NoPreview(AssertionError):
    """The call was answered otherwise."""

    def __init__(self, outcome: ToolOutcome) -> None:
        super().__init__(f"no preview: {outcome}")


class Person:
    """Signs as the gateway of the run's installation does."""

    def __init__(self, keys: Path, clock: Clock) -> None:
        ids = RandomIds()
        self._gateway = GrantSigner(load_or_create(keys / GATEWAY, GATEWAY), clock, ids)
        self._decider = GrantSigner(load_or_create(keys / GATEWAY, CONFIRMATION), clock, ids)

    def decision(self, action: PendingAction) -> str:
        """A yes to exactly this preview; good for a minute, and for as many calls as one likes."""
        return self._decider.confirmation(
            user_id=USER,
            pending_action_id=action.pending_action_id,
            action_hash=action.action_hash,
            decision="confirm",
        )

    async def ask(self, line: "Line", turn_id: str, wish: Wish) -> PendingAction:
        """Say it, and get the preview. Raises NoPreview."""
        context = self._context(turn_id, wish.words)
        await line.tools.OpenTurn(tools_pb.OpenTurnRequest(context=context, message=wish.words))
        call = ToolCall(
            tool_call_id=ToolCallId("1.0"),
            name=wish.tool,
            arguments_json=dump_json({**wish.arguments, "intent": wish.words}),
        )
        request = tools_pb.ExecuteToolsRequest(
            context=context,
            step=1,
            calls=[call_to_pb(call)],
            stage=enums.STAGE.to_pb(LifecycleStage.DECIDE),
            callable_tools=[wish.tool],
            risk_ceiling=enums.TIER.to_pb(PermissionTier.ALWAYS_CONFIRM),
        )
        outcomes = [
            result_from_pb(response.result).outcome
            async for response in line.tools.ExecuteTools(request)
            if response.WhichOneof("update") == "result"
        ]
        await line.tools.CloseTurn(tools_pb.CloseTurnRequest(context=context, is_completed=True))
        (outcome,) = outcomes
        if not isinstance(outcome, ToolPending):
            raise NoPreview(outcome)
        return outcome.action

    def _context(self, turn_id: str, words: str) -> context_pb.TurnContext:
        grant = self._gateway.turn(
            user_id=USER,
            session_id=SESSION,
            turn_id=turn_id,
            origin=Origin.HTTP,
            tool_sets=_SETS,
            ceiling=PermissionTier.ALWAYS_CONFIRM,
            message=words,
        )
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=SESSION,
            user_id=USER,
            origin=enums.ORIGIN.to_pb(Origin.HTTP),
            allowed_tool_sets=_SETS,
            session_epoch=1,
            grant=grant,
        )


class Line:
    """A connection to one tools process."""

    def __init__(self, target: str) -> None:
        self._channel = connect(target, peer="tools")
        self.tools: tools_grpc.ToolServiceAsyncStub = tools_grpc.ToolServiceStub(self._channel)
        self._approvals: approval_grpc.ApprovalServiceAsyncStub = approval_grpc.ApprovalServiceStub(
            self._channel
        )

    async def confirm(self, action: PendingAction, decision: str, seconds: float) -> PendingAction:
        """What the service answers. Raises MinaraError for what it refuses, or when it is gone."""
        response = await self._approvals.ConfirmAction(
            approval_pb.ConfirmActionRequest(
                pending_action_id=action.pending_action_id, action_hash=action.action_hash
            ),
            metadata=with_grant(decision),
            timeout=seconds,
        )
        return action_from_pb(response.pending_action)

    async def aclose(self) -> None:
        await self._channel.close()
