"""Every figure we count or measure. Labels are of bounded sets: never a person, session or turn."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Labels = Mapping[str, str | int | bool]
Kind = Literal["counter", "histogram", "gauge"]

_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_TOKENS: Final = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
_COUNTS: Final = (1, 2, 3, 5, 8, 13, 25, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One instrument: OpenTelemetry's name where there is one, else ours under `minara.`."""

    name: str
    kind: Kind
    unit: str
    description: str
    bounds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A figure that is read when it is asked for, from another thread: `read` must be quick and
    touch nothing that minds."""

    figure: Figure
    read: Callable[[], Iterable[tuple[float, Labels]]]


def _histogram(
    name: str, description: str, *, unit: str = "s", bounds: tuple[float, ...] = _SECONDS
) -> Figure:
    return Figure(name=name, kind="histogram", unit=unit, description=description, bounds=bounds)


def _counter(name: str, unit: str, description: str) -> Figure:
    return Figure(name=name, kind="counter", unit=unit, description=description)


def _gauge(name: str, unit: str, description: str) -> Figure:
    return Figure(name=name, kind="gauge", unit=unit, description=description)


HTTP_REQUESTS: Final = _histogram(
    "http.server.request.duration", "HTTP requests, streams to their last byte."
)
RPC_CALLS: Final = _histogram("rpc.server.call.duration", "RPCs, streams to their last message.")
MODEL_CALLS: Final = _histogram("gen_ai.client.operation.duration", "Model calls.")
MODEL_FIRST_CHUNK: Final = _histogram(
    "gen_ai.client.operation.time_to_first_chunk", "From asking a model to its first word."
)
MODEL_TOKENS: Final = _histogram(
    "gen_ai.client.token.usage", "Tokens of a model call.", unit="{token}", bounds=_TOKENS
)
TOKENS: Final = _counter(
    "minara.tokens", "{token}", "Tokens by type: input, output, cache_read, cache_write."
)
COST: Final = _counter("minara.cost", "{USD}", "Dollars of model calls whose price is known.")
CACHE_READ_RATIO: Final = _gauge(
    "minara.cache_read.ratio", "1", "Share of input tokens read from a provider's cache so far."
)
TURNS: Final = _counter("minara.turns", "{turn}", "Turns that ended, by outcome.")
TURN_DURATION: Final = _histogram("minara.turn.duration", "Turns, from their writer's lease on.")
TURN_FIRST_TEXT: Final = _histogram(
    "minara.turn.time_to_first_token", "From a turn's start to its first text."
)
TURN_STEPS: Final = _histogram(
    "minara.turn.steps", "Steps of a turn.", unit="{step}", bounds=_COUNTS
)
STEP_DURATION: Final = _histogram("minara.step.duration", "One model call and its tools.")
TOOL_DURATION: Final = _histogram("minara.tool.duration", "Tool calls, gates and audit included.")
DENIALS: Final = _counter("minara.denials", "{denial}", "Tool calls that our gates refused.")
QUEUE: Final = _gauge("minara.turn.queue", "{turn}", "Turns here that run, or wait for others.")
EVENT_LAG: Final = _histogram(
    "minara.event.lag", "From an event's making to its hand-over to a subscriber."
)
OPERATIONS: Final = _gauge(
    "minara.ledger.operations", "{operation}", "Fund operations that are not settled, by state."
)
CONNECTIONS: Final = _gauge(
    "db.client.connection.count", "{connection}", "Database connections in use."
)
LOOP_LAG: Final = _histogram("minara.event_loop.lag", "How late the event loop runs what is due.")
SPANS_LOST: Final = _counter("minara.spans.lost", "{span}", "Spans for which there was no room.")

FIGURES: Final = (
    HTTP_REQUESTS,
    RPC_CALLS,
    MODEL_CALLS,
    MODEL_FIRST_CHUNK,
    MODEL_TOKENS,
    TOKENS,
    COST,
    CACHE_READ_RATIO,
    TURNS,
    TURN_DURATION,
    TURN_FIRST_TEXT,
    TURN_STEPS,
    STEP_DURATION,
    TOOL_DURATION,
    DENIALS,
    QUEUE,
    EVENT_LAG,
    OPERATIONS,
    CONNECTIONS,
    LOOP_LAG,
    SPANS_LOST,
)
