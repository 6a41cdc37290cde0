"""AgentService: convert in, call, convert out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import MappingProxyType

import grpc.aio

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core import input_scan
from minara_core.clock import Clock
from minara_core.errors import InvalidRequest, NotAuthenticated, NotFound, NotPermitted
from minara_core.events import TurnEvent
from minara_core.grant import GrantType
from minara_core.ids import PendingActionId, SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_orchestrator.adapters.event_lag import EventLag
from minara_orchestrator.app.keep_goals import GoalKeeper
from minara_orchestrator.app.render_prompt import PromptRenderer
from minara_orchestrator.app.turn_hub import TurnHub
from minara_orchestrator.domain.turn import (
    DecidedInput,
    DoubleTexting,
    TriggerInput,
    Turn,
    TurnInput,
    UserInput,
    input_text,
)
from minara_runtime.call_context import current_grant, detached
from minara_runtime.convert import context_from_pb
from minara_runtime.convert_events import event_to_pb
from minara_runtime.grants import message_sha256
from minara_runtime.metrics import Metrics

_POLICIES = MappingProxyType(
    {
        agent_pb.DOUBLE_TEXTING_UNSPECIFIED: DoubleTexting.ENQUEUE,
        agent_pb.DOUBLE_TEXTING_ENQUEUE: DoubleTexting.ENQUEUE,
        agent_pb.DOUBLE_TEXTING_REJECT: DoubleTexting.REJECT,
        agent_pb.DOUBLE_TEXTING_INTERRUPT: DoubleTexting.INTERRUPT,
        agent_pb.DOUBLE_TEXTING_INTERJECT: DoubleTexting.INTERJECT,
    }
)
_ON_DISCONNECT = frozenset(agent_pb.OnDisconnect.values())


def encode_event(event: TurnEvent) -> bytes:
    """An event as it is stored: its wire bytes."""
    return event_to_pb(event).SerializeToString()


class AgentServicer(agent_grpc.AgentServiceServicer):
    def __init__(
        self,
        hub: TurnHub,
        goals: GoalKeeper,
        renderer: PromptRenderer,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._hub = hub
        self._goals = goals
        self._renderer = renderer
        self._clock = clock
        self._metrics = metrics

    async def RunTurn(
        self,
        request: agent_pb.RunTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.RunTurnRequest, agent_pb.RunTurnResponse],
    ) -> AsyncIterator[agent_pb.RunTurnResponse]:
        user_id = UserId(request.context.user_id)
        if request.after_sequence < 0:
            raise InvalidRequest(
                "sequences begin at 1; 0 is for all", metadata={"field": "after_sequence"}
            )
        if request.WhichOneof("input") == "attach":
            turn_id = await self._attached(request.context)
        else:
            turn, policy = self._turn(request), _policy(request)
            await self._admit_goal_turn(turn)
            # The turn belongs to its session: it must not end with the deadline of this call.
            turn_id = await asyncio.create_task(self._hub.start(turn, policy), context=detached())
        is_over = False
        try:
            async with aclosing(
                self._hub.follow(turn_id, user_id, request.after_sequence)
            ) as batches:
                lag = EventLag(self._metrics, self._clock)
                async for batch in batches:
                    events = [event_pb.TurnEvent.FromString(event.body) for event in batch]
                    _refuse_unknown_session(events[0])
                    lag.note(events[0])
                    yield agent_pb.RunTurnResponse(events=events)
            is_over = True
        finally:
            if request.on_disconnect == agent_pb.ON_DISCONNECT_CANCEL and not is_over:
                self._hub.watcher_left(turn_id, user_id)

    async def _admit_goal_turn(self, turn: Turn) -> None:
        """A goal's turn begins only while the goal is active; one that exists is watched anyway."""
        context = turn.context
        if context.origin is Origin.GOAL and not await self._hub.is_known(
            context.turn_id, context.user_id
        ):
            await self._goals.admit_goal_turn(context, input_text(turn.input))

    async def SteerTurn(
        self,
        request: agent_pb.SteerTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.SteerTurnRequest, agent_pb.SteerTurnResponse],
    ) -> agent_pb.SteerTurnResponse:
        message = Turn(
            context=context_from_pb(request.context),
            input=UserInput(text=_scanned(request.text)),
            start_time=self._clock.now(),
        )
        if not message.context.origin.is_human:
            raise NotPermitted(
                "only a person speaks into a turn", reason=ErrorReason.GRANT_MISMATCH
            )
        into = TurnId(request.turn_id) if request.turn_id else None
        return agent_pb.SteerTurnResponse(turn_id=await self._hub.steer(message, into))

    async def CancelTurn(
        self,
        request: agent_pb.CancelTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.CancelTurnRequest, agent_pb.CancelTurnResponse],
    ) -> agent_pb.CancelTurnResponse:
        turn_id = await self._attached(request.context)
        was_live = await self._hub.cancel(turn_id, UserId(request.context.user_id))
        return agent_pb.CancelTurnResponse(turn_id=turn_id, was_live=was_live)

    async def RenderPrompt(
        self,
        request: agent_pb.RenderPromptRequest,
        context: grpc.aio.ServicerContext[
            agent_pb.RenderPromptRequest, agent_pb.RenderPromptResponse
        ],
    ) -> agent_pb.RenderPromptResponse:
        turn = Turn(
            context=context_from_pb(request.context),
            input=UserInput(text=_scanned(request.text)),
            start_time=self._clock.now(),
        )
        blocks = await self._renderer.render(turn)
        return agent_pb.RenderPromptResponse(
            blocks=[
                agent_pb.PromptBlock(
                    number=block.number, name=block.key, text=block.text, is_cached=block.is_prefix
                )
                for block in blocks
            ]
        )

    async def _attached(self, context: context_pb.TurnContext) -> TurnId:
        if context.turn_id:
            return TurnId(context.turn_id)
        return await self._hub.live_turn(SessionId(context.session_id), UserId(context.user_id))

    def _turn(self, request: agent_pb.RunTurnRequest) -> Turn:
        if current_grant().grant_type is not GrantType.TURN:
            raise NotAuthenticated(
                "starting a turn takes a turn grant", reason=ErrorReason.GRANT_WRONG_TYPE
            )
        return Turn(
            context=context_from_pb(request.context),
            input=_input(request),
            start_time=self._clock.now(),
        )


def _policy(request: agent_pb.RunTurnRequest) -> DoubleTexting:
    if request.on_disconnect not in _ON_DISCONNECT:
        raise _unsupported("on_disconnect")
    policy = _POLICIES.get(request.double_texting)
    if policy is None:
        raise _unsupported("double_texting")
    is_message = request.WhichOneof("input") == "user_message"
    # A decision, or what an automatic origin has to say, is told in a turn of its own, in order.
    return policy if is_message or policy is DoubleTexting.REJECT else DoubleTexting.ENQUEUE


def _input(request: agent_pb.RunTurnRequest) -> TurnInput:
    match request.WhichOneof("input"):
        case "user_message":
            text = _scanned(request.user_message.text)
            if request.user_message.file_keys:
                raise _unsupported("file_keys")
            return UserInput(text=text)
        case "decided_action" if request.decided_action.pending_action_id:
            return DecidedInput(
                pending_action_id=PendingActionId(request.decided_action.pending_action_id)
            )
        case "trigger":
            return TriggerInput(text=_scanned(request.trigger.text))
        case _:
            raise InvalidRequest(
                "say what starts the turn",
                reason=ErrorReason.FIELD_REQUIRED,
                metadata={"field": "input"},
            )


def _scanned(text: str) -> str:
    """`text`, which must be what its signer scanned; raises otherwise."""
    if input_scan.scan(text).text != text:
        raise InvalidRequest(
            "scan the message before signing it", reason=ErrorReason.MESSAGE_NOT_SCANNED
        )
    if message_sha256(text) != current_grant().message_sha256:
        raise NotAuthenticated(
            "the grant is for another message",
            reason=ErrorReason.GRANT_MISMATCH,
            metadata={"field": "message"},
        )
    return text


def _refuse_unknown_session(first: event_pb.TurnEvent) -> None:
    """A turn that found no session never began: its caller gets a status, not a stream."""
    if first.sequence == 1 and first.turn_failed.reason == ErrorReason.SESSION_NOT_FOUND:
        raise NotFound(first.turn_failed.message, reason=ErrorReason.SESSION_NOT_FOUND)


def _unsupported(option: str) -> InvalidRequest:
    return InvalidRequest(
        f"this value of {option} is not offered yet",
        reason=ErrorReason.OPTION_UNSUPPORTED,
        metadata={"option": option},
    )
