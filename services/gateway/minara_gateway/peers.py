"""The four services as the gateway calls them, and the grants those calls carry."""

from collections.abc import Iterable
from dataclasses import dataclass

import grpc.aio

from minara.audit.v1 import audit_service_pb2_grpc as audit_grpc
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.orchestrator.v1 import goal_service_pb2_grpc as goal_grpc
from minara.orchestrator.v1 import model_service_pb2_grpc as model_grpc
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.tools.v1 import limit_service_pb2_grpc as limit_grpc
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.tools.v1 import trading_control_service_pb2_grpc as control_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.actions import Decision
from minara_core.clock import Clock
from minara_core.ids import UserId
from minara_core.taxonomy import TOOL_SETS, Origin, PermissionTier, Scope
from minara_gateway.store import Caller
from minara_runtime import convert_enums as enums
from minara_runtime.channels import with_grant
from minara_runtime.grants import GrantSigner

REQUEST_GRANT_REUSE_SECONDS = 40.0
"""A request grant lives 60 s; it is signed anew well before."""

CONFIRM_SECONDS = 30.0
READ_SECONDS = 5.0
PROBE_SECONDS = 30.0
"""A model provider is asked meanwhile."""

GOAL_TOOL_SETS = ("read", "memory", "web", "turn")
"""What a turn that works on a standing goal may use (safety.md §1)."""

_LOOKUP = frozenset({Scope.READ})

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    orchestrator: grpc.aio.Channel
    workspace: grpc.aio.Channel
    tools: grpc.aio.Channel


class Peers:
    """Stubs over the channels."""

    def __init__(self, channels: Channels) -> None:
        self.agent = agent_grpc.AgentServiceStub(channels.orchestrator)
        self.goals = goal_grpc.GoalServiceStub(channels.orchestrator)
        self.models = model_grpc.ModelServiceStub(channels.orchestrator)
        self.sessions = session_grpc.SessionServiceStub(channels.workspace)
        self.tools = tools_grpc.ToolServiceStub(channels.tools)
        self.approvals = approval_grpc.ApprovalServiceStub(channels.tools)
        self.control = control_grpc.TradingControlServiceStub(channels.tools)
        self.limits = limit_grpc.LimitServiceStub(channels.tools)
        self.audits = {
            "tools": audit_grpc.AuditServiceStub(channels.tools),
            "workspace": audit_grpc.AuditServiceStub(channels.workspace),
        }


class GrantDesk:
    """Signs what the gateway's calls carry. Turns and requests with one key, confirmations with
    another that nothing else uses."""

    def __init__(self, signer: GrantSigner, confirmations: GrantSigner, clock: Clock) -> None:
        self._signer = signer
        self._confirmations = confirmations
        self._clock = clock
        self._requests: dict[tuple[UserId, frozenset[Scope]], tuple[float, Metadata]] = {}

    def request(self, caller: Caller) -> Metadata:
        """A grant for calls outside a turn, with the caller's own scopes."""
        return self._request(caller.user_id, caller.scopes)

    def lookup(self, caller: Caller) -> Metadata:
        """A grant to look up what the gateway must know of the caller's own to serve a route,
        whichever scope that route asked for."""
        return self._request(caller.user_id, _LOOKUP)

    def _request(self, user_id: UserId, scopes: frozenset[Scope]) -> Metadata:
        now = self._clock.monotonic()
        known = self._requests.get((user_id, scopes))
        if known is not None and now < known[0]:
            return known[1]
        if len(self._requests) > 1_000:
            self._requests.clear()
        metadata = with_grant(self._signer.request(user_id=user_id, scopes=scopes))
        self._requests[user_id, scopes] = (now + REQUEST_GRANT_REUSE_SECONDS, metadata)
        return metadata

    def turn(
        self,
        caller: Caller,
        *,
        turn_id: str,
        session_id: str,
        origin: Origin,
        locale: str,
        message: str | None,
        tool_sets: Iterable[str] = TOOL_SETS,
    ) -> context_pb.TurnContext:
        """The context of a turn that a person or their client starts, with the grant that proves
        it."""
        sets = tuple(tool_sets)
        may_trade = Scope.TRADE in caller.scopes and origin.is_human
        grant = self._signer.turn(
            user_id=caller.user_id,
            session_id=session_id,
            turn_id=turn_id,
            origin=origin,
            tool_sets=sets,
            ceiling=(PermissionTier.ALWAYS_CONFIRM if may_trade else PermissionTier.CONFIRM_ONCE),
            message=message,
        )
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=session_id,
            user_id=caller.user_id,
            origin=enums.ORIGIN.to_pb(origin),
            allowed_tool_sets=sets,
            locale=locale,
            grant=grant,
        )

    def watch(self, caller: Caller, *, turn_id: str, session_id: str) -> context_pb.TurnContext:
        """A context that can only attach to a turn."""
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=session_id,
            user_id=caller.user_id,
            origin=enums.ORIGIN.to_pb(Origin.HTTP),
            grant=dict(self.request(caller))["minara-grant"],
        )

    def confirmation(
        self, caller: Caller, *, pending_action_id: str, action_hash: str, decision: Decision
    ) -> Metadata:
        """A person's decision on exactly what they were shown."""
        return with_grant(
            self._confirmations.confirmation(
                user_id=caller.user_id,
                pending_action_id=pending_action_id,
                action_hash=action_hash,
                decision=decision.value,
            )
        )
