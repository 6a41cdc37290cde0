import base64
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from minara_core.errors import NotAuthenticated
from minara_core.grant import GrantType
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime import keys
from minara_runtime.data_folder import DataFolder
from minara_runtime.grants import GrantSigner, GrantVerifier
from minara_runtime.hosting import installation_keys
from minara_runtime.settings import SettingsError, TrustedIssuer
from support.clock import FixedClock
from support.ids import SequentialIds


def pem_of(pair: keys.KeyPair) -> str:
    return pair.public_key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "keys" / "gateway"
    first = keys.load_or_create(folder, "gateway")
    again = keys.load_or_create(folder, "gateway")
    assert first.kid == again.kid
    assert first.kid.startswith("gateway-")
    assert mode_of(folder / "gateway.pem") == 0o600
    assert mode_of(folder) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["gateway.pem", "gateway.pub"]


def test_a_private_key_open_to_others_is_refused(tmp_path: Path) -> None:
    keys.load_or_create(tmp_path, "tools")
    (tmp_path / "tools.pem").chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        keys.load_or_create(tmp_path, "tools")


def test_a_private_key_shows_its_id_alone() -> None:
    pair = keys.generate("gateway")
    assert repr(pair) == f"KeyPair(kid='{pair.kid}')"


def test_where_a_key_lies_decides_what_it_may_sign(tmp_path: Path) -> None:
    gateway = keys.load_or_create(tmp_path / "gateway", "gateway")
    confirmation = keys.load_or_create(tmp_path / "gateway", "gateway-confirmation")
    tools = keys.load_or_create(tmp_path / "tools", "tools")
    usurper = keys.load_or_create(tmp_path / "tools", "gateway-confirmation")
    believed = keys.read_public_keys(tmp_path)
    types = {pair.kid: believed.find(pair.kid) for pair in (gateway, confirmation, tools)}
    assert [key.grant_types for key in types.values() if key is not None] == [
        {GrantType.TURN, GrantType.REQUEST, GrantType.RUN},
        {GrantType.CONFIRMATION, GrantType.MANDATE},
        {GrantType.SERVICE, GrantType.SLOT},
    ]
    assert believed.find(usurper.kid) is None


def test_a_trusted_issuer_can_neither_confirm_nor_administer() -> None:
    pair = keys.generate("batch")
    issuer = TrustedIssuer(
        kid="batch-1",
        public_key=pem_of(pair),
        origins=(Origin.AGENT,),
        tool_sets=("read",),
        ceiling=2,
    )
    key = keys.trusted_key(issuer)
    assert key.grant_types == {GrantType.TURN, GrantType.REQUEST}
    assert key.scopes == {Scope.READ, Scope.CHAT, Scope.TRADE}
    assert key.ceiling is PermissionTier.CONFIRM_ONCE


def test_a_public_key_may_be_pem_or_base64() -> None:
    pair = keys.generate("batch")
    der = pair.public_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for text in (pem_of(pair), base64.b64encode(der).decode()):
        assert keys.key_id("x", keys.public_key_from(text)) == keys.key_id("x", pair.public_key)


def test_other_kinds_of_keys_are_refused() -> None:
    rsa = generate_private_key(65_537, 2_048).public_key()
    pem = rsa.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
    for text in (pem, "no key", "", "é"):
        with pytest.raises(SettingsError):
            keys.public_key_from(text)


def test_two_keys_with_one_id_are_refused() -> None:
    key = keys.gateway_key(keys.generate("gateway"))
    with pytest.raises(SettingsError):
        keys.PublicKeys((key, key))


def signed_by(pair: keys.KeyPair, clock: FixedClock) -> str:
    signer = GrantSigner(pair, clock, SequentialIds("g"))
    return signer.request(user_id="local", scopes=[Scope.READ])


def test_a_rotated_key_signs_and_what_the_old_one_signed_before_still_counts(
    tmp_path: Path,
) -> None:
    clock, folder = FixedClock(), tmp_path / "gateway"
    old = keys.load_or_create(folder, "gateway")
    keys.load_or_create(folder, "gateway-confirmation")
    before = signed_by(old, clock)
    new = keys.rotate(folder, "gateway", now=clock.now(), is_compromised=False)
    assert new.kid != old.kid
    assert keys.load_or_create(folder, "gateway").kid == new.kid
    verifier = GrantVerifier(keys.read_public_keys(tmp_path), clock)
    verifier.verify(before)
    verifier.verify(signed_by(new, clock))
    clock.advance(timedelta(seconds=1))
    with pytest.raises(NotAuthenticated):
        verifier.verify(signed_by(old, clock))


def test_a_process_that_finds_half_of_the_gateways_keys_makes_the_other_half(
    tmp_path: Path,
) -> None:
    """So that it believes a gateway that it met in the middle of its first start."""
    folder = DataFolder(tmp_path / "data")
    keys.load_or_create(folder.keys("gateway"), keys.GATEWAY)
    installation_keys(folder, "tools")
    believed = keys.read_public_keys(folder.path / "keys")
    confirmation = keys.load_or_create(folder.keys("gateway"), keys.CONFIRMATION)
    assert believed.find(confirmation.kid) is not None


def test_of_a_compromised_key_nothing_counts_any_more(tmp_path: Path) -> None:
    clock, folder = FixedClock(), tmp_path / "gateway"
    first = keys.load_or_create(folder, "gateway")
    keys.rotate(folder, "gateway", now=clock.now(), is_compromised=False)
    second = keys.load_or_create(folder, "gateway")
    before = [signed_by(pair, clock) for pair in (first, second)]
    keys.rotate(folder, "gateway", now=clock.now(), is_compromised=True)
    verifier = GrantVerifier(keys.read_public_keys(tmp_path), clock)
    for token in before:
        with pytest.raises(NotAuthenticated):
            verifier.verify(token)


def test_a_key_that_does_not_exist_cannot_be_rotated(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no key"):
        keys.rotate(tmp_path, "gateway", now=FixedClock().now(), is_compromised=False)
