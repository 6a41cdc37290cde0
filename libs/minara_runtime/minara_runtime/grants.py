"""Signs and verifies every type of grant: one JWT format, EdDSA only (safety.md §2)."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import jwt
from jwt.types import Options

from minara_core.clock import Clock
from minara_core.errors import NotAuthenticated
from minara_core.grant import Grant, GrantType
from minara_core.ids import IdSource
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime.grant_claims import AUDIENCE, LIFETIMES, claim_of, grant_from, invalid
from minara_runtime.keys import BelievedKey, IssuerKind, KeyPair, PublicKeys

ALGORITHM = "EdDSA"
COUNTERSIGNATURE = "~"
"""Stands between a run grant and its countersignature."""
SCHEDULER = "orchestrator"
"""The one service that says when a run is due."""
LEEWAY = timedelta(seconds=5)
"""How far a signer's clock may run ahead of ours."""

_MAX_TOKEN_CHARACTERS = 16_384
_CACHE_SIZE = 4_096
# Time is checked against our own clock, below.


def _options() -> Options:
    return {
        "verify_exp": False,
        "verify_iat": False,
        "verify_nbf": False,
        "require": ["iss", "sub", "aud", "iat", "exp", "jti"],
    }


def message_sha256(text: str) -> str:
    """Hex SHA-256 of a scanned message's UTF-8, as a turn grant binds it."""
    return hashlib.sha256(text.encode()).hexdigest()


class GrantSigner:
    """Signs with one key. What the key may sign is the verifier's business, not asked here."""

    def __init__(self, key: KeyPair, clock: Clock, ids: IdSource) -> None:
        self._key = key
        self._clock = clock
        self._ids = ids

    def sign(
        self,
        grant_type: GrantType,
        *,
        subject: str,
        lifetime: timedelta,
        audience: str = AUDIENCE,
        **claims: object,
    ) -> str:
        """A token of `grant_type` for `subject`; claims are named like the fields of Grant."""
        now = int(self._clock.now().timestamp())
        payload: dict[str, object] = {
            "iss": self._key.kid,
            "sub": subject,
            "aud": audience,
            "iat": now,
            "exp": now + int(lifetime.total_seconds()),
            "jti": self._ids.new(),
        }
        payload.update({name: claim_of(value) for name, value in claims.items()})
        headers = {"kid": self._key.kid, "typ": grant_type.value}
        return jwt.encode(payload, self._key.private_key, algorithm=ALGORITHM, headers=headers)

    def turn(
        self,
        *,
        user_id: str,
        session_id: str,
        turn_id: str,
        origin: Origin,
        tool_sets: Iterable[str],
        ceiling: PermissionTier,
        message: str | None,
    ) -> str:
        """A turn grant; `message` is the scanned text, None for a turn without one."""
        return self.sign(
            GrantType.TURN,
            subject=user_id,
            lifetime=LIFETIMES[GrantType.TURN],
            session_id=session_id,
            turn_id=turn_id,
            origin=origin.value,
            tool_sets=frozenset(tool_sets),
            ceiling=int(ceiling),
            message_sha256="" if message is None else message_sha256(message),
        )

    def request(self, *, user_id: str, scopes: Iterable[Scope]) -> str:
        """A request grant for a call outside a turn."""
        return self.sign(
            GrantType.REQUEST,
            subject=user_id,
            lifetime=LIFETIMES[GrantType.REQUEST],
            scopes=frozenset(scopes),
        )

    def confirmation(
        self, *, user_id: str, pending_action_id: str, action_hash: str, decision: str
    ) -> str:
        """A person's decision on exactly one pending action."""
        return self.sign(
            GrantType.CONFIRMATION,
            subject=user_id,
            lifetime=LIFETIMES[GrantType.CONFIRMATION],
            pending_action_id=pending_action_id,
            action_hash=action_hash,
            decision=decision,
        )

    def service(self, *, service: str, methods: Iterable[str]) -> str:
        """A background job's grant; methods as `minara.tools.v1.ToolService/ListTools`."""
        return self.sign(
            GrantType.SERVICE,
            subject=service,
            lifetime=LIFETIMES[GrantType.SERVICE],
            methods=frozenset(methods),
        )

    def countersigned(self, run_grant: str, *, service: str, slot: str) -> str:
        """A run grant with the scheduler's word that `slot` of it is due now; neither is worth
        anything alone."""
        due = self.sign(
            GrantType.SLOT,
            subject=service,
            lifetime=LIFETIMES[GrantType.SLOT],
            slot=slot,
            run_sha256=message_sha256(run_grant),
        )
        return f"{run_grant}{COUNTERSIGNATURE}{due}"


class GrantVerifier:
    """Verifies tokens against the allow list, and remembers those it verified until they expire."""

    def __init__(self, keys: PublicKeys, clock: Clock, *, audience: str = AUDIENCE) -> None:
        self._keys = keys
        self._clock = clock
        self._audience = audience
        self._verified: OrderedDict[bytes, Grant] = OrderedDict()

    def verify(self, token: str, *, takes_expired: bool = False) -> Grant:
        """What the token allows, or, with `takes_expired`, allowed in its time.

        Raises NotAuthenticated: GRANT_MISSING (empty), GRANT_EXPIRED, or GRANT_INVALID (malformed,
        unknown key, other algorithm, wrong signature or audience, a type or a claim that its
        issuer may not sign).
        """
        if not token:
            raise NotAuthenticated("no grant came with the call", reason=ErrorReason.GRANT_MISSING)
        if len(token) > _MAX_TOKEN_CHARACTERS or not token.isascii():
            raise invalid("token")
        digest = hashlib.sha256(token.encode("ascii")).digest()
        grant = self._verified.get(digest)
        if grant is None:
            grant = self._whole(token)
            self._remember(digest, grant)
        else:
            self._verified.move_to_end(digest)
        self._check_time(digest, grant, takes_expired=takes_expired)
        return grant

    def _whole(self, token: str) -> Grant:
        """A run grant counts only with its countersignature, and nothing else has one."""
        first, mark, second = token.partition(COUNTERSIGNATURE)
        grant = self._checked(first)
        if not mark:
            if grant.grant_type in {GrantType.RUN, GrantType.SLOT}:
                raise invalid("slot")
            return grant
        due = self._checked(second)
        is_due = (grant.grant_type, due.grant_type) == (GrantType.RUN, GrantType.SLOT)
        is_of_this_run = due.run_sha256 == message_sha256(first)
        if not (is_due and is_of_this_run and due.subject == SCHEDULER):
            raise invalid("slot")
        return replace(grant, slot=due.slot, expire_time=min(grant.expire_time, due.expire_time))

    def _checked(self, token: str) -> Grant:
        key, grant_type = self._header(token)
        try:
            claims = cast(
                "Mapping[str, object]",
                jwt.decode(
                    token,
                    key.public_key,
                    algorithms=[ALGORITHM],
                    audience=self._audience,
                    options=_options(),
                ),
            )
        except jwt.PyJWTError:
            raise invalid("token") from None
        if claims.get("iss") != key.kid:
            raise invalid("iss")
        grant = grant_from(claims, grant_type=grant_type, kid=key.kid, audience=self._audience)
        if key.retire_time is not None and grant.issue_time > key.retire_time:
            raise invalid("kid")
        _check_allowance(grant, key)
        return grant

    def _header(self, token: str) -> tuple[BelievedKey, GrantType]:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise invalid("token") from None
        if header.get("alg") != ALGORITHM:
            raise invalid("alg")
        kid, typ = header.get("kid"), header.get("typ")
        key = self._keys.find(kid) if isinstance(kid, str) else None
        if key is None:
            raise invalid("kid")
        try:
            grant_type = GrantType(typ)
        except ValueError:
            raise invalid("typ") from None
        if grant_type not in key.grant_types:
            raise invalid("typ")
        return key, grant_type

    def _check_time(self, digest: bytes, grant: Grant, *, takes_expired: bool) -> None:
        now: datetime = self._clock.now()
        if now >= grant.expire_time and not takes_expired:
            self._verified.pop(digest, None)
            raise NotAuthenticated("the grant has expired", reason=ErrorReason.GRANT_EXPIRED)
        if grant.issue_time - LEEWAY > now:
            raise invalid("iat")

    def _remember(self, digest: bytes, grant: Grant) -> None:
        self._verified[digest] = grant
        if len(self._verified) > _CACHE_SIZE:
            self._verified.popitem(last=False)


def _check_allowance(grant: Grant, key: BelievedKey) -> None:
    if key.kind is IssuerKind.SERVICE and grant.subject != key.issuer:
        raise invalid("sub")
    if grant.origin is not None and grant.origin not in key.origins:
        raise invalid("origin")
    if key.tool_sets is not None and not grant.tool_sets <= key.tool_sets:
        raise invalid("tool_sets")
    if grant.ceiling > key.ceiling:
        raise invalid("ceiling")
    if not grant.scopes <= key.scopes:
        raise invalid("scopes")
