"""A client that goes from gateway to gateway until it has its answer, and counts what it met."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, aconnect_sse

from minara_core.clock import SystemClock, pause
from minara_core.ids import IdSource, RandomIds

PATIENCE_SECONDS = 100.0
"""Longer than anything that is promised to end by itself."""
_CONNECT_SECONDS = 2.0
_SILENCE_SECONDS = 20.0
"""A stream says something every 15 s."""
_ANSWER_SECONDS = 35.0
_PAUSE_SECONDS = 0.15
_AWAY = frozenset({503, 504})
TERMINAL = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A turn event as it came."""

    sequence: int
    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class Told:
    """What a client was told of a turn. `refusals` by reason came before the first event, `cuts`
    after it; `pause_seconds` is the longest time without an event."""

    turn_id: str = ""
    session_id: str = ""
    events: list[Event] = field(default_factory=list[Event])
    refusals: Counter[str] = field(default_factory=Counter[str])
    cuts: int = 0
    seconds: float = 0.0
    pause_seconds: float = 0.0
    pause_before: str = ""

    @property
    def end(self) -> str:
        """The terminal event's name, empty when none came."""
        last = self.events[-1].name if self.events else ""
        return last if last in TERMINAL else ""

    @property
    def failure(self) -> str:
        """Why the turn failed; empty when it did not."""
        return str(self.events[-1].fields["reason"]) if self.end == "turn_failed" else ""

    def fields_of(self, name: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.events if event.name == name]

    def faults(self) -> list[str]:
        """What is wrong with how it was told."""
        sequences = [event.sequence for event in self.events]
        ends = [event for event in self.events if event.name in TERMINAL]
        found: list[str] = []
        if sequences != list(range(1, len(sequences) + 1)):
            found.append(f"turn {self.turn_id} was told as {sequences}")
        if len(ends) != 1 or not self.end:
            names = [event.name for event in self.events]
            found.append(f"turn {self.turn_id} ended {len(ends)} times: {names[-5:]}")
        return found


class Refused(AssertionError):
    """A gateway answered with a problem that is no outage."""


class GaveUp(AssertionError):
    """Nobody answered for `PATIENCE_SECONDS`."""


class FailoverClient:
    """Speaks to all gateways in turn, as one person's token. A POST without an answer is repeated
    with its key; a stream that was cut is resumed, on the next gateway. `headers` are what it shows
    of that person."""

    def __init__(
        self, gateways: Sequence[str], token: str, *, first: int = 0, ids: IdSource | None = None
    ) -> None:
        self._clock = SystemClock()
        self._ids = ids or RandomIds()
        self._next = cycle([*gateways[first:], *gateways[:first]])
        self.headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            headers=self.headers,
            timeout=httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
            trust_env=False,
        )
        self.met: Counter[str] = Counter()

    async def ask(
        self,
        message: str,
        *,
        session_id: str = "",
        shown_action_id: str = "",
        told: Told | None = None,
    ) -> Told:
        """A turn, from its start to its terminal event; `told` grows meanwhile. Raises Refused and
        GaveUp."""
        body = {
            "message": message,
            "session_id": session_id,
            "shown_action_id": shown_action_id,
        }
        return await self._follow(told or Told(), body, self._ids.new())

    async def watch(self, turn_id: str) -> Told:
        """All of a turn that was started elsewhere."""
        return await self._follow(Told(turn_id=turn_id), None, "")

    async def call(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """An answer, from whoever gives one. Raises Refused and GaveUp."""
        end = self._clock.monotonic() + PATIENCE_SECONDS
        while self._clock.monotonic() < end:
            try:
                answer = await self._http.request(
                    method, self._url(path), json=body, timeout=_ANSWER_SECONDS
                )
            except httpx.TransportError as error:
                self.met[type(error).__name__] += 1
            else:
                if answer.status_code == 200:
                    return answer.json()
                self.met[_outage(answer)] += 1
            await pause(_PAUSE_SECONDS)
        raise GaveUp(f"{method} {path}: {dict(self.met)}")

    async def once(self, gateway: str, path: str, body: dict[str, Any]) -> httpx.Response:
        """What this gateway answers to one POST, however long that takes."""
        return await self._http.post(f"http://{gateway}{path}", json=body, timeout=PATIENCE_SECONDS)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _follow(self, told: Told, body: dict[str, Any] | None, key: str) -> Told:
        begin = last = self._clock.monotonic()
        while not told.end:
            if self._clock.monotonic() >= last + PATIENCE_SECONDS:
                raise GaveUp(f"turn {told.turn_id}, {len(told.events)} events: {told.refusals}")
            before = len(told.events)
            try:
                async for event in self._attempt(told, body, key):
                    now = self._clock.monotonic()
                    if now - last > told.pause_seconds:
                        told.pause_seconds, told.pause_before = now - last, event.name
                    last = now
                    told.events.append(event)
            except httpx.TransportError as error:
                self._note(told, type(error).__name__)
            if not told.end:
                told.cuts += len(told.events) > before
                await pause(_PAUSE_SECONDS)
        told.seconds = self._clock.monotonic() - begin
        return told

    async def _attempt(
        self, told: Told, body: dict[str, Any] | None, key: str
    ) -> AsyncIterator[Event]:
        """The events of one response."""
        last = told.events[-1].sequence if told.events else 0
        asked_anew = not told.turn_id  # a repeated POST tells the turn from its beginning
        if told.turn_id:
            resumed = self._url(f"/v1/chat/stream/resume?turn_id={told.turn_id}&after={last}")
            asked = aconnect_sse(self._http, "GET", resumed)
        else:
            headers = {"Idempotency-Key": key}
            asked = aconnect_sse(
                self._http, "POST", self._url("/v1/chat/stream"), json=body, headers=headers
            )
        async with asked as source:
            if source.response.status_code != 200:
                await source.response.aread()
                self._note(told, _outage(source.response))
                return
            async for message in source.aiter_sse():
                if message.event == "stream_ended":
                    hint = httpx.URL(json.loads(message.data)["resume"])
                    told.turn_id = hint.params.get("turn_id", told.turn_id)
                    return
                if not message.data:
                    continue
                event = _event(message)
                told.turn_id = str(event.fields.get("turn_id") or told.turn_id)
                told.session_id = str(event.fields.get("session_id") or told.session_id)
                if not (asked_anew and event.sequence <= last):
                    yield event

    def _note(self, told: Told, what: str) -> None:
        self.met[what] += 1
        if not told.events:
            told.refusals[what] += 1

    def _url(self, path: str) -> str:
        return f"http://{next(self._next)}{path}"


def _event(message: ServerSentEvent) -> Event:
    document: dict[str, Any] = json.loads(message.data)
    fields: dict[str, Any] = document.get(message.event, {})
    return Event(sequence=int(message.id), name=message.event, fields=fields)


def _outage(answer: httpx.Response) -> str:
    """The reason in a problem document that says "not now". Raises Refused for any other."""
    kind = answer.headers.get("content-type", "")
    reason = str(answer.json().get("reason", "")) if "problem+json" in kind else ""
    if answer.status_code not in _AWAY or not reason:
        raise Refused(f"HTTP {answer.status_code}: {answer.text[:500]}")
    return reason
