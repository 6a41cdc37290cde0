"""A turn as a response: a stream of its events, or its reply; and what a client's leaving means."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.errors import Cancelled, MinaraError
from minara_gateway.outgoing import Outgoing
from minara_gateway.reply import reply_of
from minara_gateway.sse import HEARTBEAT, HEARTBEAT_SECONDS, OPENING, frame, resume_hint
from minara_gateway.steering import Steering
from minara_gateway.store import Caller
from minara_gateway.turns import RunningTurn

_MEDIA_TYPE = "text/event-stream"


async def stream_of(request: Request, caller: Caller, turn: RunningTurn) -> StreamingResponse:
    """A response whose status is known: the first event is there before the 200 is sent."""
    leaving: asyncio.Event = request.app.state.leaving
    steering: Steering = request.app.state.steering
    try:
        first = await anext(turn.events)
    except StopAsyncIteration:
        return StreamingResponse(iter([OPENING]), media_type=_MEDIA_TYPE)

    def leave() -> None:
        if not leaving.is_set():
            steering.leave(caller, turn)

    return _Watched(turn, _frames(first, turn, leaving), leave)


async def reply_unless_left(request: Request, caller: Caller, turn: RunningTurn) -> dict[str, Any]:
    """The turn's JSON reply. When a client that wants its turn to end with it has left, that is
    seen at once. Raises as `reply_of`, and Cancelled to nobody."""
    if not turn.ends_when_left:
        return await reply_of(turn)
    steering: Steering = request.app.state.steering
    reply = asyncio.create_task(reply_of(turn))
    left = asyncio.create_task(_left(request))
    try:
        await asyncio.wait([reply, left], return_when=asyncio.FIRST_COMPLETED)
        if reply.done():
            return reply.result()
        steering.leave(caller, turn)
        raise Cancelled("the client has left")
    finally:
        reply.cancel()
        left.cancel()
        await asyncio.wait([reply, left])


async def _left(request: Request) -> None:
    """Until the client has hung up. Its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Watched(StreamingResponse):
    """A stream that tells when its client has left it before its end, and then holds nothing."""

    def __init__(
        self, turn: RunningTurn, frames: AsyncGenerator[bytes], leave: Callable[[], None]
    ) -> None:
        super().__init__(frames, media_type=_MEDIA_TYPE)
        self._turn = turn
        self._frames = frames
        self._leave = leave
        self._has_ended = False

    @override
    async def stream_response(self, send: Send) -> None:
        await super().stream_response(send)
        self._has_ended = True

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._has_ended:
                self._leave()
            # A client may leave before the first frame is asked for: then nobody else ends these.
            await self._frames.aclose()
            await self._turn.events.aclose()


async def _frames(
    first: event_pb.TurnEvent, turn: RunningTurn, leaving: asyncio.Event
) -> AsyncGenerator[bytes]:
    """Frames of a turn to its end, or to a hint where to resume it when this gateway leaves."""
    outgoing = Outgoing(first.sequence)
    async with aclosing(turn.events):
        filling = asyncio.create_task(outgoing.fill(turn.events))
        left = asyncio.create_task(leaving.wait())
        filling.add_done_callback(outgoing.stir)
        left.add_done_callback(outgoing.stir)
        try:
            yield OPENING + frame(first)
            while True:
                is_over = filling.done()
                is_last = is_over or left.done()
                if not is_last:
                    await outgoing.wait(HEARTBEAT_SECONDS)
                ready = outgoing.take()
                if ready:
                    yield ready
                elif is_last:
                    break
                elif not (filling.done() or left.done()):
                    yield HEARTBEAT
            # A stream that ends without a terminal event was cut: the client resumes.
            if not is_over or _was_cut(filling):
                turn_id = turn.turn_id if turn.is_named else ""
                yield resume_hint(turn_id, turn.session_id, outgoing.taken)
        finally:
            outgoing.close()
            filling.cancel()
            left.cancel()
            await asyncio.wait([filling, left])


def _was_cut(filling: asyncio.Task[None]) -> bool:
    """Whether a turn's events ended in an error of ours. Raises any other."""
    error = filling.exception()
    if error is not None and not isinstance(error, MinaraError):
        raise error
    return error is not None
