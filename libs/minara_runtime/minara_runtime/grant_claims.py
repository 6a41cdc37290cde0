"""A grant as the claims of a token, and back; what each type must bind."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar, cast

from minara_core.errors import NotAuthenticated
from minara_core.grant import Grant, GrantType
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier, Scope

M = TypeVar("M")

AUDIENCE = "minara"

LIFETIMES: Mapping[GrantType, timedelta] = MappingProxyType(
    {
        GrantType.TURN: timedelta(minutes=60),
        GrantType.REQUEST: timedelta(seconds=60),
        GrantType.RUN: timedelta(days=90),
        GrantType.CONFIRMATION: timedelta(seconds=60),
        GrantType.MANDATE: timedelta(days=90),
        GrantType.SERVICE: timedelta(seconds=60),
        GrantType.SLOT: timedelta(minutes=60),
    }
)
"""The longest life of each type; a longer one is invalid (safety.md §2)."""

REQUIRED: Mapping[GrantType, tuple[str, ...]] = MappingProxyType(
    {
        GrantType.TURN: ("session_id", "turn_id", "origin"),
        GrantType.REQUEST: ("scopes",),
        GrantType.RUN: ("definition_hash", "origin", "revocation_id"),
        GrantType.CONFIRMATION: ("pending_action_id", "action_hash", "decision"),
        GrantType.MANDATE: ("strategy", "definition_hash", "mode", "account", "instruments"),
        GrantType.SERVICE: ("methods",),
        GrantType.SLOT: ("slot", "run_sha256"),
    }
)
"""What each type must bind; a grant without it is invalid."""

_TEXTS = (
    "session_id", "turn_id", "message_sha256", "pending_action_id", "action_hash", "decision",
    "definition_hash", "revocation_id", "strategy", "mode", "account", "max_per_move",
    "max_per_day", "max_total", "max_loss", "slot", "run_sha256",
)  # fmt: skip
_SETS = ("tool_sets", "methods", "instruments", "sides")
_REGISTERED = ("iss", "sub", "aud", "iat", "exp", "jti")
_OTHERS = ("origin", "scopes", "ceiling", "opted_in")
_KNOWN = frozenset((*_TEXTS, *_SETS, *_REGISTERED, *_OTHERS))


def claim_of(value: object) -> object:
    """A claim's JSON form: sets as sorted lists."""
    if isinstance(value, (set, frozenset, tuple, list)):
        return sorted(cast("frozenset[str]", value))
    return value


def grant_from(
    claims: Mapping[str, object], *, grant_type: GrantType, kid: str, audience: str
) -> Grant:
    """The grant that checked claims stand for.

    Raises NotAuthenticated (`GRANT_INVALID`) for a claim that is unknown, missing or of the wrong
    kind: nothing is guessed.
    """
    for name in claims:
        if name not in _KNOWN:
            raise invalid(name)
    bound: dict[str, Any] = {name: _text(claims, name) for name in _TEXTS}
    bound.update({name: frozenset(_texts(claims, name)) for name in _SETS})
    grant = Grant(
        grant_type=grant_type,
        issuer=kid,
        audience=audience,
        subject=_required_text(claims, "sub"),
        grant_id=_required_text(claims, "jti"),
        issue_time=_time(claims, "iat"),
        expire_time=_time(claims, "exp"),
        origin=_origin(claims),
        scopes=frozenset(_member(Scope, "scopes", name) for name in _texts(claims, "scopes")),
        ceiling=_ceiling(claims),
        opted_in=_flag(claims, "opted_in"),
        **bound,
    )
    for name in REQUIRED[grant_type]:
        if not getattr(grant, name):
            raise invalid(name)
    if grant.expire_time - grant.issue_time > LIFETIMES[grant_type]:
        raise invalid("exp")
    return grant


def invalid(field: str) -> NotAuthenticated:
    """The refusal of a token; `field` says what is wrong with it, never its value."""
    return NotAuthenticated(
        f"the grant is not valid ({field})",
        reason=ErrorReason.GRANT_INVALID,
        metadata={"field": field},
    )


def _text(claims: Mapping[str, object], name: str) -> str:
    value = claims.get(name, "")
    if not isinstance(value, str):
        raise invalid(name)
    return value


def _required_text(claims: Mapping[str, object], name: str) -> str:
    value = _text(claims, name)
    if not value:
        raise invalid(name)
    return value


def _texts(claims: Mapping[str, object], name: str) -> list[str]:
    value = claims.get(name, [])
    if not isinstance(value, list):
        raise invalid(name)
    items = cast("list[object]", value)
    texts = [item for item in items if isinstance(item, str) and item]
    if len(texts) != len(items):
        raise invalid(name)
    return texts


def _time(claims: Mapping[str, object], name: str) -> datetime:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name)
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        raise invalid(name) from None


def _flag(claims: Mapping[str, object], name: str) -> bool:
    value = claims.get(name, False)
    if not isinstance(value, bool):
        raise invalid(name)
    return value


def _origin(claims: Mapping[str, object]) -> Origin | None:
    value = claims.get("origin")
    return None if value is None else _member(Origin, "origin", value)


def _ceiling(claims: Mapping[str, object]) -> PermissionTier:
    value = claims.get("ceiling", int(PermissionTier.READ_ONLY))
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("ceiling")
    tier = _member(PermissionTier, "ceiling", value)
    if tier is PermissionTier.MANUAL_ONLY:
        raise invalid("ceiling")
    return tier


def _member(kind: Callable[[object], M], name: str, value: object) -> M:
    try:
        return kind(value)
    except ValueError:
        raise invalid(name) from None
