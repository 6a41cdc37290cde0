"""Group commit: what arrives while one batch is written goes into the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Hands items to `flush` in the order they came, one batch at a time, never concurrently.

    `flush` returns when the batch is durable. A batch is what came in the same turn of the loop or
    while the one before was written, at most `max_batch` items.
    """

    def __init__(
        self, flush: Callable[[list[T]], Awaitable[None]], *, max_batch: int = 500
    ) -> None:
        self._flush = flush
        self._max_batch = max_batch
        self._waiting: list[tuple[T, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._closing = False

    async def put(self, item: T) -> None:
        """Return when the item is durable; what `flush` raises goes to everybody in its batch.

        A caller that is cancelled does not take its item back. Raises Unavailable
        (`SHUTTING_DOWN`) after `aclose`.
        """
        if self._closing:
            raise Unavailable("this writer is closed", reason=ErrorReason.SHUTTING_DOWN)
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, durable))
        if self._writing is None:
            self._start()
        await durable

    async def aclose(self) -> None:
        """Refuse further items and write out those that wait."""
        self._closing = True
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def _start(self) -> None:
        batch: list[asyncio.Future[None]] = []
        self._writing = asyncio.create_task(self._write(batch))
        self._writing.add_done_callback(lambda task: self._finish(task, batch))

    async def _write(self, batch: list[asyncio.Future[None]]) -> None:
        taken = self._waiting[: self._max_batch]
        del self._waiting[: len(taken)]
        batch.extend(durable for _, durable in taken)
        await self._flush([item for item, _ in taken])

    def _finish(self, task: asyncio.Task[None], batch: list[asyncio.Future[None]]) -> None:
        error = _failure(task)
        for durable in batch:
            if durable.done():
                continue
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)
        self._writing = None
        if self._waiting:
            self._start()


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():
        return Unavailable("this writer was stopped", reason=ErrorReason.SHUTTING_DOWN)
    return task.exception()
