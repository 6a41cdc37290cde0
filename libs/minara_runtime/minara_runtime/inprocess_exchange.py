"""One RPC inside this process, shared by its two ends: what went over, and how it ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio

from minara_runtime.limits import MAX_MESSAGE_BYTES

MetadataPairs = tuple[tuple[str, str | bytes], ...]

CANCELLED_BY_CALLER: Final = "Locally cancelled by application!"
_DROPPING: Final = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a call ended; `is_local` when its own caller cancelled it."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: MetadataPairs = ()
    is_local: bool = False


class SlotClosed(Exception):
    """Nobody takes any more."""


class Slot:
    """A queue of one serialized message: the writer waits until the reader took the one before."""

    __slots__ = ("_is_closed", "_loop", "_message", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._message: bytes | None = None
        self._is_closed = False
        self._waiters: list[asyncio.Future[None]] = []

    async def put(self, message: bytes) -> None:
        """Hand one message over. Raises SlotClosed when the reader is gone."""
        while self._message is not None and not self._is_closed:
            await self._changed()
        if self._is_closed:
            raise SlotClosed
        self._message = message
        self._wake()

    async def take(self) -> bytes | None:
        """The next message; None when the slot is closed and empty."""
        while self._message is None and not self._is_closed:
            await self._changed()
        message, self._message = self._message, None
        self._wake()
        return message

    def close(self, *, drop: bool = False) -> None:
        """Take no more; what is held may still be taken unless `drop`."""
        self._is_closed = True
        if drop:
            self._message = None
        self._wake()

    async def _changed(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Exchange:
    """The state of one RPC. Whoever ends it first decides the status; every wait then returns."""

    __slots__ = (
        "_ending_callbacks", "_timer", "_waiters", "deadline", "ending", "initial_metadata", "loop",
        "metadata", "method", "requests", "response", "responses", "task",
    )  # fmt: skip

    def __init__(
        self,
        *,
        method: str,
        metadata: MetadataPairs,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self.method = method
        self.metadata = metadata
        self.deadline = None if timeout is None else loop.time() + timeout
        self.requests = Slot(loop)
        self.responses = Slot(loop)
        self.response: bytes | None = None
        self.initial_metadata: MetadataPairs | None = None
        self.ending: Ending | None = None
        self.task: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._ending_callbacks: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        if timeout is not None and timeout <= 0:
            self.expire()
        elif self.deadline is not None:
            self._timer = loop.call_at(self.deadline, self.expire)

    def end(self, ending: Ending) -> bool:
        """Settle the status; False when it was settled before."""
        if self.ending is not None:
            return False
        self.ending = ending
        if self._timer is not None:
            self._timer.cancel()
        if self.initial_metadata is None:
            self.initial_metadata = ()
        self.requests.close(drop=True)
        # As over a socket: what was sent before a servicer's error still arrives before it.
        self.responses.close(drop=ending.is_local or ending.code in _DROPPING)
        self._wake()
        callbacks, self._ending_callbacks = self._ending_callbacks, []
        for callback in callbacks:
            callback()
        return True

    def cancel(self) -> bool:
        """The caller goes away: the servicer's task is cancelled with it."""
        ended = self.end(
            Ending(code=grpc.StatusCode.CANCELLED, details=CANCELLED_BY_CALLER, is_local=True)
        )
        return ended and self._stop_servicer()

    def expire(self) -> None:
        """The deadline passed: both ends see it, as over a socket."""
        code = grpc.StatusCode.DEADLINE_EXCEEDED
        if self.end(Ending(code=code, details="Deadline Exceeded")):
            self._stop_servicer()

    def refuse_oversized(self, message: bytes, verb: str) -> bool:
        """End the call when `message` is over the limit; whether it did."""
        if len(message) <= MAX_MESSAGE_BYTES:
            return False
        details = f"{verb} message larger than max ({len(message)} vs. {MAX_MESSAGE_BYTES})"
        self.end(Ending(code=grpc.StatusCode.RESOURCE_EXHAUSTED, details=details))
        self._stop_servicer()
        return True

    def send_initial_metadata(self, metadata: MetadataPairs) -> None:
        if self.initial_metadata is None:
            self.initial_metadata = metadata
            self._wake()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once the call has ended, at once when it has."""
        if self.ending is None:
            self._ending_callbacks.append(callback)
        else:
            callback()

    async def wait_ended(self) -> Ending:
        while self.ending is None:
            await self._changed()
        return self.ending

    async def wait_initial_metadata(self) -> MetadataPairs:
        while self.initial_metadata is None:
            await self._changed()
        return self.initial_metadata

    def time_remaining(self) -> float | None:
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self.loop.time())

    def error(self, ending: Ending) -> grpc.aio.AioRpcError:
        """What a caller of this call gets raised."""
        return grpc.aio.AioRpcError(
            ending.code,
            grpc.aio.Metadata(*(self.initial_metadata or ())),
            grpc.aio.Metadata(*ending.trailing_metadata),
            details=ending.details,
        )

    async def _changed(self) -> None:
        waiter = self.loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _stop_servicer(self) -> bool:
        # A call dropped by the garbage collector may outlive its loop.
        if self.task is not None and not self.loop.is_closed():
            self.task.cancel()
        return True
