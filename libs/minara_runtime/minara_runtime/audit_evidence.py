"""Checks a service's checkpoints: signatures, their chain, and the file against the table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from minara_runtime.audit_chain import GENESIS
from minara_runtime.audit_checkpoint import (
    Checkpoint,
    CheckpointKeys,
    CheckpointUnreadable,
    SignedCheckpoint,
)
from minara_runtime.audit_verifier import Promised

TABLE = "table"
FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFault:
    """The first bad checkpoint of the table or of the file, and why, as a sentence. What a crash
    leaves is told, too, and is not broken."""

    place: str
    number: int
    why: str
    is_broken: bool = True


@dataclass(slots=True)
class CheckpointChain:
    """One list of checkpoints while it is walked; ends before the first bad one."""

    place: str
    service: str
    keys: CheckpointKeys
    good: list[tuple[SignedCheckpoint, Checkpoint]] = field(
        default_factory=list[tuple[SignedCheckpoint, Checkpoint]]
    )
    fault: CheckpointFault | None = None

    def walk(self, found: Iterable[SignedCheckpoint | None]) -> None:
        """Check each, None for what could not be read; the same one again says nothing new."""
        for signed in found:
            if signed is not None and self._is_known(signed):
                continue
            why = self._why_bad(signed)
            if why:
                self.fault = CheckpointFault(place=self.place, number=len(self.good) + 1, why=why)
                return

    def _is_known(self, signed: SignedCheckpoint) -> bool:
        try:
            number = signed.read().number
        except CheckpointUnreadable:
            return False
        return 0 < number <= len(self.good) and self.good[number - 1][0] == signed

    def _why_bad(self, signed: SignedCheckpoint | None) -> str:
        try:
            checkpoint = None if signed is None else signed.read()
        except CheckpointUnreadable:
            checkpoint = None
        if signed is None or checkpoint is None:
            return "it cannot be read"
        if self.keys.find(signed.key_id) is None:
            return f"it is signed with the key {signed.key_id}, which is not this service's"
        if not signed.is_signed_by(self.keys):
            return "its signature does not fit: it was changed after it was signed"
        if checkpoint.service != self.service:
            return f"it belongs to the service {checkpoint.service}"
        if checkpoint.number != len(self.good) + 1:
            return f"it is missing: checkpoint {checkpoint.number} stands in its place"
        if checkpoint.previous_hash != (self.good[-1][0].hash if self.good else GENESIS):
            return "it follows another checkpoint than the one before it"
        self.good.append((signed, checkpoint))
        return ""


def promised_by(*chains: CheckpointChain) -> Promised:
    """What all good checkpoints together say about the users' chains."""
    promised: dict[str, dict[int, frozenset[str]]] = {}
    for chain in chains:
        for _, checkpoint in chain.good:
            for user, head in checkpoint.heads.items():
                of_user = promised.setdefault(user, {})
                known = of_user.get(head.sequence, frozenset())
                of_user[head.sequence] = known | {head.record_hash}
    return promised


def compare(
    table: CheckpointChain, file: CheckpointChain, *, written: int, file_count_after: int
) -> CheckpointFault | None:
    """Whether file and table tell the same.

    `file` was read before the table, and held `file_count_after` checkpoints when it was read again
    after it: a running service goes on writing meanwhile. `written` is the number of the last one
    of which the table says that the file had it.
    """
    for (ours, checkpoint), (theirs, _) in zip(table.good, file.good, strict=False):
        if ours.hash != theirs.hash:
            why = "file and table hold two different checkpoints of this number"
            return CheckpointFault(place=FILE, number=checkpoint.number, why=why)
    if table.fault is not None or file.fault is not None:
        return None  # where one of them ends is told already
    in_table = len(table.good)
    if in_table < len(file.good):
        why = "the file has it and the table does not: the database was cut or restored"
        return CheckpointFault(place=TABLE, number=in_table + 1, why=why)
    if in_table - file_count_after == 1 and written < in_table:
        why = "the file does not have it yet: the service ended in between, and writes it next time"
        return CheckpointFault(place=FILE, number=in_table, why=why, is_broken=False)
    if in_table > file_count_after:
        why = "the table has it and the file does not: the file was cut"
        return CheckpointFault(place=FILE, number=file_count_after + 1, why=why)
    return None


def walked(
    place: str,
    service: str,
    keys: CheckpointKeys,
    found: Sequence[SignedCheckpoint | None],
) -> CheckpointChain:
    """The list `found`, checked."""
    chain = CheckpointChain(place, service, keys)
    chain.walk(found)
    return chain
