"""From a person's message to a stream of events: scan, sign, run, and show only what is stored."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import pending_action_pb2 as action_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.actions import PendingAction
from minara_core.clock import pause
from minara_core.errors import MinaraError, NotFound, Unavailable
from minara_core.ids import turn_id_for
from minara_core.input_scan import scan
from minara_core.lexicon import typed_decision
from minara_core.script import locale_of
from minara_core.taxonomy import Origin
from minara_core.tooling import ok
from minara_gateway.confirmation import Confirmations
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.rendering import render_end, render_missing, render_undecided
from minara_gateway.showing import preview_of, receipt_of
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.convert_actions import action_to_pb
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
    on_disconnect: agent_pb.OnDisconnect.ValueType = agent_pb.ON_DISCONNECT_UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTurn:
    """A turn under way. `events` ends with its terminal event, or raises."""

    turn_id: str
    session_id: str
    notices: tuple[str, ...]
    events: AsyncIterator[event_pb.TurnEvent]


class Turns:
    def __init__(
        self,
        *,
        peers: Peers,
        grants: GrantDesk,
        confirmations: Confirmations,
        store: GatewayStore,
    ) -> None:
        self._peers = peers
        self._grants = grants
        self._confirmations = confirmations
        self._store = store
        self._known_sessions: set[tuple[str, str]] = set()
        self._closing: set[asyncio.Task[None]] = set()
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
            on_disconnect=ask.on_disconnect,
        )
        return RunningTurn(
            turn_id=ask.turn_id,
            session_id=session_id,
            notices=notices,
            events=self._run(caller, request, language, notices),
        )

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
        return RunningTurn(
            turn_id=turn_id,
            session_id=action.session_id,
            notices=(),
            events=self._run(caller, request, language),
        )

    def attach(
        self, caller: Caller, *, turn_id: str, session_id: str, after: int, language: str
    ) -> RunningTurn:
        """Watch a turn that exists: events after `after`, or the session's live turn."""
        request = agent_pb.RunTurnRequest(
            context=self._grants.watch(caller, turn_id=turn_id, session_id=session_id),
            attach=agent_pb.Attach(),
            after_sequence=after,
        )
        return RunningTurn(
            turn_id=turn_id,
            session_id=session_id,
            notices=(),
            events=self._run(caller, request, language),
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
        metadata = self._grants.request(caller)
        session_id = ask.session_id or ask.new_session_id
        if (caller.user_id, session_id) in self._known_sessions:
            return session_id
        if ask.session_id:
            await self._peers.sessions.GetSession(
                session_pb.GetSessionRequest(session_id=session_id),
                metadata=metadata,
                timeout=READ_SECONDS,
            )
        else:
            await self._peers.sessions.CreateSession(
                session_pb.CreateSessionRequest(request_id=session_id),
                metadata=metadata,
                timeout=READ_SECONDS,
            )
        if len(self._known_sessions) > 10_000:
            self._known_sessions.clear()
        self._known_sessions.add((caller.user_id, session_id))
        return session_id

    async def _run(
        self,
        caller: Caller,
        request: agent_pb.RunTurnRequest,
        language: str,
        notices: tuple[str, ...] = (),
    ) -> AsyncIterator[event_pb.TurnEvent]:
        previews: list[PendingAction] = []
        async with aclosing(self._responses(request)) as responses:
            async for response in responses:
                for event in response.events:
                    await self._show(caller, event, language, previews)
                    if event.WhichOneof("event") == "turn_started":
                        event.turn_started.notices.extend(notices)
                    is_over = event.WhichOneof("event") in _TERMINAL
                    if is_over:  # before the last event: nobody may come back for more
                        self._close(request.context, event)
                    yield event
                    if is_over:
                        return

    async def _responses(
        self, request: agent_pb.RunTurnRequest
    ) -> AsyncGenerator[agent_pb.RunTurnResponse]:
        """What the orchestrator streams of a turn, also when the replica that does goes away.

        The same request, told what is known already, re-attaches on another replica: a turn is
        never started twice.
        """
        loop = asyncio.get_running_loop()
        patience = 0.0
        while True:
            call = self._peers.agent.RunTurn(request)
            try:
                async for response in call:
                    yield response
                    if response.events:
                        request.after_sequence = response.events[-1].sequence
                        patience = loop.time() + TAKE_OVER_SECONDS
                return
            except Unavailable:
                if loop.time() >= patience:
                    raise
            finally:
                call.cancel()
            await pause(RE_ATTACH_PAUSE_SECONDS)

    async def _show(
        self,
        caller: Caller,
        event: event_pb.TurnEvent,
        language: str,
        previews: list[PendingAction],
    ) -> None:
        """Replace whatever the orchestrator says about an action by what tools has stored.

        `previews` are those that stand last so far; what speaks after them takes their word back.
        """
        name = event.WhichOneof("event")
        if name not in _SAYS_NOTHING:
            while previews:
                await self._store.take_back_last_word(previews.pop())
        match name:
            case "approval_requested":
                action = await self._show_preview(caller, event.approval_requested, language)
                if action is not None:
                    previews.append(action)
            case "action_decided":
                await self._show_receipt(caller, event.action_decided, language)
            case "turn_completed" if event.turn_completed.limit:
                completed = event.turn_completed
                completed.rendered_end = render_end(completed.limit, language=language)
            case "tool_call_finished":
                _hide_preview(event.tool_call_finished.result)
            case _:
                pass

    async def _show_preview(
        self, caller: Caller, event: event_pb.ApprovalRequested, language: str
    ) -> PendingAction | None:
        action = await self._stored(caller, event.action)
        event.Clear()
        if action is None:
            event.rendered_preview = render_missing(language)
            return None
        event.rendered_preview = await preview_of(
            self._confirmations, self._store, action, language=language, is_last_word=True
        )
        event.action.CopyFrom(action_to_pb(action))
        return action

    async def _show_receipt(
        self, caller: Caller, event: event_pb.ActionDecided, language: str
    ) -> None:
        action = await self._stored(caller, event.action)
        decision = event.decision
        event.Clear()
        if action is None:
            event.rendered_receipt = render_missing(language)
            return
        event.action.CopyFrom(action_to_pb(action))
        event.decision = decision
        event.rendered_receipt = await receipt_of(
            self._confirmations, self._store, caller, action, language=language
        )

    async def _stored(
        self, caller: Caller, claimed: action_pb.PendingAction
    ) -> PendingAction | None:
        try:
            return await self._confirmations.find(caller, claimed.pending_action_id)
        except NotFound:
            self._log.error("action_not_stored", pending_action_id=claimed.pending_action_id)
            return None

    def _close(self, context: context_pb.TurnContext, terminal: event_pb.TurnEvent) -> None:
        """Tell tools that the turn is over. A lost note costs nothing: the next turn closes it."""
        if not context.origin or not context.allowed_tool_sets:
            return  # a watcher's context opens and closes nothing

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


_SAYS_NOTHING = frozenset(
    {"approval_requested", "usage_reported", "turn_completed", "turn_failed", "turn_cancelled"}
)
"""What may follow a preview without speaking to the person."""
_TERMINAL = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


def _hide_preview(result: call_pb.ToolResult) -> None:
    """A call that parked an action tells its id alone; the preview comes from tools itself."""
    if result.WhichOneof("outcome") != "pending_action":
        return
    action_id = result.pending_action.pending_action_id
    result.pending_action.Clear()
    result.pending_action.pending_action_id = action_id
    result.envelope = ok({"state": "pending_confirmation", "pending_action_id": action_id})
