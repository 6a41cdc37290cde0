"""A person's yes: what counts as one, and what is signed for it (safety.md §2).

Three ways decide an action: its button (the hash that was shown), its code, a typed word. Each ends
in the same call, signed over a hash that this gateway has shown to this person.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.errors import Conflict, DeadlineExceeded, EventsLost, NotFound, Unavailable
from minara_core.lexicon import typed_decision
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope
from minara_gateway.peers import CONFIRM_SECONDS, READ_SECONDS, GrantDesk, Peers
from minara_gateway.rendering import answers_to_typed_words, is_in_chat
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.convert_actions import action_from_pb

CODE_LENGTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedDecision:
    """A typed word that decides an action."""

    action: PendingAction
    decision: Decision


class Confirmations:
    def __init__(
        self, peers: Peers, grants: GrantDesk, store: GatewayStore, code_key: bytes
    ) -> None:
        self._peers = peers
        self._grants = grants
        self._store = store
        self._code_key = code_key

    def code(self, action: PendingAction) -> str:
        """Four characters for this action and hash; only the gateway can tell them."""
        text = f"{action.user_id}:{action.pending_action_id}:{action.action_hash}"
        digest = hmac.new(self._code_key, text.encode(), hashlib.sha256).digest()
        return base64.b32encode(digest).decode("ascii")[:CODE_LENGTH]

    async def find(self, caller: Caller, pending_action_id: str) -> PendingAction:
        """The action as the tools service stored it. Raises NotFound (ACTION_NOT_FOUND)."""
        response = await self._peers.approvals.GetPendingAction(
            approval_pb.GetPendingActionRequest(pending_action_id=pending_action_id),
            metadata=self._grants.lookup(caller),
            timeout=READ_SECONDS,
        )
        return action_from_pb(response.pending_action)

    async def pending(self, caller: Caller, session_id: str = "") -> list[PendingAction]:
        """The caller's undecided actions, newest first; of one session, or of all."""
        response = await self._peers.approvals.ListPendingActions(
            approval_pb.ListPendingActionsRequest(session_id=session_id, page_size=200),
            metadata=self._grants.lookup(caller),
            timeout=READ_SECONDS,
        )
        return [action_from_pb(action) for action in response.pending_actions]

    async def find_by_code(self, caller: Caller, code: str, session_id: str) -> PendingAction:
        """The one undecided action of that code: of this session, or of none at all. Raises
        NotFound (ACTION_NOT_FOUND)."""
        wanted = code.strip().upper()
        matches = [
            action
            for action in await self.pending(caller)
            if (session_id in {"", action.session_id} or not is_in_chat(action))
            and hmac.compare_digest(self.code(action).encode(), wanted.encode())
        ]
        if len(matches) != 1:
            raise NotFound("no pending action has this code", reason=ErrorReason.ACTION_NOT_FOUND)
        return matches[0]

    async def decide(
        self, caller: Caller, pending_action_id: str, action_hash: str, decision: Decision
    ) -> PendingAction:
        """Confirm or reject what was shown; returns the action with its outcome.

        Raises Conflict (PREVIEW_NOT_SHOWN) unless this very hash was shown to this person; the
        tools service's own refusals pass through.
        """
        if not await self._store.was_shown(caller.user_id, pending_action_id, action_hash):
            raise Conflict(
                "look at the preview first: this one was never shown to you",
                reason=ErrorReason.PREVIEW_NOT_SHOWN,
                metadata={"pending_action_id": pending_action_id},
            )
        metadata = self._grants.confirmation(
            caller,
            pending_action_id=pending_action_id,
            action_hash=action_hash,
            decision=decision,
        )
        if decision is Decision.CONFIRM:
            confirmed = await self._peers.approvals.ConfirmAction(
                approval_pb.ConfirmActionRequest(
                    pending_action_id=pending_action_id, action_hash=action_hash
                ),
                metadata=metadata,
                timeout=CONFIRM_SECONDS,
            )
            return action_from_pb(confirmed.pending_action)
        rejected = await self._peers.approvals.RejectAction(
            approval_pb.RejectActionRequest(
                pending_action_id=pending_action_id, action_hash=action_hash
            ),
            metadata=metadata,
            timeout=CONFIRM_SECONDS,
        )
        return action_from_pb(rejected.pending_action)

    async def typed(
        self, caller: Caller, *, text: str, session_id: str, shown_action_id: str
    ) -> TypedDecision | None:
        """What a typed message decides, or None: then it is a message like any other.

        It decides only when everything holds: the whole message is on the list of words, a person's
        own client sent it and names the preview it shows, that action is the session's only open
        one, was made in its latest turn and asked for by the person, its preview was the last thing
        delivered, nothing runs and no question is open.
        """
        word = typed_decision(text)
        if word is None or not shown_action_id or not session_id:
            return None
        if not caller.is_interactive or Scope.CONFIRM not in caller.scopes:
            return None
        open_actions = await self.pending(caller, session_id)
        if [action.pending_action_id for action in open_actions] != [shown_action_id]:
            return None
        action = open_actions[0]
        if action.state is not ActionState.PENDING or not answers_to_typed_words(action):
            return None
        if not await self._was_last_word(caller, session_id, action):
            return None
        decision = Decision.CONFIRM if word == "yes" else Decision.REJECT
        return TypedDecision(action=action, decision=decision)

    async def decided(
        self, caller: Caller, *, text: str, session_id: str, shown_action_id: str, turn_id: str
    ) -> PendingAction | None:
        """The action that a typed message has decided before, when that message is repeated; None
        when it was a message like any other, which is the turn `turn_id`."""
        word = typed_decision(text)
        if word is None or not shown_action_id or not session_id or not caller.is_interactive:
            return None
        try:
            action = await self.find(caller, shown_action_id)
        except NotFound:
            return None
        decision = Decision.CONFIRM if word == "yes" else Decision.REJECT
        if action.session_id != session_id or decision is not _decision_on(action):
            return None
        if await self._is_known(caller, turn_id=turn_id):
            return None
        return await self.decide(caller, shown_action_id, action.action_hash, decision)

    async def _was_last_word(self, caller: Caller, session_id: str, action: PendingAction) -> bool:
        if not await self._store.is_last_word(action):
            return False
        response = await self._peers.sessions.GetSession(
            session_pb.GetSessionRequest(session_id=session_id),
            metadata=self._grants.lookup(caller),
            timeout=READ_SECONDS,
        )
        session = response.session
        return (
            session.latest_turn_id == action.turn_id
            and session.latest_finish_reason == event_pb.FINISH_REASON_APPROVAL_REQUESTED
            and not await self._is_running(caller, session_id)
        )

    async def _is_running(self, caller: Caller, session_id: str) -> bool:
        try:
            return await self._is_known(caller, session_id=session_id)
        except Unavailable:
            return True  # in doubt a word decides nothing

    async def _is_known(self, caller: Caller, *, turn_id: str = "", session_id: str = "") -> bool:
        """Whether the orchestrator has this turn, or one that runs in this session."""
        call = self._peers.agent.RunTurn(
            agent_pb.RunTurnRequest(
                context=self._grants.watch(caller, turn_id=turn_id, session_id=session_id),
                attach=agent_pb.Attach(),
            ),
            timeout=READ_SECONDS,
        )
        try:
            async for _ in call:
                return True
        except NotFound:
            return False
        except (DeadlineExceeded, EventsLost):
            return True  # it has nothing to tell yet, or nothing any more
        finally:
            call.cancel()
        return True


def _decision_on(action: PendingAction) -> Decision | None:
    """What was decided on it; None while nobody has, and when time or another one did."""
    match action.state:
        case ActionState.PENDING | ActionState.EXPIRED | ActionState.SUPERSEDED:
            return None
        case ActionState.REJECTED:
            return Decision.REJECT
        case _:
            return Decision.CONFIRM
