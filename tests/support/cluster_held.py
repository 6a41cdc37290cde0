"""A provider on loopback that holds its answers back at a place a test chooses, and never says the
same thing twice: who asks again for the same place gets another answer.

It has a strict provider's rules (`minara_llm.wire`) and gives its calls the same ids in each step.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from typing_extensions import override

from minara_core.clock import SystemClock
from minara_core.messages import Message, Role
from minara_llm.model import ModelRequest, ModelText, ModelToolCall
from minara_llm.wire.brain import Answer, AnswerPart
from minara_llm.wire.frames import Ids
from minara_llm.wire.http import Part, Reply, Seen, Step, serving
from minara_llm.wire.models import WireModel
from minara_llm.wire.openai_prompts import chat_view
from minara_llm.wire.provider import Provider
from support.cluster import Port

PIECES = 4
"""In so many deltas an answer says its text."""


class Hold(Enum):
    """Where an answer stands still: before its first byte (until `release`), between two deltas of
    its text, or inside the arguments of its call (until its client leaves)."""

    BEFORE = auto()
    IN_TEXT = auto()
    IN_CALL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A place in a turn, and how often it was asked for: `place` counts the model's messages since
    the person's last one."""

    said: str
    place: int
    attempt: int


@dataclass(slots=True)
class _Held:
    hold: Hold
    is_reached: asyncio.Event = field(default_factory=asyncio.Event)
    is_released: asyncio.Event = field(default_factory=asyncio.Event)


Speak = Callable[[Asked], Answer]


class _Script:
    """Implements Brain."""

    def __init__(self, speak: Speak) -> None:
        self._speak = speak
        self._attempts: Counter[tuple[str, int]] = Counter()
        self.held: dict[tuple[str, int], _Held] = {}
        self.asked: list[Asked] = []

    async def answer(self, request: ModelRequest) -> Answer:
        said, place = _place(request.messages)
        self._attempts[said, place] += 1
        asked = self.last_asked(request)
        self.asked.append(asked)
        held = self.hold_of(asked)
        if held is not None and held.hold is Hold.BEFORE:
            held.is_reached.set()
            await held.is_released.wait()
        return self._speak(asked)

    def last_asked(self, request: ModelRequest) -> Asked:
        """The newest question for the place of this one."""
        said, place = _place(request.messages)
        return Asked(said=said, place=place, attempt=self._attempts[said, place])

    def hold_of(self, asked: Asked) -> _Held | None:
        if asked.attempt > 1:
            return None
        words = asked.said.split()
        found = (
            held
            for (word, place), held in self.held.items()
            if word in words and place == asked.place
        )
        return next(found, None)


class HeldProvider(Provider):
    """`speak` says what it answers."""

    def __init__(self, speak: Speak) -> None:
        self._script = _Script(speak)
        model = WireModel(name="scripted")
        super().__init__(self._script, SystemClock(), models=(model,), is_compatible=True)
        self._ids = _SameIds("held")

    def hold(self, word: str, place: int, hold: Hold) -> None:
        """The first answer at this place of the turn whose message has this word is held there."""
        self._script.held[word, place] = _Held(hold)

    def is_held(self, word: str, place: int) -> bool:
        """Whether it has come to where it is held."""
        return self._script.held[word, place].is_reached.is_set()

    def release(self, word: str, place: int) -> None:
        """Let an answer go that is held before its first byte."""
        self._script.held[word, place].is_released.set()

    def release_all(self) -> None:
        for held in self._script.held.values():
            held.is_released.set()

    @property
    def asked(self) -> Sequence[Asked]:
        """Everything it was asked for, in order."""
        return self._script.asked

    def attempts(self, word: str, place: int) -> int:
        """How often this place of that turn was asked for."""
        return sum(word in one.said.split() and one.place == place for one in self.asked)

    @property
    def complaints(self) -> list[str]:
        """What it refused, as a provider would, and what it could not answer."""
        refused = [each.refusal.message for each in self.exchanges if each.refusal is not None]
        return [*refused, *map(str, self.broken)]

    @override
    async def _reply(self, seen: Seen) -> Reply:
        reply = await super()._reply(seen)
        if seen.method != "POST" or reply.status != 200:
            return reply
        parts = reply.parts
        held = self._script.hold_of(self._script.last_asked(chat_view(seen.json)))
        if held is not None and held.hold is not Hold.BEFORE:
            held.is_reached.set()
            parts = (*_until(held.hold, parts), Step.HOLD)
        # Closed each time: who asks again must not meet a connection that has just been left.
        return replace(reply, parts=parts, headers={**reply.headers, "connection": "close"})


class _SameIds(Ids):
    """The calls of every answer are `call_1`, `call_2`, …"""

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._calls = 0

    @override
    def next(self, prefix: str) -> str:
        if prefix != "call_":
            self._calls = 0
            return super().next(prefix)
        self._calls += 1
        return f"call_{self._calls}"


def saying(text: str, *calls: tuple[str, dict[str, str]]) -> Answer:
    """An answer that says this in pieces and asks for these calls."""
    size = -(-len(text) // PIECES)
    parts: list[AnswerPart] = [
        ModelText(text=text[start : start + size]) for start in range(0, len(text), size)
    ]
    parts += [
        ModelToolCall(name=name, arguments_json=json.dumps(arguments)) for name, arguments in calls
    ]
    return Answer(parts=tuple(parts))


@asynccontextmanager
async def a_held_provider(port: Port, speak: Speak) -> AsyncGenerator[HeldProvider]:
    """Serves at this port while the body runs; `support.model_server.settings_of` names it."""
    provider = HeldProvider(speak)
    listener = port.listener()
    listener.setblocking(False)
    async with serving(provider, listener=listener):
        try:
            yield provider
        finally:
            provider.release_all()


def _place(messages: Sequence[Message]) -> tuple[str, int]:
    """What the person said last, and how many messages of the model stand behind it."""
    said, place = "", 0
    for message in messages:
        if message.role is Role.USER:
            said, place = message.text, 0
        elif message.role is Role.ASSISTANT:
            place += 1
    return said, place


def _until(hold: Hold, parts: Sequence[Part]) -> Sequence[Part]:
    """The opening, half of the text, and for IN_CALL the rest of it and half of the call."""
    if hold is Hold.IN_TEXT:
        return parts[: 1 + PIECES // 2]
    return parts[: 1 + PIECES + 3]
