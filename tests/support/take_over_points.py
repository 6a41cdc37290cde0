"""Points of a turn of three tools at which its process may be lost, and what becomes of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from minara_llm.wire.brain import Answer
from support.cluster_client import Told
from support.cluster_held import Asked, Hold, saying
from support.cluster_people import Person

STEPS = 3


class Cut(Enum):
    """Where a step of a turn stands when its process dies.

    ASKED: its call was sent to a tools service that stands still. RECORDED: the tools service has
    the call's result, and nothing of it is stored here. CLOSING: the last step is over, nothing is
    recorded in the workspace. COMMITTED: it is, and nobody was told.
    """

    UNASKED = auto()
    IN_TEXT = auto()
    IN_CALL = auto()
    ASKED = auto()
    RECORDED = auto()
    CLOSING = auto()
    COMMITTED = auto()

    @property
    def hold(self) -> Hold:
        """Where the model is held until then."""
        return {Cut.IN_TEXT: Hold.IN_TEXT, Cut.IN_CALL: Hold.IN_CALL}.get(self, Hold.BEFORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A cut in the step whose call is that of `place`: a price, a file, a purchase."""

    place: int
    cut: Cut

    @property
    def word(self) -> str:
        """It tells the turn from others, in its message and in the name of its file."""
        return f"{self.cut.name.lower().replace('_', '')}{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A row of the tools service."""

    tool_call_id: str
    name: str
    is_finished: bool
    result_json: str


@dataclass(slots=True, kw_only=True)
class Story:
    """What became of a turn. `before` are its calls as they stood when the process died, `asked`
    how often the model was asked for each place, `audited` counts the tools service's records of
    the turn's calls by tool."""

    point: Point
    person: Person
    told: Told = field(default_factory=Told)
    owners: list[str] = field(default_factory=list[str])
    take_overs: int = 0
    before: Sequence[Call] = ()
    calls: Sequence[Call] = ()
    audited: Counter[str] = field(default_factory=Counter[str])
    asked: Sequence[int] = ()
    files: Sequence[str] = ()
    waiting: Sequence[str] = ()
    answers: list[str] = field(default_factory=list[str])
    orders: int = 0
    next: Told = field(default_factory=Told)


def words(place: int, attempt: int) -> str:
    """What the model says at this place when it is asked for the so-manieth time."""
    return f"Step {place}, said {attempt} times: here is what I do about it now."


def speak(asked: Asked) -> Answer:
    """A price, a file and a purchase, in other words each time; to anything else, a few words."""
    text = words(asked.place, asked.attempt)
    if not asked.said.startswith("buy "):
        return saying(text)
    symbol = "BTC" if asked.attempt == 1 else "SOL"
    path = f"{asked.said.split()[-1]}-{asked.attempt}.txt"
    buy = {"symbol": "ETH", "amount": "50", "amount_unit": "quote"}
    calls = (
        ("get_price", {"symbol": symbol}),
        ("write_file", {"path": path, "content": text}),
        ("buy_token", buy | {"intent": f"Buy 50 USDC worth of ETH ({asked.attempt})."}),
    )
    return saying(text, *calls[asked.place : asked.place + 1])
