import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.errors import NotAuthenticated
from minara_core.grant import GrantType
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime import keys
from minara_runtime.grants import GrantSigner, GrantVerifier, message_sha256
from support.clock import FixedClock
from support.grants import USER, Installation, an_installation
from support.ids import SequentialIds

MINUTE = timedelta(minutes=1)


@pytest.fixture
def installation() -> Installation:
    return an_installation()


def refusal(verifier: GrantVerifier, token: str) -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as caught:
        verifier.verify(token)
    return caught.value


def refused_field(verifier: GrantVerifier, token: str) -> str:
    error = refusal(verifier, token)
    assert error.reason is ErrorReason.GRANT_INVALID
    return error.metadata["field"]


def a_key(
    believe: Callable[[keys.KeyPair], keys.BelievedKey], prefix: str = "key"
) -> tuple[GrantSigner, GrantVerifier]:
    """A signer and a verifier that believes its key as `believe` says."""
    pair = keys.generate(prefix)
    clock = FixedClock()
    verifier = GrantVerifier(keys.PublicKeys([believe(pair)]), clock)
    return GrantSigner(pair, clock, SequentialIds()), verifier


def a_trusted_key(pair: keys.KeyPair) -> keys.BelievedKey:
    return keys.BelievedKey(
        kid=pair.kid,
        public_key=pair.public_key,
        kind=keys.IssuerKind.TRUSTED,
        issuer=pair.kid,
        origins=frozenset({Origin.AGENT}),
        tool_sets=frozenset({"read", "web"}),
        ceiling=PermissionTier.CONFIRM_ONCE,
        scopes=frozenset({Scope.READ, Scope.CHAT, Scope.TRADE}),
    )


def a_turn(signer: GrantSigner, **changes: Any) -> str:
    claims: dict[str, Any] = {
        "user_id": USER,
        "session_id": "s",
        "turn_id": "t",
        "origin": Origin.AGENT,
        "tool_sets": ["read"],
        "ceiling": PermissionTier.READ_ONLY,
        "message": "hello",
    }
    return signer.turn(**(claims | changes))


def test_a_turn_grant_comes_back_as_it_was_signed(installation: Installation) -> None:
    grant = installation.verifier.verify(installation.turn_grant(message="buy 50 USDC of ETH"))
    assert grant.grant_type is GrantType.TURN
    assert (grant.subject, grant.session_id, grant.turn_id) == (USER, "session-1", "turn-1")
    assert grant.origin is Origin.HTTP
    assert grant.tool_sets == {"read", "trade"}
    assert grant.ceiling is PermissionTier.ALWAYS_CONFIRM
    assert grant.message_sha256 == message_sha256("buy 50 USDC of ETH")
    assert grant.expire_time - grant.issue_time == timedelta(minutes=60)


def test_a_turn_without_a_message_binds_no_hash(installation: Installation) -> None:
    grant = installation.verifier.verify(installation.turn_grant(message=None))
    assert grant.message_sha256 == ""


def test_every_type_comes_back_with_what_it_binds(installation: Installation) -> None:
    verify = installation.verifier.verify
    assert verify(installation.request_grant(Scope.CHAT)).scopes == {Scope.CHAT}
    confirmation = verify(installation.confirmation_grant())
    assert (confirmation.pending_action_id, confirmation.decision) == ("action-1", "confirm")
    assert verify(installation.service_grant("a/B")).methods == {"a/B"}
    assert verify(installation.run_grant()).origin is Origin.CRON


def test_no_token_is_a_missing_grant(installation: Installation) -> None:
    assert refusal(installation.verifier, "").reason is ErrorReason.GRANT_MISSING


@given(st.text(min_size=1, max_size=200))
def test_whatever_else_a_token_is_it_is_invalid(text: str) -> None:
    assert refusal(an_installation().verifier, text).reason is ErrorReason.GRANT_INVALID


def test_a_grant_ends_when_its_time_is_over(installation: Installation) -> None:
    token = installation.request_grant()
    installation.verifier.verify(token)
    installation.clock.advance(timedelta(seconds=59))
    installation.verifier.verify(token)
    installation.clock.advance(timedelta(seconds=1))
    assert refusal(installation.verifier, token).reason is ErrorReason.GRANT_EXPIRED
    assert refusal(installation.verifier, token).reason is ErrorReason.GRANT_EXPIRED


def test_a_grant_of_the_future_is_invalid(installation: Installation) -> None:
    token = installation.request_grant()
    installation.clock.advance(timedelta(seconds=-6))
    assert refused_field(installation.verifier, token) == "iat"
    installation.clock.advance(timedelta(seconds=1))
    installation.verifier.verify(token)


@pytest.mark.parametrize(
    ("grant_type", "longest"),
    [
        (GrantType.TURN, timedelta(minutes=60)),
        (GrantType.REQUEST, MINUTE),
        (GrantType.RUN, timedelta(days=90)),
    ],
)
def test_a_grant_may_not_live_longer_than_its_type(
    installation: Installation, grant_type: GrantType, longest: timedelta
) -> None:
    claims: dict[str, Any] = {
        "session_id": "s",
        "turn_id": "t",
        "origin": "cron",
        "scopes": ["read"],
        "definition_hash": "0",
        "revocation_id": "r",
    }

    def signed(lifetime: timedelta) -> str:
        token = installation.gateway.sign(grant_type, subject=USER, lifetime=lifetime, **claims)
        if grant_type is not GrantType.RUN:
            return token
        return installation.orchestrator.countersigned(token, service="orchestrator", slot="1")

    installation.verifier.verify(signed(longest))
    too_long = signed(longest + timedelta(seconds=1))
    assert refused_field(installation.verifier, too_long) == "exp"


def test_a_changed_token_is_invalid(installation: Installation) -> None:
    header, payload, signature = installation.request_grant(Scope.READ).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["scopes"] = ["admin"]
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert refused_field(installation.verifier, f"{header}.{forged}.{signature}") == "token"


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES256"])
def test_other_algorithms_are_invalid(installation: Installation, algorithm: str) -> None:
    good = installation.request_grant()
    header = jwt.get_unverified_header(good) | {"alg": algorithm}
    forged = base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
    _, payload, signature = good.split(".")
    assert refused_field(installation.verifier, f"{forged}.{payload}.{signature}") == "alg"
    assert refused_field(installation.verifier, f"{forged}.{payload}.") == "alg"


def test_an_unknown_key_is_invalid(installation: Installation) -> None:
    assert refused_field(installation.verifier, an_installation().request_grant()) == "kid"


def test_another_audience_is_invalid(installation: Installation) -> None:
    token = installation.gateway.sign(
        GrantType.REQUEST, subject=USER, lifetime=MINUTE, audience="elsewhere", scopes=["read"]
    )
    assert refused_field(installation.verifier, token) == "token"


@pytest.mark.parametrize(
    ("believe", "allowed"),
    [
        (keys.gateway_key, {GrantType.TURN, GrantType.REQUEST, GrantType.RUN}),
        (keys.confirmation_key, {GrantType.CONFIRMATION, GrantType.MANDATE}),
        (a_trusted_key, {GrantType.TURN, GrantType.REQUEST}),
    ],
)
def test_a_key_signs_only_its_own_types(believe: Any, allowed: set[GrantType]) -> None:
    signer, verifier = a_key(believe)
    for grant_type in GrantType:
        token = signer.sign(grant_type, subject=USER, lifetime=MINUTE)
        # Nothing is bound, so an allowed type fails later, by what it lacks.
        assert (refused_field(verifier, token) == "typ") is (grant_type not in allowed)


def test_a_service_signs_in_its_own_name_only() -> None:
    signer, verifier = a_key(lambda pair: keys.service_key(pair, "workspace"))
    assert verifier.verify(signer.service(service="workspace", methods=["a/B"])).methods
    assert refused_field(verifier, signer.service(service="tools", methods=["a/B"])) == "sub"


def test_a_trusted_issuer_stays_within_its_allowance() -> None:
    signer, verifier = a_key(a_trusted_key)
    assert verifier.verify(a_turn(signer)).origin is Origin.AGENT
    assert refused_field(verifier, a_turn(signer, origin=Origin.REPL)) == "origin"
    assert refused_field(verifier, a_turn(signer, tool_sets=["read", "trade"])) == "tool_sets"
    ceiling = PermissionTier.ALWAYS_CONFIRM
    assert refused_field(verifier, a_turn(signer, ceiling=ceiling)) == "ceiling"
    assert verifier.verify(signer.request(user_id=USER, scopes=[Scope.TRADE])).scopes
    for scope in (Scope.CONFIRM, Scope.ADMIN):
        token = signer.request(user_id=USER, scopes=[Scope.READ, scope])
        assert refused_field(verifier, token) == "scopes"
    confirmation = signer.confirmation(
        user_id=USER, pending_action_id="a", action_hash="h", decision="confirm"
    )
    assert refused_field(verifier, confirmation) == "typ"


def test_no_grant_reaches_what_people_do_by_hand(installation: Installation) -> None:
    token = installation.turn_grant(ceiling=PermissionTier.MANUAL_ONLY)
    assert refused_field(installation.verifier, token) == "ceiling"


@pytest.mark.parametrize(
    ("claims", "field"),
    [
        ({"scopes": "admin"}, "scopes"),
        ({"scopes": ["god"]}, "scopes"),
        ({"scopes": [1]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read"], "surprise": 1}, "surprise"),
        ({"scopes": ["read"], "session_id": 5}, "session_id"),
        ({"scopes": ["read"], "ceiling": True}, "ceiling"),
        ({"scopes": ["read"], "ceiling": 9}, "ceiling"),
        ({"scopes": ["read"], "origin": "mars"}, "origin"),
        ({"scopes": ["read"], "opted_in": "yes"}, "opted_in"),
        ({"scopes": ["read"], "exp": 1e9}, "exp"),
        ({"scopes": ["read"], "iat": True}, "iat"),
        ({"scopes": ["read"], "jti": ""}, "jti"),
        ({"scopes": ["read"], "iss": "gateway"}, "iss"),
    ],
)
def test_a_claim_of_the_wrong_kind_is_refused(
    installation: Installation, claims: dict[str, Any], field: str
) -> None:
    # Signed by the true key: what a buggy signer might send.
    pair = keys.generate("gateway")
    verifier = GrantVerifier(keys.PublicKeys([keys.gateway_key(pair)]), installation.clock)
    now = int(installation.clock.now().timestamp())
    payload = {
        "iss": pair.kid,
        "sub": USER,
        "aud": "minara",
        "iat": now,
        "exp": now + 60,
        "jti": "1",
    }
    token = jwt.encode(
        payload | claims,
        pair.private_key,
        algorithm="EdDSA",
        headers={"kid": pair.kid, "typ": "request"},
    )
    assert refused_field(verifier, token) == field


@pytest.mark.parametrize("name", ["iss", "sub", "aud", "iat", "exp", "jti"])
def test_no_registered_claim_may_be_missing(name: str) -> None:
    pair = keys.generate("gateway")
    clock = FixedClock()
    verifier = GrantVerifier(keys.PublicKeys([keys.gateway_key(pair)]), clock)
    now = int(clock.now().timestamp())
    payload: dict[str, Any] = {
        "iss": pair.kid,
        "sub": USER,
        "aud": "minara",
        "iat": now,
        "exp": now + 60,
        "jti": "1",
        "scopes": ["read"],
    }
    headers = {"kid": pair.kid, "typ": "request"}
    whole = jwt.encode(payload, pair.private_key, algorithm="EdDSA", headers=headers)
    assert verifier.verify(whole).subject == USER
    del payload[name]
    cut = jwt.encode(payload, pair.private_key, algorithm="EdDSA", headers=headers)
    assert refusal(verifier, cut).reason is ErrorReason.GRANT_INVALID


def test_a_verified_token_is_not_checked_twice(installation: Installation) -> None:
    token = installation.request_grant()
    assert installation.verifier.verify(token) is installation.verifier.verify(token)


def test_a_run_grant_is_worth_nothing_without_its_countersignature(
    installation: Installation,
) -> None:
    run = installation.run_grant_alone()
    assert refused_field(installation.verifier, run) == "slot"
    due = installation.orchestrator.countersigned(run, service="orchestrator", slot="2026-11-30")
    grant = installation.verifier.verify(due)
    assert (grant.grant_type, grant.slot, grant.subject) == (GrantType.RUN, "2026-11-30", USER)
    slot_alone = due.partition("~")[2]
    assert refused_field(installation.verifier, slot_alone) == "slot"


def test_a_countersignature_counts_for_its_own_run_alone(installation: Installation) -> None:
    run, other = installation.run_grant_alone(), installation.run_grant_alone()
    slot = installation.orchestrator.countersigned(run, service="orchestrator", slot="1")
    swapped = f"{other}~{slot.partition('~')[2]}"
    assert refused_field(installation.verifier, swapped) == "slot"
    on_a_turn = f"{installation.turn_grant()}~{slot.partition('~')[2]}"
    assert refused_field(installation.verifier, on_a_turn) == "slot"


def test_only_the_scheduler_countersigns() -> None:
    workspace = keys.generate("workspace")
    installation = an_installation(keys.service_key(workspace, "workspace"))
    signer = GrantSigner(workspace, installation.clock, SequentialIds("w"))
    run = installation.run_grant_alone()
    token = signer.countersigned(run, service="workspace", slot="1")
    assert refused_field(installation.verifier, token) == "slot"


def test_a_countersigned_run_ends_with_its_slot(installation: Installation) -> None:
    token = installation.run_grant()
    installation.verifier.verify(token)
    installation.clock.advance(timedelta(minutes=60))
    with pytest.raises(NotAuthenticated) as caught:
        installation.verifier.verify(token)
    assert caught.value.reason is ErrorReason.GRANT_EXPIRED
