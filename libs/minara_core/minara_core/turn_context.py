"""The context of a turn, carried explicitly in every hot request and never mutated."""

from dataclasses import dataclass

from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """Who speaks, in which session and turn, and the signed `grant` that proves all but the epoch.

    `session_epoch` is the fencing number of the session's lease; services refuse lower ones than
    they have seen.
    """

    turn_id: TurnId
    session_id: SessionId
    user_id: UserId
    origin: Origin
    allowed_tool_sets: tuple[str, ...]
    locale: str = ""
    session_epoch: int = 0
    grant: str = ""
