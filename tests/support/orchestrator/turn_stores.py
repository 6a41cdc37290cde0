"""TurnStore, TurnEvents and SessionWriters as contract suites see them: fakes, and real ones."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.clock import SystemClock
from minara_core.ids import TurnId, UserId
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turn_events import SqlTurnEvents
from minara_orchestrator.adapters.sql_turns import VERSIONS, SqlTurns
from minara_orchestrator.app.turn_ports import SessionWriters, StoredEvent, TurnEvents, TurnStore
from minara_runtime.database import Database
from minara_runtime.process_lease import ProcessLease
from support.databases import Databases, PostgresShelf, SqliteShelf
from support.orchestrator.storage import FakeTurnStore, FakeWriters

ME = UserId("local")
FIRST = TurnId("turn-1")


@dataclass
class Pair:
    store: TurnStore
    events: TurnEvents
    writers: SessionWriters


def a_fake_pair() -> Pair:
    fake = FakeTurnStore()
    return Pair(fake, fake, FakeWriters())


@asynccontextmanager
async def a_real_pair(shelf: SqliteShelf | PostgresShelf) -> AsyncGenerator[Pair]:
    databases = Databases(shelf)
    database = await databases.open(VERSIONS)
    process = a_process(database, "me")
    await ProcessLease(database, owner="me").begin()
    yield Pair(process.store, process.events, process.writers)
    await process.events.aclose()
    await databases.aclose()


@dataclass
class Process:
    """What one process has."""

    store: SqlTurns
    events: SqlTurnEvents
    writers: LeasedWriters


def a_process(database: Database, owner: str) -> Process:
    writers = LeasedWriters(database, owner=owner)
    return Process(
        SqlTurns(database, owner=owner, writers=writers),
        SqlTurnEvents(database, owner=owner, clock=SystemClock(), writers=writers),
        writers,
    )


def event(sequence: int, *, is_terminal: bool = False) -> StoredEvent:
    return StoredEvent(sequence=sequence, is_terminal=is_terminal, body=bytes([sequence, 0, 255]))


def told(sequence: int) -> StoredEvent:
    """An event as the real ones are stored: its wire bytes."""
    body = event_pb.TurnEvent(sequence=sequence, text_delta=event_pb.TextDelta(text="word"))
    return StoredEvent(sequence=sequence, is_terminal=False, body=body.SerializeToString())
