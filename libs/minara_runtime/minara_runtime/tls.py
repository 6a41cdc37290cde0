"""Mutual TLS between services; without it they speak plaintext, for loopback or inside a mesh."""

from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from minara_runtime.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM bytes of our certificate, its key, and the authority that signs our peers."""

    certificate: bytes
    private_key: bytes
    authority: bytes

    def __repr__(self) -> str:
        return "Tls()"

    def server_credentials(self) -> grpc.ServerCredentials:
        """Credentials that refuse callers whose certificate the authority did not sign."""
        return grpc.ssl_server_credentials(
            [(self.private_key, self.certificate)], self.authority, require_client_auth=True
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Credentials that show our certificate and check the peer's."""
        return grpc.ssl_channel_credentials(self.authority, self.private_key, self.certificate)


def tls_of(settings: Settings, service: str) -> Tls | None:
    """What the settings name, None for plaintext.

    Raises SettingsError when one of the three files is missing or cannot be read, when they do not
    fit each other, or when the certificate does not name `service`.
    """
    files = {
        "MINARA_TLS_CERTIFICATE": settings.tls_certificate,
        "MINARA_TLS_PRIVATE_KEY": settings.tls_private_key,
        "MINARA_TLS_AUTHORITY": settings.tls_authority,
    }
    missing = [name for name, path in files.items() if path is None]
    if len(missing) == len(files):
        return None
    if missing:
        raise _refused(missing[0], f"set all of {', '.join(files)}, or none")
    tls = read_tls(*(path for path in files.values() if path is not None))
    _check(tls, service)
    return tls


def read_tls(certificate: Path, private_key: Path, authority: Path) -> Tls:
    """TLS material from files. Raises SettingsError naming the one that cannot be read."""
    return Tls(
        certificate=_read("MINARA_TLS_CERTIFICATE", certificate),
        private_key=_read("MINARA_TLS_PRIVATE_KEY", private_key),
        authority=_read("MINARA_TLS_AUTHORITY", authority),
    )


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(name, f"{path} cannot be read: {error.strerror}") from None


def _check(tls: Tls, service: str) -> None:
    """gRPC would say all of this in its own log alone, and then that an address cannot be bound."""
    try:
        certificate = x509.load_pem_x509_certificate(tls.certificate)
    except ValueError:
        raise _refused("MINARA_TLS_CERTIFICATE", "is no certificate in PEM") from None
    try:
        private_key = load_pem_private_key(tls.private_key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _refused("MINARA_TLS_PRIVATE_KEY", "is no private key in PEM") from None
    try:
        x509.load_pem_x509_certificates(tls.authority)
    except ValueError:
        raise _refused("MINARA_TLS_AUTHORITY", "is no certificate in PEM") from None
    if certificate.public_key() != private_key.public_key():
        raise _refused("MINARA_TLS_PRIVATE_KEY", "does not belong to the certificate")
    if service not in _names(certificate):
        raise _refused(
            "MINARA_TLS_CERTIFICATE",
            f"does not name this service: DNS:{service} must be among its alternative names",
        )


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def _refused(name: str, why: str) -> SettingsError:
    return SettingsError(f"{name}: {why}", metadata={"field": name})
