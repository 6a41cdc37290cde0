"""A whole tools service in this process, over a real database and scripted parts."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.tools.v1 import limit_service_pb2_grpc as limit_grpc
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara.tools.v1 import trading_control_service_pb2_grpc as control_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.actions import PendingAction
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import RandomIds, ToolCallId
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, Scope
from minara_core.tooling import ToolCall, ToolPending, ToolResult
from minara_runtime import convert_enums as enums
from minara_runtime import telemetry
from minara_runtime.channels import connect_in_process, with_grant
from minara_runtime.convert import call_to_pb, result_from_pb
from minara_runtime.convert_actions import action_from_pb
from minara_runtime.database import Database
from minara_runtime.inprocess import InProcessServer
from minara_runtime.interceptors import server_interceptors
from minara_tools.adapters.counter_file import CounterFile, counter_path
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.domain.registry import ToolEntry
from minara_tools.main import Parts, assemble
from minara_tools.money import Pace
from support.grants import Installation, an_installation
from support.tools.entries import a_move_tool, a_tool
from support.tools.venue import FakeVenue
from support.tools_world import FakeMarket

SETS = ("read", "trade", "file", "turn")
BUY = "buy $50 of ETH"


def a_call(name: str, call_id: str = "1.0", arguments: str = "{}") -> ToolCall:
    return ToolCall(tool_call_id=ToolCallId(call_id), name=name, arguments_json=arguments)


def a_buy(call_id: str = "1.0", amount: str = "50", *, intent: str = BUY) -> ToolCall:
    arguments = f'{{"symbol":"ETH","amount":"{amount}","amount_unit":"quote","intent":"{intent}"}}'
    return a_call("buy_token", call_id, arguments)


def default_tools(venue: FakeVenue) -> tuple[ToolEntry, ...]:
    return (
        a_tool("get_price"),
        a_tool("get_portfolio", untrusted=False),
        a_tool("read_file", tool_set="file"),
        a_tool("write_file", tool_set="file", tier=PermissionTier.CONFIRM_ONCE, untrusted=False),
        a_move_tool(venue),
    )


@dataclass
class ToolsHouse:
    """One running service. Turns are of one person unless told otherwise."""

    tools: "tools_grpc.ToolServiceAsyncStub"
    approvals: "approval_grpc.ApprovalServiceAsyncStub"
    control: "control_grpc.TradingControlServiceAsyncStub"
    limits: "limit_grpc.LimitServiceAsyncStub"
    installation: Installation
    venue: FakeVenue
    database: Database
    data_dir: Path
    opened: dict[str, context_pb.TurnContext] = field(
        default_factory=dict[str, context_pb.TurnContext]
    )

    def context(
        self,
        turn_id: str,
        message: str | None,
        *,
        session_id: str = "session-1",
        user_id: str = "local",
        origin: Origin = Origin.HTTP,
        sets: Iterable[str] = SETS,
        ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
        epoch: int = 1,
    ) -> context_pb.TurnContext:
        grant = self.installation.gateway.turn(
            user_id=user_id,
            session_id=session_id,
            turn_id=turn_id,
            origin=origin,
            tool_sets=sets,
            ceiling=ceiling,
            message=message,
        )
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=session_id,
            user_id=user_id,
            origin=enums.ORIGIN.to_pb(origin),
            allowed_tool_sets=list(sets),
            session_epoch=epoch,
            grant=grant,
        )

    async def open(
        self,
        turn_id: str = "turn-1",
        message: str | None = BUY,
        *,
        decides: str = "",
        validate_only: bool = False,
        session_id: str = "session-1",
        user_id: str = "local",
        origin: Origin = Origin.HTTP,
        epoch: int = 1,
        ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
        sets: Iterable[str] = SETS,
    ) -> tools_pb.OpenTurnResponse:
        context = self.context(
            turn_id,
            message,
            session_id=session_id,
            user_id=user_id,
            origin=origin,
            epoch=epoch,
            ceiling=ceiling,
            sets=sets,
        )
        self.opened[turn_id] = context
        return await self.tools.OpenTurn(
            tools_pb.OpenTurnRequest(
                context=context,
                message=message or "",
                decided_action_id=decides,
                validate_only=validate_only,
            )
        )

    async def interject(
        self,
        message: str,
        turn_id: str = "said-1",
        *,
        into: str = "turn-1",
        session_id: str = "session-1",
        user_id: str = "local",
        origin: Origin = Origin.HTTP,
        epoch: int = 1,
        validate_only: bool = False,
        decides: str = "",
    ) -> tools_pb.OpenTurnResponse:
        """Put a person's words, signed like a turn of their own, into a running turn."""
        context = self.context(
            turn_id, message, session_id=session_id, user_id=user_id, origin=origin, epoch=epoch
        )
        self.opened[turn_id] = context
        return await self.tools.OpenTurn(
            tools_pb.OpenTurnRequest(
                context=context,
                message=message,
                decided_action_id=decides,
                validate_only=validate_only,
                into_turn_id=into,
            )
        )

    async def close(self, turn_id: str = "turn-1", *, is_completed: bool = True) -> None:
        await self.tools.CloseTurn(
            tools_pb.CloseTurnRequest(context=self.opened[turn_id], is_completed=is_completed)
        )

    async def execute(
        self,
        *calls: ToolCall,
        turn_id: str = "turn-1",
        stage: LifecycleStage = LifecycleStage.DECIDE,
        callable_tools: Sequence[str] = ("buy_token", "sell_token", "write_file", "read_file"),
        risk_ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
    ) -> dict[str, ToolResult]:
        """The results by call id; every call has exactly one."""
        request = tools_pb.ExecuteToolsRequest(
            context=self.opened[turn_id],
            step=1,
            calls=[call_to_pb(call) for call in calls],
            stage=enums.STAGE.to_pb(stage),
            callable_tools=callable_tools,
            risk_ceiling=enums.TIER.to_pb(risk_ceiling),
        )
        found: dict[str, ToolResult] = {}
        async for response in self.tools.ExecuteTools(request):
            if response.WhichOneof("update") == "result":
                result = result_from_pb(response.result)
                assert result.tool_call_id not in found
                found[result.tool_call_id] = result
        assert set(found) == {call.tool_call_id for call in calls}
        return found

    async def one(self, call: ToolCall, *, turn_id: str = "turn-1") -> ToolResult:
        return (await self.execute(call, turn_id=turn_id))[call.tool_call_id]

    async def pending(
        self, turn_id: str = "turn-1", message: str = BUY, *, amount: str = "50"
    ) -> PendingAction:
        """Open a turn in which the person asks, and park the move."""
        await self.open(turn_id, message)
        outcome = (await self.one(a_buy(amount=amount, intent=message), turn_id=turn_id)).outcome
        assert isinstance(outcome, ToolPending), outcome
        return outcome.action

    async def confirm(
        self, action: PendingAction, *, action_hash: str = "", user_id: str = "local"
    ) -> approval_pb.ConfirmActionResponse:
        shown = action_hash or action.action_hash
        return await self.approvals.ConfirmAction(
            approval_pb.ConfirmActionRequest(
                pending_action_id=action.pending_action_id, action_hash=shown
            ),
            metadata=self.decision(action.pending_action_id, shown, "confirm", user_id),
        )

    async def reject(self, action: PendingAction) -> PendingAction:
        response = await self.approvals.RejectAction(
            approval_pb.RejectActionRequest(
                pending_action_id=action.pending_action_id, action_hash=action.action_hash
            ),
            metadata=self.decision(action.pending_action_id, action.action_hash, "reject"),
        )
        return action_from_pb(response.pending_action)

    def decision(
        self, action_id: str, action_hash: str, decision: str, user_id: str = "local"
    ) -> tuple[tuple[str, str], ...]:
        return with_grant(
            self.installation.confirmation.confirmation(
                user_id=user_id,
                pending_action_id=action_id,
                action_hash=action_hash,
                decision=decision,
            )
        )

    def request_grant(self, *scopes: Scope, user_id: str = "local") -> tuple[tuple[str, str], ...]:
        return with_grant(
            self.installation.gateway.request(user_id=user_id, scopes=scopes or tuple(Scope))
        )

    async def stored(self, action: PendingAction, *, user_id: str = "local") -> PendingAction:
        response = await self.approvals.GetPendingAction(
            approval_pb.GetPendingActionRequest(pending_action_id=action.pending_action_id),
            metadata=self.request_grant(user_id=user_id),
        )
        return action_from_pb(response.pending_action)

    async def halt(self) -> control_pb.HaltTradingResponse:
        return await self.control.HaltTrading(
            control_pb.HaltTradingRequest(reason="stop"), metadata=self.request_grant()
        )

    async def rows(self, statement: str) -> list[dict[str, object]]:
        """What the database holds."""
        return await self.database.read(
            lambda c: [dict(row) for row in c.execute(sa.text(statement)).mappings()]
        )


@asynccontextmanager
async def a_house(
    database: Database,
    data_dir: Path,
    *,
    venue: FakeVenue | None = None,
    market: FakeMarket | None = None,
    send_seconds: float = 5.0,
    entries: Sequence[ToolEntry] | None = None,
    installation: Installation | None = None,
    failpoint: Failpoint = no_failpoint,
    spans: telemetry.Telemetry | None = None,
) -> AsyncGenerator[ToolsHouse]:
    """Started as production starts it, without its background jobs."""
    installation = installation or an_installation()
    market = market or FakeMarket(installation.clock)
    venue = venue or FakeVenue(market, installation.clock, name="paper")
    service = assemble(
        database,
        Parts(entries=tuple(entries or default_tools(venue)), venue=venue, market=market),
        halt_file=HaltFile(data_dir),
        counter_file=CounterFile(counter_path(data_dir), host="here"),
        telemetry=spans or telemetry.disabled(),
        clock=installation.clock,
        ids=RandomIds(),
        failpoint=failpoint,
        time_of=lambda connection: installation.clock.now(),
        pace=Pace(send_seconds=send_seconds),
    )
    await service.start()
    server = InProcessServer(server_interceptors(installation.verifier, telemetry.disabled()))
    for servicer in service.servicers:
        servicer.register(server)
    await server.start()
    channel = connect_in_process(server, peer="tools")
    try:
        yield ToolsHouse(
            tools=tools_grpc.ToolServiceStub(channel),
            approvals=approval_grpc.ApprovalServiceStub(channel),
            control=control_grpc.TradingControlServiceStub(channel),
            limits=limit_grpc.LimitServiceStub(channel),
            installation=installation,
            venue=venue,
            database=database,
            data_dir=data_dir,
        )
    finally:
        await channel.close()
        await server.stop(None)
        await service.aclose()
