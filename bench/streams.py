"""How fast a turn's events come out, and how many streams may be open at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import cycle, islice

from bench.model import WAITS, PacedModel
from bench.places import Place
from bench.turns import new_session
from bench.wire import call, is_end, percentile, watching
from minara_core.clock import SystemClock, pause
from minara_core.events import FinishReason, TextDelta, TokenUsage, TurnCompleted, TurnEvent
from minara_core.ids import RandomIds, SessionId, TurnId
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_orchestrator.adapters.grpc_server import encode_event
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turn_events import SqlTurnEvents
from minara_orchestrator.adapters.sql_turns import SqlTurns
from minara_orchestrator.app.turn_ports import Entry, StoredEvent
from minara_orchestrator.domain.turn import Turn, UserInput
from minara_runtime.database import Database

CLIENTS = 20
_TEXT = "a few words of an answer"
_APPEND = 1_000
_BATCH = 40
_SETTLE_SECONDS = 2.0
_TIME = b'"time": "'


async def measure_events(place: Place, events: int, name: str) -> dict[str, float]:
    """Events a second of a stored turn of `events` text events, to one client and to many."""
    turn_id = await stored_turn(place, events)
    await _read(place, turn_id, 0)
    one = [await _rate(place, turn_id, 1) for _ in range(3)]
    many = await _rate(place, turn_id, CLIENTS)
    return {
        f"{name}_sse_events_per_s": percentile(one, 50),
        f"{name}_sse_events_per_s_{CLIENTS}_clients": many,
    }


async def measure_open_streams(
    place: Place, model: PacedModel, streams: int, name: str
) -> dict[str, float]:
    """Memory of each of `streams` streams of a turn that waits; how late the events of another
    turn are meanwhile, and those of the one turn that all of them watch."""
    before = place.memory()
    waiting = await _started(place, WAITS)
    async with AsyncExitStack() as stack:
        readers = await _opened(place, waiting, streams, stack)
        await pause(_SETTLE_SECONDS)
        after = place.memory()
        beside = await _lags(place, await _started(place, "talk to me"), stack)
        lags: list[float] = []
        tasks = [asyncio.create_task(_collect(reader, lags)) for reader in readers]
        model.go.set()
        await asyncio.wait(tasks)
        assert all(task.exception() is None for task in tasks), [t.exception() for t in tasks][:3]
    figures = {
        f"{name}_kb_per_stream_{process}": (after[process] - before[process]) * 1_024 / streams
        for process in after
        if process in {"embedded", "gateway", "orchestrator"}
    }
    return {
        f"{name}_open_streams": float(len(readers)),
        f"{name}_lag_beside_p50_ms": percentile(beside, 50),
        f"{name}_lag_beside_p99_ms": percentile(beside, 99),
        f"{name}_lag_to_all_p50_ms": percentile(lags, 50),
        f"{name}_lag_to_all_p99_ms": percentile(lags, 99),
        **figures,
    }


async def _opened(
    place: Place, turn_id: str, streams: int, stack: AsyncExitStack
) -> list[asyncio.StreamReader]:
    """So many watchers of a turn, some at a time: a listener holds only so many that knock."""
    opened: list[asyncio.StreamReader] = []
    addresses = cycle(place.addresses)
    while len(opened) < streams:
        some = islice(addresses, min(_BATCH, streams - len(opened)))
        entered = [
            asyncio.create_task(
                stack.enter_async_context(watching(address, turn_id, token=place.token))
            )
            for address in some
        ]
        await asyncio.wait(entered)
        opened += [task.result() for task in entered]
    return opened


async def _lags(place: Place, turn_id: str, stack: AsyncExitStack) -> list[float]:
    """How late one watcher gets the text of a turn, event by event."""
    address = place.addresses[0]
    reader = await stack.enter_async_context(watching(address, turn_id, token=place.token))
    lags: list[float] = []
    await _collect(reader, lags)
    return lags


async def _collect(reader: asyncio.StreamReader, lags: list[float]) -> None:
    """Milliseconds from each event's making, as it tells itself, until it is here."""
    clock = SystemClock()
    async for frame in _frames(reader):
        if b"event: text_delta" in frame:
            made = frame.partition(_TIME)[2].partition(b'"')[0].decode()
            moment = datetime.fromisoformat(made.replace("Z", "+00:00"))
            lags.append((clock.now() - moment).total_seconds() * 1_000)
        if is_end(frame):
            return


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        yield await reader.readuntil(b"\n\n")


async def _started(place: Place, message: str) -> str:
    """The id of a turn that runs, from the first event of its stream; nobody reads on."""
    address = place.addresses[0]
    session_id = await new_session(address, place.token)
    body = {"message": message, "session_id": session_id}
    asking = asyncio.create_task(call(address, "/v1/chat", body, token=place.token))
    _ASKING.add(asking)
    asking.add_done_callback(_ASKING.discard)
    database = Database.open(place.orchestrator_database)
    store = _turns(database)
    turn_id = None
    while turn_id is None:
        await pause(0.02)
        turn_id = await store.live_turn(SessionId(session_id), place.user_id)
    await database.aclose()
    return turn_id


_OWNER = "bench"


def _writers(database: Database) -> LeasedWriters:
    return LeasedWriters(database, owner=_OWNER)


def _turns(database: Database) -> SqlTurns:
    return SqlTurns(database, owner=_OWNER, writers=_writers(database))


_ASKING: set[asyncio.Task[object]] = set()


async def _rate(place: Place, turn_id: str, clients: int) -> float:
    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(_read(place, turn_id, number)) for number in range(clients)]
    return sum(task.result() for task in reading) / (time.perf_counter() - begin)


async def _read(place: Place, turn_id: str, number: int) -> int:
    """Read a turn's stream to its end as fast as it comes; how many events it had."""
    address = place.addresses[number % len(place.addresses)]
    events, tail = 0, b""
    async with watching(address, turn_id, token=place.token) as reader:
        while not is_end(tail):
            chunk = await reader.read(262_144)
            assert chunk, "the stream broke off"
            both = tail + chunk
            events += both.count(b"\nid: ") - tail.count(b"\nid: ")
            tail = both[-2_000:]
    return events


async def stored_turn(place: Place, events: int) -> str:
    """A turn that is over and has this many events, as a fast model would leave it."""
    database = Database.open(place.orchestrator_database)
    clock, ids = SystemClock(), RandomIds()
    store = _turns(database)
    log = SqlTurnEvents(database, owner=_OWNER, clock=clock, writers=_writers(database))
    turn_id = TurnId(ids.new())
    context = TurnContext(
        turn_id=turn_id,
        session_id=SessionId(ids.new()),
        user_id=place.user_id,
        origin=Origin.HTTP,
        allowed_tool_sets=(),
    )
    now = clock.now()
    turn = Turn(context=context, input=UserInput(text="hi"), start_time=now)
    await store.admit(turn)
    made = [
        TurnEvent(sequence=number, time=now, payload=TextDelta(text=_TEXT))
        for number in range(1, events)
    ]
    end = TurnCompleted(finish_reason=FinishReason.STOP, usage=TokenUsage())
    made.append(TurnEvent(sequence=events, time=now, payload=end))
    stored = [
        StoredEvent(sequence=e.sequence, is_terminal=e.is_terminal, body=encode_event(e))
        for e in made
    ]
    for start in range(0, events, _APPEND):
        await log.append(turn, Entry(events=stored[start : start + _APPEND]))
    await log.aclose()
    await database.aclose()
    return turn_id
