"""Every denial reason explained: what it means, what its metadata holds, what a person can do."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from minara_core.reasons import DenialReason


@dataclass(frozen=True, slots=True, kw_only=True)
class DenialDoc:
    """`keys` are always in the metadata, `optional` ones where they are known."""

    reason: DenialReason
    meaning: str
    keys: tuple[str, ...]
    optional: tuple[str, ...]
    remedy: str

    def allows(self, metadata: Iterable[str]) -> bool:
        """Whether metadata with these keys is as documented."""
        given = set(metadata)
        return set(self.keys) <= given <= {*self.keys, *self.optional}


@cache
def denial_docs() -> Mapping[DenialReason, DenialDoc]:
    """By reason, in the order of the file. Raises ValueError for a reason that does not exist."""
    text = (files("minara_core") / "denials.toml").read_text("utf-8")
    return MappingProxyType(
        {
            DenialReason(name): DenialDoc(
                reason=DenialReason(name),
                meaning=doc["meaning"],
                keys=tuple(doc["keys"]),
                optional=tuple(doc.get("optional", ())),
                remedy=doc["remedy"],
            )
            for name, doc in tomllib.loads(text).items()
        }
    )
