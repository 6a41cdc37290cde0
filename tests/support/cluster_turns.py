"""The turns of a session as the orchestrators of a cluster have stored them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from minara.agent.v1 import event_pb2 as event_pb
from minara_orchestrator.adapters.sql_tables import TURN_EVENTS, TURNS
from minara_runtime.database import Database
from support.cluster_client import TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """A turn, or with `into` a message that was put into that turn."""

    turn_id: str
    owner: str
    take_overs: int
    text: str
    into: str
    events: Sequence[event_pb.TurnEvent]

    @property
    def names(self) -> list[str]:
        return [event.WhichOneof("event") or "" for event in self.events]

    @property
    def end(self) -> str:
        """How it ended: its finish reason, or the name of another terminal event."""
        last = self.events[-1]
        if last.HasField("turn_completed"):
            reason = event_pb.FinishReason.Name(last.turn_completed.finish_reason)
            return reason.removeprefix("FINISH_REASON_").lower()
        return self.names[-1]

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """When it began to be worked on and when it ended; None of one that never began."""
        begun = [event.time for event in self.events if event.HasField("turn_started")]
        return (begun[0].ToDatetime(), self.events[-1].time.ToDatetime()) if begun else None

    @property
    def interjected(self) -> list[str]:
        """What persons said into it and the model was told."""
        said = [event.user_interjected for event in self.events]
        return [each.text for each in said if each.text]

    @property
    def too_late(self) -> list[str]:
        """What persons said into it when it was too late."""
        return list(self.events[-1].turn_completed.pending_interjections)

    def faults(self) -> list[str]:
        """What is wrong with how it is stored."""
        sequences = [event.sequence for event in self.events]
        ends = [name for name in self.names if name in TERMINAL]
        is_whole = sequences == list(range(1, len(sequences) + 1))
        is_over = len(ends) == 1 and self.names[-1] == ends[0]
        return [] if is_whole and is_over else [f"{self.turn_id}: {sequences} {self.names}"]


async def stored_turns(orchestrator: Database, session_id: str) -> list[StoredTurn]:
    """In the order in which they were admitted."""
    admitted = sa.select(TURNS).where(TURNS.c.session_id == session_id).order_by(TURNS.c.position)
    stored = sa.select(TURN_EVENTS).join(TURNS, TURNS.c.turn_id == TURN_EVENTS.c.turn_id)
    stored = stored.where(TURNS.c.session_id == session_id).order_by(TURN_EVENTS.c.sequence)
    turns = await orchestrator.read(lambda c: c.execute(admitted).all())
    events = await orchestrator.read(lambda c: c.execute(stored).all())
    return [
        StoredTurn(
            turn_id=turn.turn_id,
            owner=turn.owner,
            take_overs=turn.take_overs,
            text=turn.input_text,
            into=turn.interjected_into,
            events=[
                event_pb.TurnEvent.FromString(bytes(row.body))
                for row in events
                if row.turn_id == turn.turn_id
            ],
        )
        for turn in turns
    ]
