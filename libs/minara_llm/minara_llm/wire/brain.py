"""Who thinks behind a wire server: a script, or rules. Both see the request in neutral words."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelThinking,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.offline.model import OfflineModel

AnswerPart = ModelThinking | ModelText | ModelToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is said, in order. Neighbours of one kind are the deltas of one text or thought.

    Without `stop` the answer ends for its calls, or as said. Without `output_tokens` they are
    counted from the text.
    """

    parts: tuple[AnswerPart, ...]
    stop: StopReason | None = None
    output_tokens: int | None = None

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ModelToolCall))

    @property
    def reason(self) -> StopReason:
        return self.stop or (StopReason.TOOL_CALLS if self.tool_calls else StopReason.END)


class Brain(Protocol):
    """Decides what the model says. The request has what the wire carries: system texts, tools,
    messages, tool choice; call ids in it are the wire's own."""

    async def answer(self, request: ModelRequest) -> Answer: ...


Prepared = Answer | Sequence[ModelEvent]
Script = Prepared | Callable[[ModelRequest], Prepared]
"""One answer: whole, as the events an adapter shall yield, or as a function of the request."""


class ScriptEnded(LookupError):
    """A request came after the last answer of the script."""


class ScriptedBrain:
    """Gives its answers in order; `requests` keeps what it was asked."""

    def __init__(self, scripts: Iterable[Script] = ()) -> None:
        self._left = deque(scripts)
        self.requests: list[ModelRequest] = []

    def add(self, *scripts: Script) -> None:
        """More answers, behind those that are left."""
        self._left.extend(scripts)

    async def answer(self, request: ModelRequest) -> Answer:
        """Raises ScriptEnded when no answer is left."""
        self.requests.append(request)
        if not self._left:
            raise ScriptEnded(f"the script has no answer for request {len(self.requests)}")
        script = self._left.popleft()
        prepared = script(request) if callable(script) else script
        return prepared if isinstance(prepared, Answer) else answer_of(prepared)

    def assert_exhausted(self) -> None:
        """Raises AssertionError when answers are left that nobody asked for."""
        if self._left:
            raise AssertionError(f"{len(self._left)} answers of the script were never asked for")


class RulesBrain:
    """Answers as the offline model does, so that the whole system can be tried over a real wire."""

    async def answer(self, request: ModelRequest) -> Answer:
        return answer_of([event async for event in OfflineModel().stream(request)])


def answer_of(events: Iterable[ModelEvent]) -> Answer:
    """The answer from which an adapter makes these events; usage counts only what was said."""
    parts: list[AnswerPart] = []
    said = 0
    stop: StopReason | None = None
    for event in events:
        match event:
            case ModelText() | ModelThinking() | ModelToolCall():
                parts.append(event)
            case ModelUsage(usage=usage):
                said += usage.output_tokens
            case ModelStop(reason=reason):
                stop = reason
            case _:
                pass
    # A script whose events stop plainly ends as its calls have it.
    is_plain = stop in {StopReason.END, StopReason.TOOL_CALLS}
    return Answer(parts=tuple(parts), stop=None if is_plain else stop, output_tokens=said or None)
