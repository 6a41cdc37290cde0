"""Live turns of this process: start, wait in line, re-attach, steer, take over.

A turn belongs to its session, not to a socket: it runs as its own task, and a stream only watches.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from minara_core.clock import Clock, pause
from minara_core.errors import (
    Conflict,
    DeadlineExceeded,
    EventsLost,
    MinaraError,
    NotFound,
    Unavailable,
)
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.live_turn import LiveTurn
from minara_orchestrator.app.run_live import LiveRunner, is_left
from minara_orchestrator.app.turn_ports import (
    Claimed,
    EncodeEvent,
    StoredEvent,
    TurnEvents,
    TurnStore,
)
from minara_orchestrator.domain.checkpoint import Past
from minara_orchestrator.domain.turn import (
    DoubleTexting,
    Stop,
    TakeOver,
    Turn,
)

LEFT_AFTER_SECONDS = 0.2
"""How long a turn that nobody may watch any more waits for somebody who comes back."""
MOST_TAKE_OVERS = 3
"""A turn that so many processes have not survived is ended."""
MOST_RETURNS = 20
"""So is one that was left, and came back to the same process, so often."""
HEAR_AGAIN_SECONDS = 0.5


class TurnHub:
    def __init__(
        self,
        *,
        store: TurnStore,
        events: TurnEvents,
        runner: LiveRunner,
        encode: EncodeEvent,
        clock: Clock,
        report_bug: Callable[[BaseException], object],
        take_over: TakeOver = TakeOver.RESUME,
    ) -> None:
        self._store = store
        self._events = events
        self._runner = runner
        self._encode = encode
        self._clock = clock
        self._report_bug = report_bug
        self._take_over = take_over
        self._live: dict[TurnId, LiveTurn] = {}
        self._starting: set[TurnId] = set()
        self._begun: set[TurnId] = set()
        self._recording: set[TurnId] = set()
        self._unheard: set[TurnId] = set()
        self._returns: Counter[TurnId] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._short: set[asyncio.Task[Any]] = set()
        self._is_leaving = False
        self._is_closed = False

    @property
    def live_count(self) -> int:
        """Turns that run here, or wait here for others of their session."""
        return len(self._live)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs here, or waits, or is recorded."""
        return not self._tasks

    @property
    def watcher_count(self) -> int:
        """Streams that watch turns which run here."""
        return sum(live.watchers for live in self._live.values())

    async def start(self, turn: Turn, policy: DoubleTexting = DoubleTexting.ENQUEUE) -> TurnId:
        """Admit the turn and run it; a turn that exists is left as it is. The turn to watch: it, or
        the one that its message was put into.

        Raises NotFound when the turn is another user's, Conflict (TURN_RUNNING) when another turn
        of the session runs and the caller wants none beside it, LimitExceeded when too many wait.
        """
        if self._is_closed:
            raise Unavailable("this process ends", reason=ErrorReason.SHUTTING_DOWN)
        turn_id = turn.context.turn_id
        running = self._live.get(turn_id)
        if running is not None:
            if running.turn.context.user_id != turn.context.user_id:
                raise _unknown_turn(turn_id)
            return turn_id
        admission = asyncio.create_task(self._admit(turn, policy))
        self._short.add(admission)
        admission.add_done_callback(self._short.discard)
        # Whoever asked may leave meanwhile: a turn that was admitted is run.
        return await asyncio.shield(admission)

    async def _admit(self, turn: Turn, policy: DoubleTexting) -> TurnId:
        turn_id = turn.context.turn_id
        self._starting.add(turn_id)
        self._begun.add(turn_id)
        try:
            admission = await self._store.admit(turn, policy)
            if admission.into is not None:
                await self._hear({admission.into})
                return admission.into
            if admission.is_new:
                live = self._enter(turn, Past())
                live.epoch = admission.epoch
                self._spawn(self._leave_after(live, self._runner.run(live, admission.ahead)))
            unheard = self._unheard.intersection({turn_id})
            await self._hear({*admission.stopped, *unheard})
            return turn_id
        finally:
            self._starting.discard(turn_id)
            self._unheard.discard(turn_id)

    async def is_known(self, turn_id: TurnId, user_id: UserId) -> bool:
        """Whether this person has a turn of this id."""
        return turn_id in self._live or await self._store.find(turn_id, user_id) is not None

    async def steer(self, message: Turn, into: TurnId | None) -> TurnId:
        """Put a person's message into a turn, by default the session's live one; that turn.

        Raises NotFound (TURN_NOT_FOUND), Conflict (TURN_OVER), LimitExceeded.
        """
        context = message.context
        if into is None:
            into = await self.live_turn(context.session_id, context.user_id)
        admission = await self._store.steer(message, into)
        await self._hear({into})
        return admission.into or into

    async def cancel(self, turn_id: TurnId, user_id: UserId) -> bool:
        """Ask a turn to stop; whether it was under way. Raises NotFound (TURN_NOT_FOUND)."""
        return await self._stop(turn_id, user_id, Stop.INTERRUPT)

    async def _stop(self, turn_id: TurnId, user_id: UserId, stop: Stop) -> bool:
        asked = await self._store.request_stop(turn_id, user_id, stop)
        if asked is not None:
            await self._hear({asked})
        return asked is not None

    def watcher_left(self, turn_id: TurnId, user_id: UserId) -> None:
        """Somebody who wants the turn only as long as they watch it has left: unless they come
        back, or somebody else watches it here, it is cancelled."""

        async def cancel() -> None:
            await pause(LEFT_AFTER_SECONDS)
            live = self._live.get(turn_id)
            if self._is_leaving or (live is not None and live.watchers):
                return
            with suppress(NotFound):
                await self._stop(turn_id, user_id, Stop.CANCEL)

        self._spawn_short(cancel())

    async def follow(
        self, turn_id: TurnId, user_id: UserId, after: int
    ) -> AsyncGenerator[list[StoredEvent]]:
        """Stored events after `after` to the terminal one, wherever the turn runs.

        Raises NotFound (TURN_NOT_FOUND) when the turn is unknown or another user's, EventsLost when
        its events were kept no longer.
        """
        live = self._live.get(turn_id)
        if live is None or live.turn.context.user_id != user_id:
            found = await self._store.find(turn_id, user_id)
            if found is None:
                raise _unknown_turn(turn_id)
            turn_id = found.into or turn_id
            live = self._live.get(turn_id)
        stream = live.follow(after) if live else self._follow_stored(turn_id, user_id, after)
        async with aclosing(stream) as batches:
            async for batch in batches:
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
        """Go on with the turns that a dead process left, and with those cut off here, each from its
        last checkpoint."""
        self._begun = {*self._live, *self._starting}
        for claimed in await self._store.claim(frozenset(self._begun)):
            turn_id = claimed.turn.context.turn_id
            if turn_id not in self._begun:  # else it began here while the store looked
                self._starting.add(turn_id)
                self._spawn(self._go_on_with(claimed))

    async def _go_on_with(self, claimed: Claimed) -> None:
        turn_id = claimed.turn.context.turn_id
        try:
            past = await self._events.past(turn_id)
            ahead = await self._store.ahead(turn_id)
            live = self._enter(claimed.turn, past)
        finally:
            self._starting.discard(turn_id)
        goes_on = self._take_over is TakeOver.RESUME and not self._has_come_too_often(claimed)
        work = self._runner.run(live, ahead) if goes_on else self._runner.end_cut_off(live)
        await self._leave_after(live, self._heard_first(live, work))

    async def _heard_first(self, live: LiveTurn, work: Coroutine[None, None, None]) -> None:
        """What was asked of the turn before it was here comes first."""
        try:
            await self._hear({live.turn.context.turn_id})
        except MinaraError:
            work.close()
            raise
        await work

    def _has_come_too_often(self, claimed: Claimed) -> bool:
        """Count the turn's coming: whether too many processes have died of it, or it has come back
        to this one too often."""
        turn_id = claimed.turn.context.turn_id
        self._returns[turn_id] += 1
        return claimed.take_overs > MOST_TAKE_OVERS or self._returns[turn_id] > MOST_RETURNS

    async def record_left(self) -> None:
        """Have the workspace record the turns that ended while it did not answer."""
        for turn in await self._store.unrecorded():
            if turn.context.turn_id not in self._recording:
                self._recording.add(turn.context.turn_id)
                self._spawn(self._record(turn))

    async def _record(self, turn: Turn) -> None:
        turn_id = turn.context.turn_id
        try:
            await self._runner.record(turn, await self._events.past(turn_id))
        except (Unavailable, DeadlineExceeded, Conflict):
            return  # it is tried again
        except MinaraError as error:
            self._report_bug(error)  # it never will be
        finally:
            self._recording.discard(turn_id)
        await self._events.forget_checkpoints(turn_id)

    async def recover_forever(self) -> None:
        """Recover now and then, and when another process leaves turns; runs until cancelled."""
        while True:
            await self.recover()
            await self.record_left()
            await self._store.next_left()

    async def steer_forever(self) -> None:
        """Hear what other replicas were asked of turns that run here; runs until cancelled."""
        while True:
            turn_ids = await self._store.next_steered()
            while not await self._has_heard(turn_ids or {*self._live, *self._starting}):
                turn_ids = ()  # words may have come meanwhile
                await pause(HEAR_AGAIN_SECONDS)

    async def _has_heard(self, turn_ids: Collection[TurnId]) -> bool:
        try:
            await self._hear(turn_ids)
        except Unavailable:
            return False
        return True

    async def drain(self, seconds: float) -> None:
        """Let the turns that run here come to their end, watched or not."""
        self._is_leaving = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def aclose(self) -> None:
        """Stop all turns where they are; another process, or the next start, goes on with them."""
        self._is_leaving = self._is_closed = True
        if self._short:
            await asyncio.wait(self._short)
        was_running = bool(self._tasks)
        for task in self._tasks:
            task.cancel()
        for task in list(self._tasks):
            with suppress(asyncio.CancelledError):
                await task
        if was_running:
            with suppress(MinaraError):
                await self._store.leave()

    def _enter(self, turn: Turn, past: Past) -> LiveTurn:
        live = LiveTurn(
            turn, events=self._events, encode=self._encode, clock=self._clock, past=past
        )
        self._live[turn.context.turn_id] = live
        return live

    async def _hear(self, turn_ids: Collection[TurnId]) -> None:
        """Pass on what is asked of those of these turns that run here."""
        self._unheard.update(self._starting.intersection(turn_ids))
        here = [turn_id for turn_id in turn_ids if turn_id in self._live]
        if not here:
            return
        for turn_id, asked in (await self._store.steering(here)).items():
            live = self._live.get(turn_id)
            if live is not None:
                live.steer(asked.stop, asked.interjections)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._keep(work, self._tasks)

    def _spawn_short(self, work: Coroutine[None, None, None]) -> None:
        self._keep(work, self._short)

    def _keep(self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[Any]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)

        def finished(_: asyncio.Task[None]) -> None:
            tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and not is_left(error):
                self._report_bug(error)

        task.add_done_callback(finished)

    async def _leave_after(self, live: LiveTurn, work: Coroutine[None, None, None]) -> None:
        """Forget a turn that no longer runs here; one without its end is recovered later."""
        try:
            await work
        finally:
            self._live.pop(live.turn.context.turn_id, None)
            if live.is_over:
                self._returns.pop(live.turn.context.turn_id, None)
            await live.abandon()

    async def _follow_stored(
        self, turn_id: TurnId, user_id: UserId, after: int
    ) -> AsyncGenerator[list[StoredEvent]]:
        with self._events.watch(turn_id) as stirred:
            while True:
                found = await self._store.find(turn_id, user_id)
                batch = await self._events.events_after(turn_id, after)
                if batch:
                    yield batch
                    after = batch[-1].sequence
                elif found is None or found.is_over:
                    if not await self._events.has_any(turn_id):
                        raise _events_lost(turn_id)
                    return
                else:
                    await stirred()


def _events_lost(turn_id: TurnId) -> EventsLost:
    return EventsLost(
        "the events of this turn are kept no longer; read the turn itself",
        metadata={"turn_id": turn_id},
    )


def _unknown_turn(turn_id: TurnId) -> NotFound:
    return NotFound(
        "no such turn", reason=ErrorReason.TURN_NOT_FOUND, metadata={"turn_id": turn_id}
    )
