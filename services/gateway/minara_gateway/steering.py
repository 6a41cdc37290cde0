"""Steering a turn that runs: a message put into it, and a stop."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.clock import pause
from minara_core.errors import MinaraError, NotFound, Unavailable
from minara_core.input_scan import scan
from minara_core.script import locale_of
from minara_core.taxonomy import Origin
from minara_gateway.known_sessions import KnownSessions
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.store import Caller, GatewayStore
from minara_gateway.turns import RunningTurn, Turns
from minara_runtime.logging import get_logger

STOP_TRIES = 3
STOP_PAUSE_SECONDS = 0.2
"""A turn that was left may only just be on its way to the orchestrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interjection:
    """A message for a turn that runs, validated in form. Without `turn_id` it is for the session's
    live turn."""

    message: str
    message_id: str
    session_id: str
    origin: Origin
    turn_id: str = ""
    idempotency_key: str = ""
    body_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interjected:
    """Where an interjection went, and what the person should know of it."""

    turn_id: str
    notices: tuple[str, ...]


class Steering:
    def __init__(
        self,
        *,
        peers: Peers,
        grants: GrantDesk,
        store: GatewayStore,
        sessions: KnownSessions,
        turns: Turns,
    ) -> None:
        self._peers = peers
        self._grants = grants
        self._store = store
        self._sessions = sessions
        self._turns = turns
        self._stopping: set[asyncio.Task[None]] = set()
        self._log = get_logger("gateway/steering")

    async def interject(self, caller: Caller, ask: Interjection) -> Interjected:
        """Put a message into a turn that runs. Whatever it says, it is text and decides nothing.

        Raises InvalidRequest or TooLarge for the message, NotFound for the session
        (SESSION_NOT_FOUND) or when no such turn runs (TURN_NOT_FOUND), Conflict when it takes no
        more messages (TURN_OVER) or when the key came with another body before.
        """
        scanned = scan(ask.message)
        await self._sessions.check(caller, ask.session_id)
        if ask.idempotency_key:
            await self._store.claim_key(caller.user_id, ask.idempotency_key, ask.body_hash)
        context = self._grants.turn(
            caller,
            turn_id=ask.message_id,
            session_id=ask.session_id,
            origin=ask.origin,
            locale=locale_of(scanned.text),
            message=scanned.text,
        )
        response = await self._peers.agent.SteerTurn(
            agent_pb.SteerTurnRequest(context=context, turn_id=ask.turn_id, text=scanned.text),
            timeout=READ_SECONDS,
        )
        return Interjected(turn_id=response.turn_id, notices=scanned.notices)

    async def interrupt(
        self, caller: Caller, *, turn_id: str = "", session_id: str = ""
    ) -> agent_pb.CancelTurnResponse:
        """Stop a turn, or the session's live one. Raises NotFound (SESSION_NOT_FOUND or
        TURN_NOT_FOUND)."""
        if session_id:
            await self._sessions.check(caller, session_id)
        return await self._peers.agent.CancelTurn(
            agent_pb.CancelTurnRequest(
                context=self._grants.watch(caller, turn_id=turn_id, session_id=session_id)
            ),
            timeout=READ_SECONDS,
        )

    def leave(self, caller: Caller, turn: RunningTurn) -> None:
        """A client has stopped watching: stop the turn if that was its wish and nobody else watches
        it here. Only who serves the client can tell its going from a gateway's own."""
        is_wanted = turn.ends_when_left and not turn.is_over
        if is_wanted and not self._turns.is_watched_besides(turn):
            self._spawn(self._stop(caller, turn.turn_id))

    async def aclose(self) -> None:
        """Wait for the stops still on their way."""
        if self._stopping:
            await asyncio.wait(self._stopping)

    async def _stop(self, caller: Caller, turn_id: str) -> None:
        for left in reversed(range(STOP_TRIES)):
            try:
                await self.interrupt(caller, turn_id=turn_id)
                return
            except MinaraError as error:
                if not left or not isinstance(error, NotFound | Unavailable):
                    self._log.warning("left_turn_not_stopped", turn_id=turn_id, reason=error.reason)
                    return
            await pause(STOP_PAUSE_SECONDS)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
