"""Turns as they run and as they are stored, in the orchestrator's own words."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from minara_core.events import Payload, TurnEvent
from minara_core.ids import SessionId, TurnId, UserId
from minara_orchestrator.app.stop_signal import StopSignal
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past
from minara_orchestrator.domain.turn import DoubleTexting, Stop, Turn

MOST_WAITING = 20
"""Turns of a session that wait for the one that runs; messages that wait to be put into one."""


class TurnLink(Protocol):
    """What ties a running turn to the world: events out, requests in, and its past."""

    @property
    def past(self) -> Past:
        """What was told and kept before this process had the turn."""
        ...

    @property
    def stop(self) -> StopSignal: ...

    @property
    def has_interjections(self) -> bool:
        """Whether a person has said something that was not taken yet."""
        ...

    def emit(self, payload: Payload) -> None:
        """Tell an event; never blocks. What was told before the turn was taken over is left out."""
        ...

    def keep(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint together with the events that are told next."""
        ...

    async def stored(self) -> None:
        """Wait until all that was told and kept is durable."""
        ...

    async def step_stored(self, step: int) -> None:
        """Wait until it is durable that this step began."""
        ...

    def take_interjections(self) -> Sequence[Interjection]:
        """What persons have said into the turn since the last time, oldest first."""
        ...

    async def close(self) -> None:
        """Take no more interjections, and wait until all is durable. Those that came too late to be
        taken are told with the turn's end, whatever it is."""
        ...


class TurnLoop(Protocol):
    async def run(self, turn: Turn, link: TurnLink) -> None:
        """Run the turn, or what is left of it, to its terminal event.

        Raises Conflict (LEASE_LOST, EPOCH_STALE) when another process has the session now; nothing
        else but cancellation.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it is stored and delivered: its wire bytes."""

    sequence: int
    is_terminal: bool
    body: bytes


EncodeEvent = Callable[[TurnEvent], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one group commit adds to a turn; `checkpoints_before` counts those that it has.
    `closes` it to further interjections. An end takes the checkpoints with it, but not while the
    workspace does not have the turn yet: it `is_unrecorded`. It also gives up the lease of the
    turn's session that has the epoch `gives_up`, if any.
    """

    events: Sequence[StoredEvent] = ()
    checkpoints: Sequence[Checkpoint] = ()
    checkpoints_before: int = 0
    closes: bool = False
    is_unrecorded: bool = False
    gives_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What admitting a turn found: a new row, or the one that stands. `is_over` when its terminal
    event is stored; `ahead` turns of its session were admitted before it and are not over.

    `into` is the turn that the message was put into, in place of a turn of its own. `stopped` turns
    of its session were asked to make room for it. A turn that is alone may have its session's lease
    already: `epoch` is then not 0.
    """

    is_new: bool
    is_over: bool
    ahead: int = 0
    into: TurnId | None = None
    stopped: tuple[TurnId, ...] = ()
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A turn that is this process's from now on. `take_overs` is how many processes had it before
    and did not bring it to its end."""

    turn: Turn
    take_overs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """What is asked of a turn: whether to stop, and what persons have said into it."""

    stop: Stop | None = None
    interjections: tuple[Interjection, ...] = ()


Stirred = Callable[[], Awaitable[None]]
"""Returns when there may be more to see, and after a while in any case."""


class TurnStore(Protocol):
    """Durable turns, shared by all replicas."""

    async def admit(self, turn: Turn, policy: DoubleTexting = DoubleTexting.ENQUEUE) -> Admission:
        """Insert the turn unless it exists, and do what `policy` says of others of its session.

        Raises NotFound when it is another user's, Conflict (TURN_RUNNING) when it wants to be alone
        in its session and is not, and LimitExceeded when MOST_WAITING turns of the session, or
        messages for its running turn, wait already.
        """
        ...

    async def steer(self, message: Turn, into: TurnId) -> Admission:
        """Put a message into a turn, once; its `Admission.into` is that turn.

        Raises NotFound (TURN_NOT_FOUND) when the turn is unknown, foreign or another session's,
        Conflict (TURN_OVER) when it takes no more, LimitExceeded as `admit`.
        """
        ...

    async def request_stop(self, turn_id: TurnId, user_id: UserId, stop: Stop) -> TurnId | None:
        """Ask a turn, or the one that a message of this id went into, to stop; that turn, None when
        it is over. The first request stands.

        Raises NotFound (TURN_NOT_FOUND) when it is unknown or foreign.
        """
        ...

    async def steering(self, turn_ids: Collection[TurnId]) -> dict[TurnId, Steering]:
        """What is asked of these turns; those of which nothing is asked are left out."""
        ...

    async def next_steered(self) -> Collection[TurnId]:
        """Wait for turns that other replicas were asked to steer; empty when any may have been."""
        ...

    async def ahead(self, turn_id: TurnId) -> int:
        """How many turns of its session were admitted before this one and are not over."""
        ...

    async def find(self, turn_id: TurnId, user_id: UserId) -> Admission | None:
        """The turn, or None when unknown or foreign."""
        ...

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId | None:
        """The session's running turn: the oldest one without a terminal event."""
        ...

    async def claim(self, running: Collection[TurnId]) -> list[Claimed]:
        """Turns without a terminal event that nobody runs, oldest first: those of dead processes,
        which are ours from now on, and our own that are not among the `running` ones."""
        ...

    async def unrecorded(self) -> list[Turn]:
        """Turns that are over and of which the workspace has no record yet, oldest first."""
        ...

    async def leave(self) -> None:
        """Give up all turns of this process that are not over; others may claim them at once."""
        ...

    async def next_left(self) -> None:
        """Wait until another replica has left turns behind, or for a while."""
        ...


class TurnEvents(Protocol):
    """Durable events and checkpoints of turns, shared by all replicas."""

    async def append(self, turn: Turn, entry: Entry) -> Sequence[Interjection]:
        """Store an entry; returns when it is durable. A terminal event ends the turn.

        When it closes the turn: all that persons have said into it. Raises Conflict (LEASE_LOST)
        when another process has claimed the turn, Unavailable when the database has not answered
        for some time.
        """
        ...

    async def events_after(self, turn_id: TurnId, sequence: int) -> list[StoredEvent]:
        """Stored events after `sequence`, in order."""
        ...

    async def has_any(self, turn_id: TurnId) -> bool:
        """Whether events of this turn are still kept."""
        ...

    async def past(self, turn_id: TurnId) -> Past:
        """What a turn that is not over has told and kept."""
        ...

    async def forget_checkpoints(self, turn_id: TurnId) -> None:
        """The workspace has the turn: nothing else is to be kept of it."""
        ...

    def watch(self, turn_id: TurnId) -> AbstractContextManager[Stirred]:
        """While open: something to await before looking again whether the turn has new events."""
        ...

    async def expire(self, before: datetime) -> int:
        """Delete events of turns that were over before this time; how many turns lost theirs. It
        may leave some for the next time."""
        ...


@dataclass(slots=True, kw_only=True)
class Held:
    """A session's lease while it is held. `was_given_up` when it went with a turn's last entry."""

    epoch: int
    was_given_up: bool = False


class SessionWriters(Protocol):
    """One fenced writer per session, over all replicas."""

    def hold(self, session_id: SessionId, *, taken: int = 0) -> AbstractAsyncContextManager[Held]:
        """Wait for the session's lease, unless it was `taken` with this epoch at admission, and
        hold it. First come, first served within a process. Raises Conflict (LEASE_LOST) into the
        body when the lease is lost."""
        ...
