"""Live turns of this process: start, queue behind the session's writer, re-attach, recover.

A turn belongs to its session, not to a socket: it runs as its own task, and a stream only watches.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace

from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError, NotFound
from minara_core.events import TurnCompleted, TurnFailed, TurnQueued
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.live_turn import LiveTurn
from minara_orchestrator.app.ports import (
    EncodeEvent,
    SessionWriters,
    StoredEvent,
    TurnLoop,
    TurnStore,
    Workspace,
)
from minara_orchestrator.domain.turn import Turn, TurnRecord, TurnState

QUEUE_POLL_SECONDS = 0.05
RECOVER_EVERY_SECONDS = 5.0


class TurnHub:
    def __init__(
        self,
        *,
        store: TurnStore,
        writers: SessionWriters,
        runner: TurnLoop,
        workspace: Workspace,
        encode: EncodeEvent,
        clock: Clock,
        report_bug: Callable[[BaseException], object],
    ) -> None:
        self._store = store
        self._writers = writers
        self._runner = runner
        self._workspace = workspace
        self._encode = encode
        self._clock = clock
        self._report_bug = report_bug
        self._live: dict[TurnId, LiveTurn] = {}
        self._starting: set[TurnId] = set()
        self._begun: set[TurnId] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._admissions: set[asyncio.Task[None]] = set()

    @property
    def live_count(self) -> int:
        """Turns that run here, or wait here for others of their session."""
        return len(self._live)

    async def start(self, turn: Turn, *, rejects_double_texting: bool) -> None:
        """Admit the turn and run it; a turn that exists is left as it is.

        Raises NotFound when the turn is another user's, Conflict (TURN_RUNNING) when another turn
        of the session runs and the caller wants none beside it.
        """
        turn_id = turn.context.turn_id
        running = self._live.get(turn_id)
        if running is not None:
            if running.turn.context.user_id != turn.context.user_id:
                raise _unknown_turn(turn_id)
            return
        admission = asyncio.create_task(self._admit(turn, alone=rejects_double_texting))
        self._admissions.add(admission)
        admission.add_done_callback(self._admissions.discard)
        # Whoever asked may leave meanwhile: a turn that was admitted is run.
        await asyncio.shield(admission)

    async def _admit(self, turn: Turn, *, alone: bool) -> None:
        turn_id = turn.context.turn_id
        self._starting.add(turn_id)
        self._begun.add(turn_id)
        try:
            admission = await self._store.admit(turn, alone=alone)
            if admission.is_new:
                live = LiveTurn(turn, store=self._store, encode=self._encode, clock=self._clock)
                self._live[turn_id] = live
                self._spawn(self._run(live, admission.ahead))
        finally:
            self._starting.discard(turn_id)

    async def follow(
        self, turn_id: TurnId, user_id: UserId, after: int
    ) -> AsyncIterator[list[StoredEvent]]:
        """Stored events after `after` to the terminal one, wherever the turn runs.

        Raises NotFound (TURN_NOT_FOUND) when the turn is unknown or another user's.
        """
        live = self._live.get(turn_id)
        if live is not None and live.turn.context.user_id == user_id:
            async for batch in live.follow(after):
                yield batch
            return
        if await self._store.find(turn_id, user_id) is None:
            raise _unknown_turn(turn_id)
        async for batch in self._follow_stored(turn_id, user_id, after):
            yield batch

    async def live_turn(self, session_id: SessionId, user_id: UserId) -> TurnId:
        """The session's running turn; raises NotFound when none runs."""
        turn_id = await self._store.live_turn(session_id, user_id)
        if turn_id is None:
            raise NotFound(
                "no turn runs in this session",
                reason=ErrorReason.TURN_NOT_FOUND,
                metadata={"session_id": session_id},
            )
        return turn_id

    async def recover(self) -> None:
        """End the turns that a dead process left, and those cut off here, without running anything
        again. What the workspace recorded stands: a turn that was committed is told as completed.
        """
        self._begun = {*self._live, *self._starting}
        for turn in await self._store.claim(frozenset(self._begun)):
            if turn.context.turn_id in self._begun:
                continue  # it began here while the store looked, and has an end of its own
            last = await self._store.last_sequence(turn.context.turn_id)
            live = LiveTurn(
                turn,
                store=self._store,
                encode=self._encode,
                clock=self._clock,
                last_sequence=last,
            )
            self._live[turn.context.turn_id] = live
            self._spawn(self._end_interrupted(live))

    async def recover_forever(self) -> None:
        """Recover now and then; runs until cancelled."""
        while True:
            await self.recover()
            await pause(RECOVER_EVERY_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Let the turns that run here come to their end, watched or not."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def aclose(self) -> None:
        """Stop all turns where they are; the next start recovers them."""
        if self._admissions:
            await asyncio.wait(self._admissions)
        for task in self._tasks:
            task.cancel()
        for task in list(self._tasks):
            with suppress(asyncio.CancelledError):
                await task

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._report_bug(error)

    async def _run(self, live: LiveTurn, ahead: int) -> None:
        if ahead:
            live.emit(TurnQueued(position=ahead))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(live.pump())
                group.create_task(self._run_in_line(live, ahead))
        finally:
            await self._leave(live)

    async def _run_in_line(self, live: LiveTurn, ahead: int) -> None:
        """Wait for the turns admitted before it, wherever they run; then it is this one's time."""
        while ahead:
            await pause(QUEUE_POLL_SECONDS)
            ahead = await self._store.ahead(live.turn.context.turn_id)
        await self._run_as_writer(live)

    async def _leave(self, live: LiveTurn) -> None:
        """Forget a turn that no longer runs here; one without its end is recovered later."""
        self._live.pop(live.turn.context.turn_id, None)
        await live.abandon()

    async def _run_as_writer(self, live: LiveTurn) -> None:
        turn = live.turn
        try:
            async with self._writers.hold(turn.context.session_id) as epoch:
                context = replace(turn.context, session_epoch=epoch)
                await self._runner.run(replace(turn, context=context), live.emit)
                # The session's next turn begins once this one's end is stored and told.
                await live.ended()
        except MinaraError as error:
            live.emit(TurnFailed(reason=error.reason, message=error.message))

    async def _end_interrupted(self, live: LiveTurn) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(live.pump())
                group.create_task(self._tell_end(live))
        finally:
            await self._leave(live)

    async def _tell_end(self, live: LiveTurn) -> None:
        message = "the process that ran this turn ended; what it recorded is kept"
        try:
            async with self._writers.hold(live.turn.context.session_id) as epoch:
                context = replace(live.turn.context, session_epoch=epoch)
                turn = replace(live.turn, context=context)
                committed = await self._workspace.commit(TurnRecord.of_interrupted(turn))
        except MinaraError as error:
            live.emit(TurnFailed(reason=error.reason, message=message))
            return
        if committed.state is TurnState.COMPLETED and committed.finish_reason is not None:
            live.emit(TurnCompleted(finish_reason=committed.finish_reason, usage=committed.usage))
        else:
            live.emit(TurnFailed(reason=ErrorReason.SHUTTING_DOWN, message=message))

    async def _follow_stored(
        self, turn_id: TurnId, user_id: UserId, after: int
    ) -> AsyncIterator[list[StoredEvent]]:
        with self._store.watch(turn_id) as stirred:
            while True:
                found = await self._store.find(turn_id, user_id)
                batch = await self._store.events_after(turn_id, after)
                if batch:
                    yield batch
                    after = batch[-1].sequence
                elif found is None or found.is_over:
                    return
                else:
                    await stirred()


def _unknown_turn(turn_id: TurnId) -> NotFound:
    return NotFound(
        "no such turn", reason=ErrorReason.TURN_NOT_FOUND, metadata={"turn_id": turn_id}
    )
