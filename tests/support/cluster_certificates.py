"""Certificates of a throwaway authority, one for each service, as files."""

import datetime
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from minara_runtime.tls import Tls, read_tls

_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = _BEGIN + datetime.timedelta(days=36_500)


class Authority:
    """Signs certificates that name a service (DNS among their alternative names)."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._numbers = count(1)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        own = self._signed(self._name, self._key, is_authority=True)
        self._file("authority.pem").write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def settings(self, service: str) -> Mapping[str, str]:
        """The settings of a process with a new certificate of this service."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(service)])
        signed = self._signed(_named(service), key, names)
        number = next(self._numbers)
        certificate, private = (self._file(f"{service}-{number}.{kind}") for kind in ("pem", "key"))
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return {
            "MINARA_TLS_CERTIFICATE": str(certificate),
            "MINARA_TLS_PRIVATE_KEY": str(private),
            "MINARA_TLS_AUTHORITY": str(self._file("authority.pem")),
        }

    def tls(self, service: str) -> Tls:
        """A new certificate of this service for a client in this process."""
        certificate, private_key, authority = map(Path, self.settings(service).values())
        return read_tls(certificate=certificate, private_key=private_key, authority=authority)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: x509.SubjectAlternativeName | None = None,
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGIN)
            .not_valid_after(_END)
            .add_extension(constraints, critical=True)
        )
        if names is not None:
            made = made.add_extension(names, critical=False)
        return made.sign(self._key, hashes.SHA256())

    def _file(self, name: str) -> Path:
        return self._folder / name


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
