"""What every service records about what it did, as a plain value."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from minara_core.ids import SessionId, TurnId, UserId


class AuditKind(StrEnum):
    """What a record is about."""

    TOOL_CALL = "tool_call"
    DENIAL = "denial"
    DECISION = "decision"
    FUND_MOVE = "fund_move"
    LOG_IN = "log_in"
    STATE_CHANGE = "state_change"
    SCRIPT_VERDICT = "script_verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One row of a user's audit chain, before it has its place in it.

    `subject` names what it is about (a tool, an action id), `outcome` what came of it, `reason` the
    code of a refusal. `payload_json` is the erasable part: arguments and results as JSON text,
    without secrets once stored.
    """

    user_id: UserId
    kind: AuditKind
    time: datetime
    subject: str
    outcome: str
    reason: str = ""
    turn_id: TurnId | None = None
    session_id: SessionId | None = None
    trace_id: str = ""
    origin: str = ""
    payload_json: str = ""
