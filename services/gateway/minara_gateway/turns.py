"""From a person's message to a stream of events: scan, sign, run, and show only what is stored."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.actions import PendingAction
from minara_core.clock import pause
from minara_core.errors import MinaraError, Unavailable
from minara_core.goals import GOAL_TURN_TEXT
from minara_core.ids import turn_id_for
from minara_core.input_scan import scan
from minara_core.lexicon import typed_decision
from minara_core.script import locale_of
from minara_core.taxonomy import Origin
from minara_gateway.confirmation import Confirmations
from minara_gateway.known_sessions import KnownSessions
from minara_gateway.peers import GOAL_TOOL_SETS, READ_SECONDS, GrantDesk, Peers
from minara_gateway.rendering import render_undecided
from minara_gateway.showing import Showing
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.logging import get_logger

TAKE_OVER_SECONDS = 45.0
"""How long a turn that went silent may take to be found ended, or gone on with, elsewhere: its
process's lease, its session's lease, and the next look at what was left."""
RE_ATTACH_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client asks for, already validated in form."""

    message: str
    session_id: str
    turn_id: str
    new_session_id: str
    origin: Origin
    idempotency_key: str = ""
    body_hash: str = ""
    shown_action_id: str = ""
    file_keys: tuple[str, ...] = ()
    double_texting: agent_pb.DoubleTexting.ValueType = agent_pb.DOUBLE_TEXTING_UNSPECIFIED
    ends_when_left: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class RunningTurn:
    """A turn under way, as one client watches it. `events` ends with its terminal event, or raises.

    `turn_id` is what the client asked for until the turn says its own name: a message may have gone
    into a turn that ran already. `is_named` tells whether it is known to be the turn's.
    `ends_when_left` is the client's wish that the turn end when it stops watching.
    """

    turn_id: str
    session_id: str
    is_named: bool = True
    ends_when_left: bool = False
    is_over: bool = False
    events: AsyncGenerator[event_pb.TurnEvent] = field(init=False)

    def name(self, started: event_pb.TurnStarted) -> None:
        """Take the turn's own word for what the client did not name."""
        if not self.is_named and started.turn_id:
            self.turn_id, self.is_named = started.turn_id, True
        self.session_id = self.session_id or started.session_id


class Turns:
    def __init__(
        self,
        *,
        peers: Peers,
        grants: GrantDesk,
        confirmations: Confirmations,
        store: GatewayStore,
        sessions: KnownSessions,
    ) -> None:
        self._peers = peers
        self._grants = grants
        self._confirmations = confirmations
        self._store = store
        self._sessions = sessions
        self._closing: set[asyncio.Task[None]] = set()
        self._watched: set[RunningTurn] = set()
        self._log = get_logger("gateway/turns")

    async def start(self, caller: Caller, ask: Ask) -> RunningTurn:
        """Start the turn a message asks for, or the one that tells what a typed word decided.

        Raises InvalidRequest or TooLarge for the message, NotFound for the session; nothing is
        stored then, and the idempotency key is still free. Raises Conflict when the key came with
        another body before.
        """
        scanned = scan(ask.message)
        session_id = await self._session(caller, ask)
        is_new = not ask.idempotency_key or await self._store.claim_key(
            caller.user_id, ask.idempotency_key, ask.body_hash
        )
        typed = await self._confirmations.typed(
            caller,
            text=scanned.text,
            session_id=ask.session_id,
            shown_action_id=ask.shown_action_id,
        )
        if typed is not None:
            action = await self._confirmations.decide(
                caller, typed.action.pending_action_id, typed.action.action_hash, typed.decision
            )
            return self.tell_decision(caller, action, language=locale_of(scanned.text))
        language = locale_of(scanned.text)
        decided = (
            None
            if is_new
            else await self._confirmations.decided(
                caller,
                text=scanned.text,
                session_id=ask.session_id,
                shown_action_id=ask.shown_action_id,
                turn_id=ask.turn_id,
            )
        )
        if decided is not None:
            return self.tell_decision(caller, decided, language=language)
        hints = await self._undecided(caller, scanned.text, ask.shown_action_id, language)
        notices = (*scanned.notices, *hints)
        context = self._grants.turn(
            caller,
            turn_id=ask.turn_id,
            session_id=session_id,
            origin=ask.origin,
            locale=language,
            message=scanned.text,
        )
        request = agent_pb.RunTurnRequest(
            context=context,
            user_message=agent_pb.UserMessage(text=scanned.text, file_keys=ask.file_keys),
            double_texting=ask.double_texting,
        )
        turn = RunningTurn(
            turn_id=ask.turn_id,
            session_id=session_id,
            is_named=ask.double_texting != agent_pb.DOUBLE_TEXTING_INTERJECT,
            ends_when_left=ask.ends_when_left,
        )
        turn.events = self._run(caller, turn, request, language, notices)
        return turn

    async def work_on_goal(self, caller: Caller, ask: Ask) -> RunningTurn:
        """Start a turn that works on the standing goal of `ask.session_id`. Nobody's words start
        it, so it decides nothing and moves no money.

        The orchestrator's refusals come with the first event. Raises NotFound and Conflict as
        `start`.
        """
        await self._sessions.check(caller, ask.session_id)
        if ask.idempotency_key:
            await self._store.claim_key(caller.user_id, ask.idempotency_key, ask.body_hash)
        language = locale_of(ask.message)
        context = self._grants.turn(
            caller,
            turn_id=ask.turn_id,
            session_id=ask.session_id,
            origin=Origin.GOAL,
            locale=language,
            message=GOAL_TURN_TEXT,
            tool_sets=GOAL_TOOL_SETS,
        )
        request = agent_pb.RunTurnRequest(
            context=context,
            trigger=agent_pb.Trigger(text=GOAL_TURN_TEXT),
            double_texting=ask.double_texting,
        )
        turn = RunningTurn(
            turn_id=ask.turn_id, session_id=ask.session_id, ends_when_left=ask.ends_when_left
        )
        turn.events = self._run(caller, turn, request, language)
        return turn

    async def _undecided(
        self, caller: Caller, text: str, shown_action_id: str, language: str
    ) -> tuple[str, ...]:
        """A word to the person whose typed answer did not decide the preview they see."""
        if not shown_action_id or typed_decision(text) is None:
            return ()
        waiting = [
            action
            for action in await self._confirmations.pending(caller)
            if action.pending_action_id == shown_action_id
        ]
        return tuple(
            render_undecided(code=self._confirmations.code(action), language=language)
            for action in waiting
        )

    def tell_decision(self, caller: Caller, action: PendingAction, *, language: str) -> RunningTurn:
        """The turn that tells what a person decided, in the session the action was made in.

        It is the same turn however often the decision is repeated.
        """
        turn_id = turn_id_for(caller.user_id, f"decision:{action.pending_action_id}")
        context = self._grants.turn(
            caller,
            turn_id=turn_id,
            session_id=action.session_id,
            origin=Origin.HTTP,
            locale=language,
            message=None,
        )
        request = agent_pb.RunTurnRequest(
            context=context,
            decided_action=agent_pb.DecidedAction(pending_action_id=action.pending_action_id),
        )
        turn = RunningTurn(turn_id=turn_id, session_id=action.session_id)
        turn.events = self._run(caller, turn, request, language)
        return turn

    def attach(
        self, caller: Caller, *, turn_id: str, session_id: str, after: int, language: str
    ) -> RunningTurn:
        """Watch a turn that exists: events after `after`, or the session's live turn."""
        turn = RunningTurn(turn_id=turn_id, session_id=session_id, is_named=bool(turn_id))
        request = self._attachment(caller, turn, after)
        turn.events = self._run(caller, turn, request, language)
        return turn

    def is_watched_besides(self, turn: RunningTurn) -> bool:
        """Whether somebody else watches the same turn through this gateway."""
        return any(
            other is not turn and other.turn_id == turn.turn_id and other.is_named
            for other in self._watched
        )

    async def render_prompt(self, caller: Caller, ask: Ask) -> agent_pb.RenderPromptResponse:
        """The prompt a message would produce. Raises as `start`."""
        text = scan(ask.message).text
        session_id = await self._session(caller, ask)
        context = self._grants.turn(
            caller,
            turn_id=ask.turn_id,
            session_id=session_id,
            origin=ask.origin,
            locale=locale_of(text),
            message=text,
        )
        return await self._peers.agent.RenderPrompt(
            agent_pb.RenderPromptRequest(context=context, text=text), timeout=READ_SECONDS
        )

    async def aclose(self) -> None:
        """Wait for the closing notes still on their way."""
        if self._closing:
            await asyncio.wait(self._closing)

    async def _session(self, caller: Caller, ask: Ask) -> str:
        if ask.session_id:
            await self._sessions.check(caller, ask.session_id)
            return ask.session_id
        await self._sessions.begin(caller, ask.new_session_id)
        return ask.new_session_id

    async def _run(
        self,
        caller: Caller,
        turn: RunningTurn,
        request: agent_pb.RunTurnRequest,
        language: str,
        notices: tuple[str, ...] = (),
    ) -> AsyncGenerator[event_pb.TurnEvent]:
        showing = Showing(self._confirmations, self._store, caller, language=language)
        context = request.context
        self._watched.add(turn)
        try:
            async with aclosing(self._responses(caller, turn, request)) as responses:
                async for response in responses:
                    for event in response.events:
                        await showing.show(event)
                        if event.WhichOneof("event") == "turn_started":
                            turn.name(event.turn_started)
                            event.turn_started.notices.extend(notices)
                            notices = ()  # a take-over begins the same turn again
                        turn.is_over = event.WhichOneof("event") in _TERMINAL
                        if turn.is_over:  # before the last event: nobody may come back for more
                            self._close(context, turn, event)
                        yield event
                        if turn.is_over:
                            return
        finally:
            self._watched.discard(turn)

    async def _responses(
        self, caller: Caller, turn: RunningTurn, request: agent_pb.RunTurnRequest
    ) -> AsyncGenerator[agent_pb.RunTurnResponse]:
        """What the orchestrator streams of a turn, also when the replica that does goes away: what
        is known already is not asked for again."""
        loop = asyncio.get_running_loop()
        after, patience = request.after_sequence, 0.0
        while True:
            call = self._peers.agent.RunTurn(request)
            try:
                async for response in call:
                    yield response
                    if response.events:
                        after = response.events[-1].sequence
                        patience = loop.time() + TAKE_OVER_SECONDS
                return
            except Unavailable:
                if loop.time() >= patience:
                    raise
            finally:
                call.cancel()
            await pause(RE_ATTACH_PAUSE_SECONDS)
            if turn.is_named:
                request = self._attachment(caller, turn, after)
            else:  # a repeated message goes into the same turn again
                request.after_sequence = after

    def _attachment(self, caller: Caller, turn: RunningTurn, after: int) -> agent_pb.RunTurnRequest:
        return agent_pb.RunTurnRequest(
            context=self._grants.watch(caller, turn_id=turn.turn_id, session_id=turn.session_id),
            attach=agent_pb.Attach(),
            after_sequence=after,
        )

    def _close(
        self, context: context_pb.TurnContext, turn: RunningTurn, terminal: event_pb.TurnEvent
    ) -> None:
        """Tell tools that the turn is over. A lost note costs nothing: the next turn closes it."""
        is_own = turn.is_named and context.turn_id == turn.turn_id
        if not is_own or not context.origin or not context.allowed_tool_sets:
            return  # the context of a watcher, or of a mere message, opens and closes nothing

        async def close() -> None:
            try:
                await self._peers.tools.CloseTurn(
                    tools_pb.CloseTurnRequest(
                        context=context,
                        is_completed=terminal.WhichOneof("event") == "turn_completed",
                    ),
                    timeout=READ_SECONDS,
                )
            except MinaraError as error:
                self._log.warning("turn_not_closed", turn_id=context.turn_id, reason=error.reason)

        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


_TERMINAL = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})
