"""The value a verified grant yields (safety.md §2); signing and checking is minara_runtime's."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from minara_core.taxonomy import Origin, PermissionTier, Scope


class GrantType(StrEnum):
    """`typ` of the token; never interchangeable."""

    TURN = "turn"
    REQUEST = "request"
    RUN = "run"
    CONFIRMATION = "confirmation"
    MANDATE = "mandate"
    SERVICE = "service"
    SLOT = "slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a verified token allows. Fields that its type does not bind are empty.

    `subject` is the user, or the calling service for type SERVICE; `issuer` the key id that
    signed. `message_sha256` is the hex digest of the scanned message of a turn. `slot` and
    `run_sha256` are of the countersignature without which a run grant is worth nothing.
    """

    grant_type: GrantType
    issuer: str
    audience: str
    subject: str
    grant_id: str
    issue_time: datetime
    expire_time: datetime
    session_id: str = ""
    turn_id: str = ""
    origin: Origin | None = None
    tool_sets: frozenset[str] = frozenset()
    ceiling: PermissionTier = PermissionTier.READ_ONLY
    message_sha256: str = ""
    scopes: frozenset[Scope] = frozenset()
    pending_action_id: str = ""
    action_hash: str = ""
    decision: str = ""
    definition_hash: str = ""
    revocation_id: str = ""
    methods: frozenset[str] = frozenset()
    strategy: str = ""
    mode: str = ""
    account: str = ""
    instruments: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()
    max_per_move: str = ""
    max_per_day: str = ""
    max_total: str = ""
    max_loss: str = ""
    opted_in: bool = False
    slot: str = ""
    run_sha256: str = ""
