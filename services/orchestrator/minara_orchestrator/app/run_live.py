"""One live turn from its place in the queue to its end, under the lease of its session."""

import asyncio
from dataclasses import replace
from typing import cast

from minara_core.clock import pause
from minara_core.errors import DeadlineExceeded, MinaraError, Unavailable
from minara_core.events import TurnCancelled, TurnCompleted, TurnFailed, TurnQueued
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.live_turn import LiveTurn
from minara_orchestrator.app.ports import Workspace
from minara_orchestrator.app.turn_ports import SessionWriters, Steering, TurnLoop, TurnStore
from minara_orchestrator.domain.checkpoint import Past
from minara_orchestrator.domain.turn import ELSEWHERE, Turn, TurnRecord, TurnState

QUEUE_POLL_SECONDS = 0.05


class LiveRunner:
    """Both its methods return when the turn's terminal event is delivered.

    They raise Conflict (LEASE_LOST, EPOCH_STALE), perhaps in a group, when another process has the
    turn or its session now, and Unavailable when the database was away for too long.
    """

    def __init__(
        self, *, store: TurnStore, writers: SessionWriters, loop: TurnLoop, workspace: Workspace
    ) -> None:
        self._store = store
        self._writers = writers
        self._loop = loop
        self._workspace = workspace

    async def run(self, live: LiveTurn, ahead: int) -> None:
        """Run a turn, or what is left of it, once the turns `ahead` of it are over."""
        if ahead and live.past.is_new:
            context = live.turn.context
            live.emit(
                TurnQueued(position=ahead, turn_id=context.turn_id, session_id=context.session_id)
            )
        async with asyncio.TaskGroup() as group:
            group.create_task(live.pump())
            group.create_task(self._run_in_line(live, ahead))

    async def _run_in_line(self, live: LiveTurn, ahead: int) -> None:
        """Wait for the turns admitted before it, wherever they run; then it is this one's time."""
        turn_id = live.turn.context.turn_id
        has_waited = bool(ahead)
        while ahead and live.stop.requested is None:
            await pause(QUEUE_POLL_SECONDS)
            ahead = await self._store.ahead(turn_id)
        if has_waited:
            # What stopped the turns before it may have stopped this one too, a moment ago.
            asked = (await self._store.steering([turn_id])).get(turn_id, Steering())
            live.steer(asked.stop, asked.interjections)
        if live.stop.requested is None or live.past.told.has_started:
            await self._in_turn(live, ahead)
        else:
            live.emit(TurnCancelled(reason="withdrawn before it began"))

    async def _in_turn(self, live: LiveTurn, ahead: int) -> None:
        """A turn that had begun elsewhere before it was stopped comes to its end in its place."""
        while ahead:
            await pause(QUEUE_POLL_SECONDS)
            ahead = await self._store.ahead(live.turn.context.turn_id)
        await self._run_as_writer(live)

    async def _run_as_writer(self, live: LiveTurn) -> None:
        turn = live.turn
        try:
            async with self._writers.hold(turn.context.session_id, taken=live.epoch) as held:
                live.epoch = held.epoch
                context = replace(turn.context, session_epoch=held.epoch)
                await self._loop.run(replace(turn, context=context), live)
                # The session's next turn begins once this one's end is stored and told.
                await live.ended()
                held.was_given_up = True
        finally:
            live.epoch = 0

    async def end_cut_off(self, live: LiveTurn) -> None:
        """End a turn that nobody goes on with."""
        async with asyncio.TaskGroup() as group:
            group.create_task(live.pump())
            group.create_task(self._tell_end(live))

    async def record(self, turn: Turn, past: Past) -> None:
        """Record a turn that ended while the workspace did not answer; raises MinaraError when it
        still does not."""
        async with self._writers.hold(turn.context.session_id) as held:
            turn = replace(turn, context=replace(turn.context, session_epoch=held.epoch))
            record = TurnRecord.of_cut_off(turn, past, ErrorReason.NOT_RECORDED)
            await self._workspace.commit(record)

    async def _tell_end(self, live: LiveTurn) -> None:
        """What the workspace recorded stands: a turn that was committed is told as completed."""
        message = "the process that ran this turn ended; what it recorded is kept"
        try:
            async with self._writers.hold(live.turn.context.session_id) as held:
                context = replace(live.turn.context, session_epoch=held.epoch)
                turn = replace(live.turn, context=context)
                committed = await self._workspace.commit(TurnRecord.of_cut_off(turn, live.past))
        except (Unavailable, DeadlineExceeded):
            # What is not recorded is kept, and recorded later.
            live.emit(TurnFailed(reason=ErrorReason.NOT_RECORDED, message=message))
            return
        except MinaraError as error:
            live.emit(TurnFailed(reason=error.reason, message=message))
            return
        if committed.state is TurnState.COMPLETED and committed.finish_reason is not None:
            live.emit(TurnCompleted(finish_reason=committed.finish_reason, usage=committed.usage))
        else:
            live.emit(TurnFailed(reason=ErrorReason.SHUTTING_DOWN, message=message))


def is_left(error: BaseException) -> bool:
    """Whether a turn was left here for whoever claims it next: another process has it, or the
    database was away for too long."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_left(each) for each in group.exceptions)
    is_elsewhere = isinstance(error, MinaraError) and error.reason in ELSEWHERE
    return is_elsewhere or isinstance(error, Unavailable)
