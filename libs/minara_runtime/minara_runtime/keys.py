"""Signing keys of this installation, and the list of keys whose grants are believed."""

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from minara_core.grant import GrantType
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime.settings import SettingsError, TrustedIssuer

GATEWAY = "gateway"
CONFIRMATION = "gateway-confirmation"
SERVICES = ("orchestrator", "tools", "skills", "workspace", "gateway")

_RETIRED = "retired-"
_TRUSTED_SCOPES = frozenset({Scope.READ, Scope.CHAT, Scope.TRADE})


class IssuerKind(StrEnum):
    """Who holds a key, which decides what it may sign."""

    GATEWAY = "gateway"
    CONFIRMATION = "confirmation"
    SERVICE = "service"
    TRUSTED = "trusted"


_SIGNABLE = MappingProxyType(
    {
        IssuerKind.GATEWAY: frozenset({GrantType.TURN, GrantType.REQUEST, GrantType.RUN}),
        IssuerKind.CONFIRMATION: frozenset({GrantType.CONFIRMATION, GrantType.MANDATE}),
        IssuerKind.SERVICE: frozenset({GrantType.SERVICE, GrantType.SLOT}),
        IssuerKind.TRUSTED: frozenset({GrantType.TURN, GrantType.REQUEST}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A private key and its id. Never logged: its text form shows the id alone."""

    kid: str
    private_key: Ed25519PrivateKey

    @property
    def public_key(self) -> Ed25519PublicKey:
        return self.private_key.public_key()

    def __repr__(self) -> str:
        return f"KeyPair(kid={self.kid!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BelievedKey:
    """A public key and what its holder may sign.

    `issuer` is the service's name, or the trusted issuer's kid. What a retired key signed after
    `retire_time` is not believed. The four after it bind trusted issuers only.
    """

    kid: str
    public_key: Ed25519PublicKey
    kind: IssuerKind
    issuer: str
    retire_time: datetime | None = None
    origins: frozenset[Origin] = frozenset(Origin)
    tool_sets: frozenset[str] | None = None
    ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM
    scopes: frozenset[Scope] = frozenset(Scope)

    @property
    def grant_types(self) -> frozenset[GrantType]:
        return _SIGNABLE[self.kind]


class PublicKeys:
    """The allow list: a key that is not on it signs nothing we believe."""

    def __init__(self, keys: Iterable[BelievedKey]) -> None:
        self._keys: dict[str, BelievedKey] = {}
        for key in keys:
            if key.kid in self._keys:
                raise SettingsError(f"two keys have the id {key.kid}", metadata={"field": "kid"})
            self._keys[key.kid] = key

    def find(self, kid: str) -> BelievedKey | None:
        return self._keys.get(kid)


def generate(kid_prefix: str) -> KeyPair:
    """A new key that lives in memory only."""
    key = Ed25519PrivateKey.generate()
    return KeyPair(kid=key_id(kid_prefix, key.public_key()), private_key=key)


def load_or_create(folder: Path, kid_prefix: str) -> KeyPair:
    """The key `<kid_prefix>.pem` of `folder` (0700), made on first use with mode 0600.

    Its public half lies beside it as `<kid_prefix>.pub`. Two processes that start at once end up
    with the same key. Raises SettingsError when others may read the private key.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{kid_prefix}.pem"
    if not path.exists():
        _create(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(
            f"the private key {path} is open to other users: chmod 600 it",
            metadata={"field": "data_dir"},
        )
    key = _private_key(path)
    pair = KeyPair(kid=key_id(kid_prefix, key.public_key()), private_key=key)
    _write_public(path.with_suffix(".pub"), pair.public_key)
    return pair


def own_keys(folder: Path, service: str) -> tuple[KeyPair, ...]:
    """All keys of a service in its `folder`, made where they are missing; its own one first, and
    the gateway's confirmation key behind it. Raises SettingsError as `load_or_create`."""
    return tuple(load_or_create(folder, name) for name in _names_of(service))


def has_shown(folder: Path, service: str) -> bool:
    """Whether all public keys that a service signs with lie in its `folder`."""
    return all((folder / f"{name}.pub").exists() for name in _names_of(service))


def publish(folder: Path, to: Path) -> None:
    """Copy the public keys of `folder`, retired ones too, to where services look that may not see
    the private ones; what is no longer believed is taken away there."""
    for place in (to.parent, to):
        if not place.exists():
            place.mkdir(parents=True)
            place.chmod(0o755)
    names = {path.name for path in folder.glob("*.pub")}
    for name in names:
        draft = to / f".{name}.{os.getpid()}"
        draft.write_bytes((folder / name).read_bytes())
        draft.chmod(0o644)
        draft.replace(to / name)
    for path in to.glob("*.pub"):
        if path.name not in names:
            path.unlink()


def key_id(prefix: str, key: Ed25519PublicKey) -> str:
    """`<prefix>-<fingerprint>`: the first 16 hex digits of the raw key's SHA-256."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return f"{prefix}-{hashlib.sha256(raw).hexdigest()[:16]}"


def gateway_key(pair: KeyPair) -> BelievedKey:
    """The gateway's key: it signs turns, requests and runs."""
    return _believed(pair.kid, pair.public_key, GATEWAY)


def confirmation_key(pair: KeyPair) -> BelievedKey:
    """The gateway's second key: it alone signs confirmations and mandates."""
    return _believed(pair.kid, pair.public_key, CONFIRMATION)


def service_key(pair: KeyPair, service: str) -> BelievedKey:
    """A service's key, for its own background jobs."""
    return BelievedKey(
        kid=pair.kid, public_key=pair.public_key, kind=IssuerKind.SERVICE, issuer=service
    )


def trusted_key(issuer: TrustedIssuer) -> BelievedKey:
    """A key from the settings. It can neither confirm nor administer."""
    return BelievedKey(
        kid=issuer.kid,
        public_key=public_key_from(issuer.public_key),
        kind=IssuerKind.TRUSTED,
        issuer=issuer.kid,
        origins=frozenset(issuer.origins),
        tool_sets=frozenset(issuer.tool_sets),
        ceiling=PermissionTier(issuer.ceiling),
        scopes=_TRUSTED_SCOPES,
    )


def read_public_keys(folder: Path, trusted: Iterable[TrustedIssuer] = ()) -> PublicKeys:
    """The keys lying in `<folder>/<service>/`, and the trusted issuers of the settings.

    Where a key lies decides what it may sign: only the gateway's folder holds gateway keys, so a
    service that can write its own folder gains nothing.
    """
    keys = [trusted_key(issuer) for issuer in trusted]
    for service in SERVICES:
        for name in _names_of(service):
            keys += _keys_of(folder / service, name)
    return PublicKeys(keys)


def rotate(folder: Path, kid_prefix: str, *, now: datetime, is_compromised: bool) -> KeyPair:
    """A new key in the place of `<kid_prefix>.pem`.

    The old public key stays beside it as `<kid_prefix>.retired-<unix seconds>.pub`, so that what it
    has signed until now counts as long as it lives; of a compromised key nothing stays. Raises
    SettingsError where there is no key.
    """
    path = folder / f"{kid_prefix}.pem"
    if not path.exists():
        raise SettingsError(f"there is no key {path}", metadata={"field": "data_dir"})
    public = path.with_suffix(".pub")
    if is_compromised:
        for old in (public, *folder.glob(f"{kid_prefix}.{_RETIRED}*.pub")):
            old.unlink(missing_ok=True)
    elif public.exists():
        public.rename(folder / f"{kid_prefix}.{_RETIRED}{int(now.timestamp())}.pub")
    path.unlink()
    return load_or_create(folder, kid_prefix)


def _names_of(service: str) -> tuple[str, ...]:
    return (GATEWAY, CONFIRMATION) if service == GATEWAY else (service,)


def _keys_of(folder: Path, name: str) -> list[BelievedKey]:
    """A name's key, and the retired ones beside it."""
    found: list[BelievedKey] = []
    for path in (folder / f"{name}.pub", *sorted(folder.glob(f"{name}.{_RETIRED}*.pub"))):
        if path.exists():
            key = public_key_from(path.read_text(encoding="ascii"))
            believed = _believed(key_id(name, key), key, name)
            found.append(replace(believed, retire_time=_retire_time(path.name)))
    return found


def _retire_time(file_name: str) -> datetime | None:
    stamp = file_name.removesuffix(".pub").partition(f".{_RETIRED}")[2]
    return datetime.fromtimestamp(int(stamp), UTC) if stamp.isascii() and stamp.isdigit() else None


def public_key_from(text: str) -> Ed25519PublicKey:
    """An Ed25519 public key from PEM, or from the base64 of its DER form.

    Raises SettingsError.
    """
    stripped = text.strip()
    if not stripped.startswith("-----BEGIN"):
        stripped = f"-----BEGIN PUBLIC KEY-----\n{stripped}\n-----END PUBLIC KEY-----\n"
    try:
        key = serialization.load_pem_public_key(stripped.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SettingsError("a public key is no Ed25519 key", metadata={"field": "public_key"})
    return key


def _believed(kid: str, key: Ed25519PublicKey, name: str) -> BelievedKey:
    kinds = {GATEWAY: IssuerKind.GATEWAY, CONFIRMATION: IssuerKind.CONFIRMATION}
    return BelievedKey(
        kid=kid, public_key=key, kind=kinds.get(name, IssuerKind.SERVICE), issuer=name
    )


def _create(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first; its key is the key
    finally:
        draft.unlink()


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{path} holds no Ed25519 key", metadata={"field": "data_dir"})
    return key


def _write_public(path: Path, key: Ed25519PublicKey) -> None:
    pem = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if not path.exists() or path.read_bytes() != pem:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(pem)
        draft.replace(path)
