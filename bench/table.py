"""The figures as a table, with the targets of the design beside them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.peers.compared import PEERS

MISSED = "MISSED"
_MODES = (
    ("", "embedded, SQLite", "1 process, scripted model"),
    ("five_sqlite_", "five processes, SQLite", "TCP, offline model"),
    ("five_postgres_", "five processes, PostgreSQL", "TCP, durable, offline model"),
    ("replicas_postgres_", "two of each, PostgreSQL", "TCP, durable, offline model"),
)
_PLACES = (("embedded", "embedded"), ("five", "five processes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure by its name in the JSON. A target is the most it may be, or the least."""

    name: str
    text: str
    target: float | None = None
    bound: Literal["most", "least"] = "most"
    digits: int = 2

    def line(self, value: float) -> str:
        return f"  {self.text:52}{value:>12,.{self.digits}f}{self._beside(value)}"

    def _beside(self, value: float) -> str:
        if self.target is None:
            return ""
        sign = "≤" if self.bound == "most" else "≥"
        mark = "" if self.is_met(value) else f"  {MISSED}"
        return f"   {sign} {self.target:>8,g}{mark}"

    def is_met(self, value: float) -> bool:
        if self.target is None:
            return True
        return value <= self.target if self.bound == "most" else value >= self.target


def _turn_rows(prefix: str) -> tuple[Row, ...]:
    is_embedded, has_targets = prefix == "", prefix in {"", "five_postgres_"}
    p50, p99, first = (5.0, 20.0, 4.0) if is_embedded else (12.0, 40.0, 10.0)
    return (
        Row(name=f"{prefix}turn_p50_ms", text="turn p50, ms", target=p50 if has_targets else None),
        Row(name=f"{prefix}turn_p99_ms", text="turn p99, ms", target=p99 if has_targets else None),
        Row(
            name=f"{prefix}first_text_p50_ms",
            text="request to first text p50, ms",
            target=first if is_embedded or has_targets else None,
        ),
        Row(name=f"{prefix}turn_cpu_ms", text="CPU of all processes per turn, ms"),
        Row(name=f"{prefix}turn_over_bare", text="turn ÷ bare durable request (same minute)"),
        Row(name=f"{prefix}rpcs_per_turn", text="RPCs between services per turn", digits=1),
        Row(name=f"{prefix}commits_per_turn", text="write transactions per turn", digits=1),
        Row(
            name=f"{prefix}transactions_per_turn",
            text="PostgreSQL transactions per turn, reads too",
            digits=1,
        ),
        Row(name=f"{prefix}commit_ms", text="one durable commit of one row, p50 ms"),
    )


def _stream_rows(prefix: str, name: str) -> tuple[Row, ...]:
    events = 20_000.0 if prefix == "embedded" else 5_000.0
    return (
        Row(
            name=f"{prefix}_sse_events_per_s",
            text=f"{name}: SSE events/s to one client",
            target=events,
            bound="least",
            digits=0,
        ),
        Row(
            name=f"{prefix}_sse_events_per_s_20_clients",
            text=f"{name}: SSE events/s to 20 clients together",
            digits=0,
        ),
        Row(name=f"{prefix}_open_streams", text=f"{name}: streams open at once", digits=0),
        Row(
            name=f"{prefix}_lag_beside_p99_ms",
            text=f"{name}: p99 lag of another turn beside them, ms",
            target=250.0,
        ),
        Row(name=f"{prefix}_lag_to_all_p50_ms", text=f"{name}: an event to all of them, p50 ms"),
        Row(name=f"{prefix}_lag_to_all_p99_ms", text=f"{name}: an event to all of them, p99 ms"),
        *(
            Row(
                name=f"{prefix}_kb_per_stream_{process}",
                text=f"{name}: memory per stream in {process}, KB",
                digits=1,
            )
            for process in ("embedded", "gateway", "orchestrator")
        ),
    )


def _peer_rows() -> Iterator[Row]:
    for name in ("minara", *PEERS):
        yield Row(name=f"{name}_beside_p50_ms", text=f"{name}: turn p50, ms")
        yield Row(name=f"{name}_beside_cpu_ms", text=f"{name}: CPU per turn, ms")
        yield Row(
            name=f"{name}_over_minara",
            text=f"{name} ÷ minara, p50",
            target=1.0,
            bound="least",
        )
        yield Row(name=f"{name}_over_minara_cpu", text=f"{name} ÷ minara, CPU")


_OTHERS = (
    Row(name="bare_p50_ms", text="bare: one POST, one fsynced commit, ten frames, ms"),
    Row(name="offline_model_ms", text="the offline model's own share of a turn, ms"),
    Row(name="gates_p50_ms", text="gates of a money call, no venue, no disk, ms", target=1.0),
    Row(name="gates_fsync_p50_ms", text="the same with its audit row on disk, ms"),
    Row(name="start_to_first_answer_s", text="start to first answer, s", target=4.0),
    Row(name="resident_mb", text="resident memory, embedded, MB", target=250.0, digits=0),
    *(
        Row(name=f"five_resident_mb_{name}", text=f"resident memory, {name}, MB", digits=0)
        for name in ("gateway", "orchestrator", "tools", "skills", "workspace")
    ),
    Row(name="telemetry_ms", text="traces and metrics per turn, ms"),
    Row(name="telemetry_share", text="their share of a turn", target=0.15),
    Row(name="spans_per_turn", text="spans per turn", digits=1),
    Row(name="slow_client_dropped_s", text="a client that stops reading is dropped after, s"),
)
SECTIONS: Mapping[str, tuple[Row, ...]] = {
    **{f"turn, {name} ({how})": _turn_rows(prefix) for prefix, name, how in _MODES},
    "streams": tuple(row for place in _PLACES for row in _stream_rows(*place)),
    "everything else": _OTHERS,
    "peers (in batches that take turns with ours)": tuple(_peer_rows()),
}
NOTES = """\
a turn: one tool call, a model that answers at once, everything durable, gated, audited, served over
HTTP, traced to a file; a peer's turn is a function call in memory with none of that
processes: client and server share the machine's cores; the client is another process
events/s: a stored turn, read to its end; live text comes at most every 33 ms, in one event
lag: from an event's own time to its arrival, `beside` with all other streams open and silent"""


def lines(figures: Mapping[str, float]) -> Iterator[str]:
    """The table. What was not measured is left out."""
    for title, rows in SECTIONS.items():
        measured = [row.line(figures[row.name]) for row in rows if row.name in figures]
        if measured:
            yield f"{title}"
            yield from measured


def missed(figures: Mapping[str, float]) -> list[str]:
    """The names of figures that do not meet their target."""
    rows = [row for section in SECTIONS.values() for row in section]
    return [r.name for r in rows if r.name in figures and not r.is_met(figures[r.name])]
