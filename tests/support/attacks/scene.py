"""Where attacks on the tools service are played: the real service, real tools, a watched venue.

The orchestrator and the model are the attacker's; the person and the gateway are not.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara_core.actions import (
    PendingAction,
)
from minara_core.errors import MinaraError
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier
from minara_core.tooling import ToolCall, ToolOutcome, ToolPending
from minara_runtime import convert_enums as enums
from minara_runtime.channels import with_grant
from minara_runtime.convert import call_to_pb, result_from_pb
from minara_runtime.convert_actions import action_from_pb
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.registry import ToolEntry
from minara_tools.main import VERSIONS
from minara_tools.toolsets.catalog import builtin_tools
from support.attacks.table import Attack, code_of
from support.clock import FixedClock
from support.databases import Databases
from support.grants import an_installation
from support.tools.entries import a_tool
from support.tools.house import BUY, ToolsHouse, a_call, a_house
from support.tools.venue import FakeVenue
from support.tools_world import FakeFiles, FakeMarket

SETS = ("read", "trade", "transfer", "file", "research", "turn")
CALLABLE = ("buy_token", "sell_token", "send_external", "write_file", "read_file", "read_page")
SEND = "send_external"
PAGE = "read_page"


def attacked_tools(
    venue: FakeVenue, market: FakeMarket, clock: FixedClock
) -> tuple[ToolEntry, ...]:
    """The tools that ship, beside those of the books, and one that brings text from outside."""
    builtin = builtin_tools(market=market, venue=venue, files=FakeFiles(), clock=clock)
    return (*builtin, a_tool(PAGE, tool_set="research"))


@dataclass
class Scene:
    """`confirmed` are the orders that a person said yes to, and no others may reach the venue."""

    house: ToolsHouse
    market: FakeMarket
    databases: Databases
    path: Path
    confirmed: set[str] = field(default_factory=set[str])

    @property
    def clock(self) -> FixedClock:
        return self.house.installation.clock

    @asynccontextmanager
    async def again(
        self, *, url: str = "", entries: Sequence[ToolEntry] | None = None
    ) -> AsyncGenerator["Scene"]:
        """One more process on the same folder and venue, with this database or other tools."""
        house, clock = self.house, self.clock
        async with a_house(
            self.databases.reopen(url or f"sqlite:///{self.path}"),
            house.data_dir,
            venue=house.venue,
            market=self.market,
            installation=house.installation,
            entries=entries or attacked_tools(house.venue, self.market, clock),
        ) as other:
            yield replace(self, house=other)

    async def opens(
        self,
        message: str | None = BUY,
        turn_id: str = "turn-1",
        *,
        origin: Origin = Origin.HTTP,
        session_id: str = "session-1",
        sets: Sequence[str] = SETS,
        decides: str = "",
        user_id: str = "local",
    ) -> None:
        """A turn whose grant the gateway signed."""
        house = self.house
        context = house.context(
            turn_id, message, origin=origin, session_id=session_id, sets=sets, user_id=user_id
        )
        house.opened[turn_id] = context
        await house.tools.OpenTurn(
            tools_pb.OpenTurnRequest(
                context=context, message=message or "", decided_action_id=decides
            )
        )

    async def calls(
        self,
        name: str,
        arguments: Mapping[str, object] | str,
        *,
        turn_id: str = "turn-1",
        call_id: str = "1.0",
        stage: LifecycleStage | None = LifecycleStage.DECIDE,
        callable_tools: Sequence[str] = CALLABLE,
        risk_ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
    ) -> str:
        """What one call of the hostile orchestrator comes to."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        (outcome,) = await self.step(
            a_call(name, call_id, text),
            turn_id=turn_id,
            stage=stage,
            callable_tools=callable_tools,
            risk_ceiling=risk_ceiling,
        )
        return code_of(outcome)

    async def step(
        self,
        *calls: ToolCall,
        turn_id: str = "turn-1",
        stage: LifecycleStage | None = LifecycleStage.DECIDE,
        callable_tools: Sequence[str] = CALLABLE,
        risk_ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
    ) -> list[ToolOutcome]:
        """The outcomes of a batch, in the order of its calls."""
        request = tools_pb.ExecuteToolsRequest(
            context=self.house.opened[turn_id],
            step=1,
            calls=[call_to_pb(call) for call in calls],
            callable_tools=callable_tools,
            risk_ceiling=enums.TIER.to_pb(risk_ceiling),
        )
        if stage is not None:
            request.stage = enums.STAGE.to_pb(stage)
        found: dict[str, ToolOutcome] = {}
        async for response in self.house.tools.ExecuteTools(request):
            if response.WhichOneof("update") == "result":
                result = result_from_pb(response.result)
                found[result.tool_call_id] = result.outcome
        return [found[call.tool_call_id] for call in calls]

    async def asks_and_calls(
        self, message: str, name: str, arguments: Mapping[str, object] | str
    ) -> str:
        """The person says it, and the model makes of it what it likes."""
        await self.opens(message)
        return await self.calls(name, arguments)

    async def pending(
        self, turn_id: str = "turn-1", *, amount: str = "50", session_id: str = "session-1"
    ) -> PendingAction:
        """A purchase that the person asked for and that waits for them."""
        await self.opens(f"buy ${amount} of ETH", turn_id, session_id=session_id)
        call = a_call("buy_token", "9.0", json.dumps(a_buy(amount)))
        (outcome,) = await self.step(call, turn_id=turn_id)
        assert isinstance(outcome, ToolPending), outcome
        return outcome.action

    async def person_confirms(self, action: PendingAction) -> str:
        """The person's own yes, signed by the gateway."""
        self.confirmed.add(client_order_id(action.pending_action_id))
        return await self.decides(action, self.grant(action))

    def grant(self, action: PendingAction, decision: str = "confirm", *, user: str = "") -> str:
        """What the gateway signs for a person's decision."""
        return self.house.installation.confirmation.confirmation(
            user_id=user or action.user_id,
            pending_action_id=action.pending_action_id,
            action_hash=action.action_hash,
            decision=decision,
        )

    async def decides(
        self, action: PendingAction, token: str, *, action_hash: str = "", rejects: bool = False
    ) -> str:
        """What a decision with this token comes to, for whoever sends it."""
        shown = {
            "pending_action_id": action.pending_action_id,
            "action_hash": action_hash or action.action_hash,
        }
        metadata = with_grant(token) if token else ()
        approvals = self.house.approvals
        if rejects:
            return await refusal_of(
                approvals.RejectAction(approval_pb.RejectActionRequest(**shown), metadata=metadata)
            )
        return await refusal_of(
            approvals.ConfirmAction(approval_pb.ConfirmActionRequest(**shown), metadata=metadata)
        )

    async def waiting(self) -> list[PendingAction]:
        """What waits for the person's decision, newest first."""
        response = await self.house.approvals.ListPendingActions(
            approval_pb.ListPendingActionsRequest(), metadata=self.house.request_grant()
        )
        return [action_from_pb(action) for action in response.pending_actions]

    async def stored(self, action: PendingAction) -> PendingAction:
        return await self.house.stored(action)


def a_buy(amount: str = "50", **changes: object) -> dict[str, object]:
    """Arguments of the purchase that `BUY` asks for."""
    return {
        "symbol": "ETH",
        "amount": amount,
        "amount_unit": "quote",
        "intent": f"buy ${amount} of ETH",
    } | changes


def attack(
    name: str,
    code: DenialReason | ErrorReason | str,
    play: Callable[[Scene], Awaitable[str]],
    tool: str = "buy_token",
) -> Attack[Scene]:
    return Attack(name=name, tool=tool, code=str(code), play=play)


async def refusal_of(call: Awaitable[object]) -> str:
    """The reason of a refused call, or the state of the action that it answers with."""
    try:
        answer = await call
    except MinaraError as refused:
        return str(refused.reason)
    action = getattr(answer, "pending_action", None)
    if action is None:
        return "answered"
    told = action_from_pb(action)
    reason = told.outcome.reason if told.outcome else ""
    return f"{told.state.value}: {reason}" if reason else told.state.value


@asynccontextmanager
async def a_scene(
    databases: Databases, data_dir: Path, *, kind: type[FakeVenue] = FakeVenue
) -> AsyncGenerator[Scene]:
    """The service with every tool over a database and a venue of its own."""
    installation = an_installation()
    clock = installation.clock
    market = FakeMarket(clock)
    venue = kind(market, clock, name="paper")
    url = await databases.url(VERSIONS)
    async with a_house(
        databases.reopen(url),
        data_dir,
        venue=venue,
        market=market,
        installation=installation,
        entries=attacked_tools(venue, market, clock),
    ) as house:
        path = Path(url.removeprefix("sqlite:///"))
        yield Scene(house=house, market=market, databases=databases, path=path)
