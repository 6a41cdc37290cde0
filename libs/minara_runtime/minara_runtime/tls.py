"""Mutual TLS between services; without it they speak plaintext, for loopback or inside a mesh."""

from dataclasses import dataclass
from pathlib import Path

import grpc

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


def tls_of(settings: Settings) -> Tls | None:
    """What the settings name, None for plaintext. Raises SettingsError when one of the three files
    is missing or cannot be read."""
    files = {
        "MINARA_TLS_CERTIFICATE": settings.tls_certificate,
        "MINARA_TLS_PRIVATE_KEY": settings.tls_private_key,
        "MINARA_TLS_AUTHORITY": settings.tls_authority,
    }
    missing = [name for name, path in files.items() if path is None]
    if len(missing) == len(files):
        return None
    certificate, private_key, authority = files.values()
    if certificate is None or private_key is None or authority is None:
        raise SettingsError(
            f"{missing[0]}: set all of {', '.join(files)}, or none", metadata={"field": missing[0]}
        )
    return read_tls(certificate=certificate, private_key=private_key, authority=authority)


def read_tls(*, certificate: Path, private_key: Path, authority: Path) -> Tls:
    """TLS material from files. Raises SettingsError naming the file that cannot be read."""
    return Tls(
        certificate=_read(certificate, "tls_certificate"),
        private_key=_read(private_key, "tls_private_key"),
        authority=_read(authority, "tls_authority"),
    )


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise SettingsError(f"{path} cannot be read", metadata={"field": field}) from None
