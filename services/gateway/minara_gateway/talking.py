"""A person's side of a conversation: lines read, turns shown, messages put in, turns stopped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from minara_core.errors import MinaraError
from minara_core.reasons import ErrorReason
from minara_gateway.client import GatewayClient, StreamedEvent
from minara_gateway.screen import Screen

RESUME_SECONDS = 60.0
"""How long a cut stream is taken up again from its last event on."""
PROMPT = "you> "
_TOO_LATE = frozenset({ErrorReason.TURN_OVER, ErrorReason.TURN_NOT_FOUND})


class StopAskedError(Exception):
    """The person pressed Ctrl-C instead of ending a line."""


class LineSource(Protocol):
    """Where lines come from: the terminal, or a file of them."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees what is shown; only then a typed word can decide."""
        ...

    @property
    def reads_beside(self) -> bool:
        """Whether a line may be read while a turn is shown."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether a line that is being read has something in it."""
        ...

    def read(self, prompt: str) -> Coroutine[Any, Any, str | None]:
        """The next line, or None at the end. Raises StopAskedError."""
        ...


class Talk:
    """Reads from `lines` and shows on `screen`. `obey` does a command that may be given while a
    turn runs; it returns whether it did."""

    def __init__(
        self,
        client: GatewayClient,
        screen: Screen,
        lines: LineSource,
        obey: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._client = client
        self._screen = screen
        self._lines = lines
        self._obey = obey
        self._reading: asyncio.Task[str | None] | None = None
        self._is_at_end = False
        self._was_begun_early = False
        self.is_watching = False
        screen.is_shared = lines.reads_beside

    async def read(self, prompt: str = PROMPT) -> str | None:
        """The next line, or None at the end; empty when the person pressed Ctrl-C."""
        if self._is_at_end:
            return None
        reading, self._reading = self._reading, None
        try:
            return await (reading or self._lines.read(prompt))
        except StopAskedError:
            self._was_begun_early = False
            return ""

    async def say(self, text: str) -> None:
        """Send a message and show its turn; then what came too late for that one.

        It decides a preview only when that stands last on this person's screen, and stood there
        before the first letter was typed.
        """
        question, session_id = self._screen.question, self._screen.session_id
        body: dict[str, Any] = {"message": question.answer(text) if question else text}
        if self._lines.is_terminal and not self._was_begun_early:
            body["shown_action_id"] = self._screen.pending_action_id
        self._was_begun_early = False
        is_whole = await self._send(body, session_id)
        await self.say_late(is_wanted=is_whole)

    async def say_late(self, *, is_wanted: bool) -> None:
        """Send what came too late for a turn as the next message, or only tell it when the person
        wanted no more. It was written before any preview, so it decides none."""
        while self._screen.late:
            late, self._screen.late = self._screen.late, []
            if not is_wanted:
                self._screen.tell("not sent: " + " ".join(late), style="yellow")
                return
            is_wanted = await self._send({"message": "\n".join(late)}, self._screen.session_id)

    async def _send(self, body: dict[str, Any], session_id: str) -> bool:
        full = body | {"surface": "repl", "session_id": session_id}
        return await self.watch(
            self._client.stream("/v1/chat/stream", full, resume_seconds=RESUME_SECONDS)
        )

    async def watch(self, events: AsyncIterator[StreamedEvent]) -> bool:
        """Show a turn; lines typed meanwhile go into it. Ctrl-C stops it, a second one the
        watching.

        Returns whether the person let it come to its own end. Raises MinaraError as the client.
        """
        self._screen.begin()
        watching = asyncio.create_task(self._screen.show_all(events))
        stops = 0
        self.is_watching = True
        try:
            while not watching.done():
                if await self._attend(watching):
                    continue
                stops += 1
                if stops > 1 or not await self._stop():
                    self._screen.tell("stopped watching; the turn goes on", style="yellow")
                    return False
            watching.result()
        finally:
            self.is_watching = False
            self._was_begun_early = self._reading is not None and self._lines.has_begun
            watching.cancel()
            await asyncio.wait([watching])
        return not stops

    async def aclose(self) -> None:
        """Read nothing more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _attend(self, watching: asyncio.Task[None]) -> bool:
        """Wait for the turn or for a line; False when the person wants it to stop."""
        if self._is_at_end or not self._lines.reads_beside:
            try:
                await asyncio.wait([watching])
            except asyncio.CancelledError:  # Ctrl-C where nothing reads keys
                task = asyncio.current_task()
                if self._lines.reads_beside or task is None or task.uncancel() > 0:
                    raise
                return False
            return True
        reading = self._reading or asyncio.create_task(self._lines.read(PROMPT))
        self._reading = reading
        await asyncio.wait([watching, reading], return_when=asyncio.FIRST_COMPLETED)
        if watching.done() or not reading.done():
            return True  # the line is the next message
        self._reading = None
        try:
            line = reading.result()
        except StopAskedError:
            return False
        self._is_at_end = line is None
        if self._is_at_end:
            self._screen.tell("leaving when the turn is over; Ctrl-C stops it")
        if line and line.strip():
            await self._put_in(line.strip())
        return True

    async def _put_in(self, text: str) -> None:
        try:
            if text.startswith("/"):
                if not await self._obey(text):
                    self._screen.tell("not while a turn runs; Ctrl-C stops it", style="red")
            elif not await self._interject(text):
                self._screen.late.append(text)
        except MinaraError as error:
            self._screen.tell(f"{error.reason}: {error.message}", style="red")

    async def _interject(self, text: str) -> bool:
        """Whether the turn that is shown took the message."""
        if not self._screen.live_turn_id:
            return False
        body = {
            "message": text,
            "session_id": self._screen.session_id,
            "turn_id": self._screen.live_turn_id,
            "surface": "repl",
        }
        try:
            answer = await self._client.call("POST", "/v1/chat/interject", body)
        except MinaraError as error:
            if error.reason in _TOO_LATE:
                return False
            raise
        for notice in answer["notices"]:
            self._screen.tell(notice, style="yellow")
        return True

    async def _stop(self) -> bool:
        """Whether the turn that is shown was told to stop."""
        if not self._screen.live_turn_id:
            return False
        try:
            body = {"turn_id": self._screen.live_turn_id}
            await self._client.call("POST", "/v1/chat/interrupt", body)
        except MinaraError as error:
            self._screen.tell(f"{error.reason}: {error.message}", style="red")
            return False
        self._screen.tell("stopping; Ctrl-C again leaves it", style="yellow")
        return True
