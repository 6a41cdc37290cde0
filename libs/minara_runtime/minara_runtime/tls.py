"""Mutual TLS between services; without it they speak plaintext, for loopback or inside a mesh."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from minara_runtime.settings import SettingsError


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
