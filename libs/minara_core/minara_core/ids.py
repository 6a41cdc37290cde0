"""Typed ids and the one source of new ones."""

import uuid
from typing import NewType, Protocol

import uuid_utils

UserId = NewType("UserId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
ToolCallId = NewType("ToolCallId", str)
PendingActionId = NewType("PendingActionId", str)

SINGLE_USER = UserId("local")
"""The user id when one person runs Minara for themselves."""

_TURN_NAMESPACE = uuid.UUID("6f2f4b86-6f0e-5a43-9d6f-4a3a0f6c9a51")


class IdSource(Protocol):
    """Where new ids come from; tests pass a predictable one."""

    def new(self) -> str:
        """A new id, unique, ordered by time of making (UUID version 7 in production)."""
        ...


class RandomIds:
    """UUID version 7 (RFC 9562): time-ordered, so that indexes stay compact."""

    def new(self) -> str:
        return str(uuid_utils.uuid7())


def turn_id_for(user_id: str, idempotency_key: str) -> TurnId:
    """The same turn id for the same user and key, so that a repeated POST re-attaches."""
    return TurnId(str(uuid.uuid5(_TURN_NAMESPACE, f"{user_id}\x1f{idempotency_key}")))


def tool_call_id(step: int, index: int, parent: str = "") -> ToolCallId:
    """`<step>.<index>`, unique in a turn and equal on replay; a sub-agent's is a path `3.1/2.0`."""
    own = f"{step}.{index}"
    return ToolCallId(f"{parent}/{own}" if parent else own)


DIRECT_SESSION = "order-"
"""Begins the session id of what a direct route makes: a preview without a conversation."""
