"""Sessions and their recorded turns."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.messages import Message
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    session_id: SessionId
    user_id: UserId
    title: str
    create_time: datetime
    update_time: datetime
    turn_count: int = 0
    latest_turn_id: str = ""
    latest_finish_reason: FinishReason | None = None


class TurnState(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenBlocks:
    """Blocks 1 and 3 of a session: fixed when a turn of it completes. `refresh_time` is that of
    the refresh which let the pages be read for them, and of none other they may become fixed."""

    identity: str
    memory: str
    refresh_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """What one rung of the ladder did, in estimated input tokens."""

    rung: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What stands from now on before the turns that come after `through_turn_number`, in wire form;
    `sent_blocks` are those that stand in it whole."""

    history: bytes
    through_turn_number: int
    sent_blocks: tuple[str, ...]
    records: tuple[CompactionRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What a finished turn leaves. `transcript` is its `messages` in wire form; `assistant_text`
    the text among them."""

    turn_id: TurnId
    session_id: SessionId
    user_id: UserId
    origin: Origin
    epoch: int
    state: TurnState
    message: str
    transcript: bytes
    assistant_text: str
    usage: TokenUsage
    finish_reason: FinishReason | None
    failure_reason: str
    provider: str
    model: str
    step_count: int
    sent_blocks: tuple[str, ...]
    skill_ids: tuple[str, ...]
    scenario_ids: tuple[str, ...]
    stage: LifecycleStage
    risk_ceiling: PermissionTier
    open_loops: tuple[str, ...]
    decided_action_id: str
    start_time: datetime
    compaction: Compaction | None = None
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTurn:
    """A turn as it stands in the session."""

    turn_id: TurnId
    turn_number: int
    state: TurnState
    origin: Origin
    transcript: bytes
    usage: TokenUsage
    finish_reason: FinishReason | None
    start_time: datetime
    commit_time: datetime


def title_from(message: str) -> str:
    """The first words of a message, as a title."""
    line = " ".join(message.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
