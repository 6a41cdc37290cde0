"""Core enums ↔ proto enums, by name: `PermissionTier.READ_ONLY` ↔ `PERMISSION_TIER_READ_ONLY`."""

from enum import Enum
from typing import Generic, Protocol, TypeVar

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import message_pb2 as message_pb
from minara.agent.v1 import pending_action_pb2 as action_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara.audit.v1 import audit_service_pb2 as audit_pb
from minara.type.v1 import error_reason_pb2 as reason_pb
from minara.type.v1 import permission_pb2 as permission_pb
from minara.type.v1 import taxonomy_pb2 as taxonomy_pb
from minara_core import actions, audit, events, grant, messages, reasons, taxonomy, tooling
from minara_core.errors import InvalidRequest

E = TypeVar("E", bound=Enum)
V = TypeVar("V", bound=int)
V_co = TypeVar("V_co", bound=int, covariant=True)


class _Wrapper(Protocol[V_co]):
    def Value(self, name: str) -> V_co: ...


class EnumPair(Generic[E, V]):
    """Both directions of one enum. Every core member must have its proto value."""

    def __init__(self, members: type[E], wrapper: _Wrapper[V], prefix: str) -> None:
        self._values = {member: wrapper.Value(f"{prefix}_{member.name}") for member in members}
        self._members = {value: member for member, value in self._values.items()}
        self._prefix = prefix

    def to_pb(self, member: E) -> V:
        return self._values[member]

    def from_pb(self, value: V) -> E:
        """Raises InvalidRequest for UNSPECIFIED and values this version does not know."""
        member = self._members.get(value)
        if member is None:
            raise InvalidRequest(
                f"{self._prefix} has no value {value}", metadata={"field": self._prefix.lower()}
            )
        return member

    def from_pb_or(self, value: V, default: E) -> E:
        return self._members.get(value, default)


TIER = EnumPair(taxonomy.PermissionTier, permission_pb.PermissionTier, "PERMISSION_TIER")
TRADING_STATE = EnumPair(taxonomy.TradingState, permission_pb.TradingState, "TRADING_STATE")
SCOPE = EnumPair(taxonomy.Scope, permission_pb.Scope, "SCOPE")
GRANT_TYPE = EnumPair(grant.GrantType, permission_pb.GrantType, "GRANT_TYPE")
STAGE = EnumPair(taxonomy.LifecycleStage, taxonomy_pb.LifecycleStage, "LIFECYCLE_STAGE")
ORIGIN = EnumPair(taxonomy.Origin, taxonomy_pb.Origin, "ORIGIN")
DENIAL_REASON = EnumPair(reasons.DenialReason, reason_pb.DenialReason, "DENIAL_REASON")
ERROR_REASON = EnumPair(reasons.ErrorReason, reason_pb.ErrorReason, "ERROR_REASON")
ROLE = EnumPair(messages.Role, message_pb.Role, "ROLE")
AUDIT_KIND = EnumPair(audit.AuditKind, audit_pb.AuditKind, "AUDIT_KIND")
EXECUTOR = EnumPair(tooling.Executor, call_pb.Executor, "EXECUTOR")
FINISH_REASON = EnumPair(events.FinishReason, event_pb.FinishReason, "FINISH_REASON")
TRADING_MODE = EnumPair(actions.TradingMode, action_pb.TradingMode, "TRADING_MODE")
MOVE_KIND = EnumPair(actions.MoveKind, action_pb.MoveKind, "MOVE_KIND")
SIDE = EnumPair(actions.Side, action_pb.Side, "SIDE")
ORDER_TYPE = EnumPair(actions.OrderType, action_pb.OrderType, "ORDER_TYPE")
TIME_IN_FORCE = EnumPair(actions.TimeInForce, action_pb.TimeInForce, "TIME_IN_FORCE")
QUANTITY_UNIT = EnumPair(actions.QuantityUnit, action_pb.QuantityUnit, "QUANTITY_UNIT")
MARGIN_MODE = EnumPair(actions.MarginMode, action_pb.MarginMode, "MARGIN_MODE")
ACTION_STATE = EnumPair(actions.ActionState, action_pb.ActionState, "ACTION_STATE")
DECISION = EnumPair(actions.Decision, action_pb.Decision, "DECISION")
