"""Which grant each method takes, read from its descriptor, and whether a call brings it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from minara.type.v1 import permission_pb2 as permission_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.errors import NotAuthenticated, NotPermitted
from minara_core.grant import Grant, GrantType
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, Scope
from minara_runtime.convert_enums import GRANT_TYPE, ORIGIN, SCOPE
from minara_runtime.grants import GrantVerifier

METADATA_KEY = "minara-grant"
"""Where a call carries its grant when its request has no TurnContext with one."""

EXEMPT_SERVICES = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "grpc.reflection.v1.ServerReflection",
    }
)

_BINDING_ORIGIN = frozenset({GrantType.TURN, GrantType.RUN})
_ORIGINS: Mapping[int, Origin] = MappingProxyType(
    {int(ORIGIN.to_pb(origin)): origin for origin in Origin}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRule:
    """The grant types a method takes, the scope it asks of a REQUEST grant, and whether one counts
    that has expired."""

    types: frozenset[GrantType]
    scope: Scope | None
    takes_expired: bool = False


def is_exempt(method: str) -> bool:
    """Whether a method (`/package.Service/Method`) belongs to health or reflection."""
    return method.lstrip("/").partition("/")[0] in EXEMPT_SERVICES


def rule_of(method: str) -> MethodRule | None:
    """The rule in the method's descriptor; None when it has none, and then nobody may call it."""
    service_name, _, method_name = method.lstrip("/").partition("/")
    try:
        service = descriptor_pool.Default().FindServiceByName(service_name)
    except KeyError:
        return None
    descriptor = service.methods_by_name.get(method_name)
    if descriptor is None:
        return None
    options = descriptor.GetOptions()
    if not options.HasExtension(permission_pb.grant_rule):
        return None
    rule = options.Extensions[permission_pb.grant_rule]
    types = frozenset(GRANT_TYPE.from_pb(value) for value in rule.types)
    unspecified = permission_pb.Scope.SCOPE_UNSPECIFIED
    scope = None if rule.scope == unspecified else SCOPE.from_pb(rule.scope)
    return MethodRule(types=types, scope=scope, takes_expired=rule.takes_expired)


class GrantCheck:
    """Decides whether a call may come in. Refuses what it does not understand."""

    def __init__(self, verifier: GrantVerifier) -> None:
        self._verifier = verifier
        self._rules: dict[str, MethodRule] = {}

    def admit(
        self, method: str, request: Message | None, metadata: Mapping[str, str | bytes]
    ) -> Grant:
        """The verified grant of a call; `request` is None for a streaming caller.

        Raises NotAuthenticated (GRANT_MISSING, _INVALID, _EXPIRED, _WRONG_TYPE, _MISMATCH) or
        NotPermitted (SCOPE_MISSING).
        """
        rule = self._rule(method)
        context = _context(request)
        token = _token(context, metadata)
        grant = self._verifier.verify(token, takes_expired=rule.takes_expired)
        if grant.grant_type not in rule.types:
            raise NotAuthenticated(
                f"{method} does not take a {grant.grant_type} grant",
                reason=ErrorReason.GRANT_WRONG_TYPE,
                metadata={"grant_type": grant.grant_type, "method": method},
            )
        if grant.grant_type is GrantType.REQUEST:
            _check_scope(grant, rule)
        if grant.grant_type is GrantType.SERVICE and method.lstrip("/") not in grant.methods:
            raise _mismatch("methods")
        if context is not None:
            _check_context(grant, context)
        return grant

    def _rule(self, method: str) -> MethodRule:
        rule = self._rules.get(method)
        if rule is None:
            rule = rule_of(method)
            if rule is None:
                raise NotAuthenticated(
                    f"{method} says not which grant it takes",
                    reason=ErrorReason.GRANT_WRONG_TYPE,
                    metadata={"method": method},
                )
            self._rules[method] = rule
        return rule


def _context(request: Message | None) -> context_pb.TurnContext | None:
    value = getattr(request, "context", None)
    return value if isinstance(value, context_pb.TurnContext) else None


def _token(context: context_pb.TurnContext | None, metadata: Mapping[str, str | bytes]) -> str:
    if context is not None and context.grant:
        return context.grant
    token = metadata.get(METADATA_KEY, "")
    return token if isinstance(token, str) else ""


def _check_scope(grant: Grant, rule: MethodRule) -> None:
    if rule.scope is None or rule.scope not in grant.scopes:
        scope = "none" if rule.scope is None else rule.scope.value
        raise NotPermitted(
            f"the grant lacks the scope {scope}",
            reason=ErrorReason.SCOPE_MISSING,
            metadata={"scope": scope},
        )


def _check_context(grant: Grant, context: context_pb.TurnContext) -> None:
    if grant.grant_type is not GrantType.SERVICE and grant.subject != context.user_id:
        raise _mismatch("user_id")
    if grant.grant_type is GrantType.TURN:
        _check_bound(context.turn_id, grant.turn_id, "turn_id")
        _check_bound(context.session_id, grant.session_id, "session_id")
    if grant.grant_type in _BINDING_ORIGIN:
        if _ORIGINS.get(context.origin) is not grant.origin:
            raise _mismatch("origin")
        if not grant.tool_sets.issuperset(context.allowed_tool_sets):
            raise _mismatch("allowed_tool_sets")


def _check_bound(said: str, granted: str, field: str) -> None:
    if said != granted:
        raise _mismatch(field)


def _mismatch(field: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"the grant does not cover this call ({field})",
        reason=ErrorReason.GRANT_MISMATCH,
        metadata={"field": field},
    )
