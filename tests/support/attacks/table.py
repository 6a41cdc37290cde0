"""A table of attacks: what each tries, against which tool, and the code it must end in."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from minara_core.tooling import ToolDenial, ToolFailure, ToolOutcome, ToolPending, ToolSuccess

S = TypeVar("S")

PREVIEW_ONLY = "preview only"
"""It became a preview of what the person asked for, which waits for their yes."""
PREVIEW_UNSOLICITED = "preview, unsolicited"
"""It became a preview that says that nobody asked, and that no bare yes confirms."""
RAN = "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack(Generic[S]):
    """`play` tries it in a scene and returns the code that it came to."""

    name: str
    tool: str
    code: str
    play: Callable[[S], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackClass(Generic[S]):
    name: str
    attacks: tuple[Attack[S], ...]


def cases(classes: Iterable[AttackClass[S]]) -> list[tuple[str, Attack[S]]]:
    """Every attack with the name of its class, for a parametrized test."""
    return [(one.name, attack) for one in classes for attack in one.attacks]


def name_of_case(value: object) -> str:
    """How pytest names a case."""
    return value.name if isinstance(value, Attack) else str(value)


def code_of(outcome: ToolOutcome) -> str:
    """What a call came to, in one word."""
    match outcome:
        case ToolDenial():
            return outcome.reason.value
        case ToolFailure():
            return outcome.reason
        case ToolPending(action=action):
            return PREVIEW_ONLY if action.solicited else PREVIEW_UNSOLICITED
        case ToolSuccess():
            return RAN
        case _:
            return "delegated"
