"""What one run does to the money path: a pure function of its seed."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random  # noqa: TID251 - a seed is the whole input of a run

from minara_runtime.database import Dialect
from minara_tools.adapters.venue_paper_http import VENUE_WRITTEN
from minara_tools.app.confirm_action import CONFIRM_REPLY
from minara_tools.app.execute_move import (
    CONFIRM_ACCEPTED,
    CONFIRM_HELD,
    CONFIRM_INTENT,
    CONFIRM_POSTED,
    CONFIRM_SENT,
    CONFIRM_SIGNED,
)

POINTS = (
    CONFIRM_INTENT,
    CONFIRM_HELD,
    CONFIRM_SIGNED,
    CONFIRM_SENT,
    VENUE_WRITTEN,
    CONFIRM_ACCEPTED,
    CONFIRM_POSTED,
    CONFIRM_REPLY,
)


class Crash(StrEnum):
    """What happens to the tools process at the point."""

    KILL = "kill"
    PAUSE = "pause"
    NONE = "none"


class Network(StrEnum):
    """What happens to the order on its way to the venue, or to the answer on its way back.

    LATE_REQUEST stays on its way until time has jumped and others have looked for it; LATE_TWICE
    comes late and soon again. SLOW_REPLY comes when nobody waits any more. REORDER_SECOND and
    REORDER_CANCEL deliver a second order, or a cancel by somebody else, and then the first request.
    TWICE and TWICE_LATE deliver it again.
    """

    FINE = "fine"
    DROP_REQUEST = "drop_request"
    DROP_REPLY = "drop_reply"
    DELAY_REQUEST = "delay_request"
    DELAY_REPLY = "delay_reply"
    LATE_REQUEST = "late_request"
    LATE_TWICE = "late_twice"
    SLOW_REPLY = "slow_reply"
    TWICE = "twice"
    TWICE_LATE = "twice_late"
    TWICE_UNANSWERED = "twice_unanswered"
    ERROR_BEFORE = "error_before"
    ERROR_AFTER = "error_after"
    REORDER_SECOND = "reorder_second"
    REORDER_CANCEL = "reorder_cancel"


ANSWERED = (
    Network.FINE,
    Network.DELAY_REQUEST,
    Network.DELAY_REPLY,
    Network.TWICE,
    Network.TWICE_LATE,
    Network.REORDER_SECOND,
)
"""With these the answer comes in time, so that all points are reached."""


class Skew(StrEnum):
    """Whose wall clock alone jumps, by `skew_seconds`."""

    NOBODY = "nobody"
    TOOLS = "tools"
    VENUE = "venue"


class Resume(StrEnum):
    """When a paused process goes on: right after the jump, once another process had its chance to
    recover, or when that one has settled all it could."""

    AT_ONCE = "at_once"
    TAKEN_OVER = "taken_over"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. `jump_seconds` pass for everybody at the point; a process that `sleeps` through them
    has a monotonic clock that did not count them. `outage_seconds` long the venue answers nothing
    to whoever recovers. The decision is taken again while the move is unsettled, and afterwards;
    who recovers dies again, `delay_seconds` into it."""

    seed: int
    database: Dialect
    point: str
    crash: Crash
    move: str
    network: Network
    delay_seconds: float
    jump_seconds: float
    sleeps: bool
    skew: Skew
    skew_seconds: float
    resume: Resume
    outage_seconds: float
    repeats_meanwhile: bool
    repeats_after: bool
    dies_again: bool

    @property
    def cell(self) -> str:
        """What the summary counts it under."""
        return f"{self.point} {self.crash.value}" if self.point else "network only"


CELLS: tuple[tuple[str, Crash], ...] = (
    *((point, crash) for point in POINTS for crash in (Crash.KILL, Crash.PAUSE)),
    *((("", Crash.NONE),) * 4),
)
"""Consecutive seeds go through these in order, on one database and then on the other: of any 500
in a row each has 25."""

LATE = (Network.LATE_REQUEST, Network.LATE_TWICE)
"""With these the request is held back until the harness lets it go."""

STRAGGLING = frozenset(
    {
        Network.DELAY_REQUEST,
        Network.TWICE_LATE,
        Network.TWICE_UNANSWERED,
        Network.LATE_TWICE,
    }
)
"""With these something may reach the venue `delay_seconds` later than anybody waits for it."""

_VALIDITY_PASSED = (6.0, 11.0, 34.0, 45.0, 120.0)
_PREVIEW_EXPIRED = 660.0


def plan_of(seed: int, database: Dialect | None = None) -> Plan:
    """The plan of a seed. `database` replaces the one that the seed is for, and nothing else."""
    random = Random(seed)
    point, crash = CELLS[seed % len(CELLS)]
    own: Dialect = "postgresql" if seed // len(CELLS) % 2 else "sqlite"
    network = _network(random, point)
    skew = random.choice((Skew.NOBODY, Skew.NOBODY, Skew.TOOLS, Skew.VENUE))
    skew_seconds = round(random.uniform(-2.0, 2.0), 3)
    if network is Network.LATE_TWICE and random.random() < 0.6:
        skew, skew_seconds = Skew.VENUE, abs(skew_seconds)  # refused as late, and then not
    return Plan(
        seed=seed,
        database=database or own,
        point=point,
        crash=crash,
        move=random.choice(("buy", "buy", "sell", "limit", "cancel", "transfer")),
        network=network,
        delay_seconds=round(random.uniform(0.05, 0.4), 3),
        jump_seconds=_jump(random, crash, network),
        sleeps=crash is Crash.PAUSE and random.random() < 0.4,
        skew=skew,
        skew_seconds=skew_seconds if skew is not Skew.NOBODY else 0.0,
        resume=random.choice(tuple(Resume)),
        outage_seconds=random.choice((0.0, 0.0, 0.5)),
        repeats_meanwhile=random.random() < 0.5,
        repeats_after=random.random() < 0.5,
        dies_again=crash is Crash.KILL and random.random() < 0.3,
    )


def _network(random: Random, point: str) -> Network:
    if point == CONFIRM_ACCEPTED:
        return random.choice(ANSWERED)
    if point in {"", VENUE_WRITTEN}:  # where the network decides what becomes of it
        return random.choice([*(one for one in Network if one is not Network.FINE), *LATE])
    return Network.FINE if random.random() < 0.35 else random.choice(tuple(Network))


def _jump(random: Random, crash: Crash, network: Network) -> float:
    if crash is Crash.PAUSE:
        is_rare = random.random() < 0.08
        return _PREVIEW_EXPIRED if is_rare else random.choice(_VALIDITY_PASSED)
    if network is Network.LATE_REQUEST:
        return random.choice((0.0, 1.5, *_VALIDITY_PASSED))
    if network is Network.LATE_TWICE:
        return random.choice((1.5, 3.2, 3.6, 6.0))  # around the end of validity
    return random.choice((0.0, 0.0, 1.5, *_VALIDITY_PASSED))
