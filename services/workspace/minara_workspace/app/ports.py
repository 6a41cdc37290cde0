"""What the workspace needs from the world."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from minara_core.ids import SessionId, UserId
from minara_workspace.domain.decisions import Decision
from minara_workspace.domain.document import Document
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import CommittedTurn, FrozenBlocks, Session, TurnRecord


class Documents(Protocol):
    """A person's pages. Reading never raises for a page that cannot be read: it says so."""

    async def read(self, user_id: UserId, name: str) -> Document:
        """The page, empty when there is none."""
        ...

    async def daily_logs(self, user_id: UserId) -> tuple[Document, ...]:
        """The newest NEWEST_LOGS daily logs, newest last. Only regular files count: links, pipes,
        folders and other names are passed over."""
        ...

    async def seed(self, user_id: UserId) -> None:
        """Make the folder and the missing pages; nothing that exists is touched."""
        ...

    async def write_heartbeat(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        """Rewrite HEARTBEAT.md atomically, its schedule kept byte for byte."""
        ...

    async def put_aside(self, user_id: UserId, name: str, new_name: str) -> None:
        """Rename a page; nothing happens when it is gone already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMaterial:
    """What is stored of a session. `history` is its transcripts, joined, in wire form: the newest
    compaction, if there is one, and the turns after it. `spent_today_usd` are the known costs of
    its turns since midnight UTC. `refresh_time` is that of the newest refresh until blocks are
    frozen again."""

    session: Session
    blocks: FrozenBlocks | None
    history: bytes
    sent_blocks: tuple[str, ...]
    spent_today_usd: Decimal = Decimal(0)
    refresh_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The commit that stands, and whether this call made it."""

    turn: CommittedTurn
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list, and the token of the next one, empty at the end."""

    sessions: tuple[Session, ...] = ()
    turns: tuple[CommittedTurn, ...] = ()
    next_token: str = ""


class Sessions(Protocol):
    """Sessions and turns; a foreign one is NotFound (SESSION_NOT_FOUND) like an unknown one."""

    async def create(self, session: Session) -> Session:
        """Insert it unless it exists; returns what stands."""
        ...

    async def get(self, session_id: SessionId, user_id: UserId) -> Session: ...

    async def material(self, session_id: SessionId, user_id: UserId) -> SessionMaterial: ...

    async def commit(
        self, record: TurnRecord, blocks: FrozenBlocks | None, decision: Decision | None = None
    ) -> Recorded:
        """Everything a turn leaves, in one transaction with its audit record; a decision goes when
        its session goes.

        The first commit of a turn stands. Raises Conflict (EPOCH_STALE) for a stale writer,
        InvalidRequest for a compaction of turns that do not exist. A compaction of fewer turns than
        the one that stands is not applied, nor are blocks that were read before a refresh.
        """
        ...

    async def refresh(self, session_id: SessionId, user_id: UserId) -> None:
        """Forget the frozen blocks, and those that a turn has read and not left yet, with an audit
        record unless this waits to be told already."""
        ...

    async def list_sessions(self, user_id: UserId, *, size: int, token: str) -> Page: ...

    async def list_turns(
        self, session_id: SessionId, user_id: UserId, *, size: int, token: str
    ) -> Page: ...

    async def latest_heartbeats(self) -> dict[UserId, Heartbeat]:
        """For each user what HEARTBEAT.md should say: from their newest turn."""
        ...

    async def latest_heartbeat(self, user_id: UserId) -> Heartbeat | None:
        """The same for one user; None before their first turn."""
        ...


class CommitTokens(Protocol):
    """Carry what PrepareTurn would change to CommitTurn, through a caller that may not touch it."""

    def seal(self, turn_id: str, blocks: FrozenBlocks) -> str: ...

    def open(self, turn_id: str, token: str) -> FrozenBlocks | None:
        """None for an empty token. Raises InvalidRequest for one that is not ours or another
        turn's."""
        ...


ObserveTurn = Callable[[TurnRecord, CommittedTurn], None]
"""Tell whoever watches this process that a turn was committed: facts and ids, no talk."""
