"""A signed checkpoint: how far the chains of a service's users had come, and what came before it.

The signature covers the exact text of the document, so that nobody has to agree on how JSON is
written; each document holds the hash of the one before.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from minara_runtime.audit_chain import GENESIS
from minara_runtime.columns import utc_text
from minara_runtime.keys import KeyPair, key_id, public_key_from

_DOMAIN = b"minara-audit-checkpoint-1\n"
"""In front of what is signed: the key signs grants too, and neither may pass for the other."""


class CheckpointUnreadable(Exception):
    """What should be a checkpoint is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The last record of a user's chain."""

    sequence: int
    record_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`heads` by user: all whose chain has changed since the checkpoint before, or a first part of
    them when they are many. `number` counts from 1."""

    service: str
    number: int
    time: datetime
    previous_hash: str
    heads: Mapping[str, ChainHead]

    def sign(self, key: KeyPair) -> "SignedCheckpoint":
        document = json.dumps(
            {
                "service": self.service,
                "number": self.number,
                "time": utc_text(self.time),
                "previous_hash": self.previous_hash,
                "heads": {u: [head.sequence, head.record_hash] for u, head in self.heads.items()},
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        signature = key.private_key.sign(_signed_bytes(document)).hex()
        return SignedCheckpoint(document=document, key_id=key.kid, signature=signature)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCheckpoint:
    """As it is stored: the document's text, who signed it, the signature in hex."""

    document: str
    key_id: str
    signature: str

    @property
    def hash(self) -> str:
        """SHA-256 of what is signed, in hex: what the next checkpoint holds."""
        return hashlib.sha256(_signed_bytes(self.document)).hexdigest()

    def read(self) -> Checkpoint:
        """What it says, proven or not. Raises CheckpointUnreadable."""
        try:
            fields = json.loads(self.document)
            return Checkpoint(
                service=str(fields["service"]),
                number=int(fields["number"]),
                time=datetime.fromisoformat(fields["time"]),
                previous_hash=str(fields["previous_hash"]),
                heads={
                    str(user): ChainHead(sequence=int(head[0]), record_hash=str(head[1]))
                    for user, head in fields["heads"].items()
                },
            )
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise CheckpointUnreadable("this is no checkpoint") from error

    def is_signed_by(self, keys: "CheckpointKeys") -> bool:
        key = keys.find(self.key_id)
        if key is None:
            return False
        try:
            key.verify(bytes.fromhex(self.signature), _signed_bytes(self.document))
        except (InvalidSignature, ValueError):
            return False
        return True

    def line(self) -> bytes:
        """One line of JSON, its end included."""
        fields = {"document": self.document, "key_id": self.key_id, "signature": self.signature}
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "SignedCheckpoint":
        """Raises CheckpointUnreadable for anything that `line` did not write."""
        try:
            fields: Any = json.loads(line)
            return cls(
                document=str(fields["document"]),
                key_id=str(fields["key_id"]),
                signature=str(fields["signature"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointUnreadable("this line is no checkpoint") from error


class CheckpointKeys:
    """The public keys whose signatures on a service's checkpoints are believed."""

    def __init__(self, keys: Iterable[tuple[str, Ed25519PublicKey]]) -> None:
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str) -> Ed25519PublicKey | None:
        return self._keys.get(kid)

    @classmethod
    def read(cls, folder: Path, service: str) -> "CheckpointKeys":
        """All `*.pub` of the service's own key folder: its key, and retired ones kept beside it.

        Raises SettingsError for a file that is no Ed25519 key.
        """
        texts = [path.read_text("ascii") for path in sorted(folder.glob("*.pub"))]
        return cls((key_id(service, key), key) for key in map(public_key_from, texts))


def first_or_next(last: SignedCheckpoint | None) -> tuple[int, str]:
    """Number and previous hash of the checkpoint that follows `last`."""
    return (1, GENESIS) if last is None else (last.read().number + 1, last.hash)


def _signed_bytes(document: str) -> bytes:
    return _DOMAIN + document.encode()
