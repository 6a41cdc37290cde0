"""The outbox of a turn: what only the place of an event tells is set there."""

from minara_core.clock import SystemClock
from minara_core.events import (
    FinishReason,
    Payload,
    StepStarted,
    TextDelta,
    TextReset,
    TokenUsage,
    TurnCompleted,
    TurnEvent,
)
from minara_orchestrator.app.live_turn import LiveTurn
from minara_orchestrator.domain.checkpoint import Past
from support.orchestrator.house import a_turn, encode
from support.orchestrator.storage import FakeTurnStore

END = TurnCompleted(finish_reason=FinishReason.STOP, usage=TokenUsage())


async def told(*payloads: Payload) -> list[TurnEvent]:
    """The events that a turn of these payloads stores."""
    events: list[TurnEvent] = []

    def keep(event: TurnEvent) -> bytes:
        events.append(event)
        return encode(event)

    store, turn = FakeTurnStore(), a_turn()
    await store.admit(turn)
    live = LiveTurn(turn, events=store, encode=keep, clock=SystemClock(), past=Past())
    for payload in payloads:
        live.emit(payload)
    await live.pump()
    return events


def resets(events: list[TurnEvent]) -> list[int]:
    return [e.payload.since_sequence for e in events if isinstance(e.payload, TextReset)]


async def test_a_reset_voids_what_was_said_since_its_step_began() -> None:
    events = await told(
        StepStarted(step=1),
        TextDelta(text="kept"),
        StepStarted(step=2),
        TextDelta(text="void"),
        TextReset(reason="connection"),
        TextDelta(text="good"),
        END,
    )
    assert resets(events) == [3]
    since = resets(events)[0]
    kept = [
        event.payload.text
        for event in events
        if isinstance(event.payload, TextDelta) and not since < event.sequence < 5
    ]
    assert kept == ["kept", "good"]


async def test_a_second_reset_voids_what_was_said_since_the_first() -> None:
    events = await told(
        StepStarted(step=1),
        TextDelta(text="void"),
        TextReset(reason="connection"),
        TextDelta(text="void too"),
        TextReset(reason="overloaded"),
        END,
    )
    assert resets(events) == [1, 3]
