"""ContextService and SessionService: convert in, call, convert out."""

from collections.abc import Iterable, Sequence

import grpc.aio

from minara.agent.v1 import message_pb2 as message_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara.workspace.v1 import context_service_pb2_grpc as context_grpc
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.errors import InvalidRequest, NotAuthenticated
from minara_core.grant import GrantType
from minara_core.ids import SessionId, UserId
from minara_core.messages import Message, Role
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import DEFAULT_CEILING_STAGE, PermissionTier
from minara_runtime import convert_enums as enums
from minara_runtime.call_context import current_grant
from minara_runtime.convert import context_from_pb, message_from_pb
from minara_runtime.convert_actions import decimal_to_pb, time_from_pb, time_to_pb
from minara_runtime.convert_events import usage_from_pb, usage_to_pb
from minara_runtime.grants import message_sha256
from minara_workspace.adapters.stored_history import add_history
from minara_workspace.app.commit_turn import TurnCommit
from minara_workspace.app.keep_sessions import SessionKeeper
from minara_workspace.app.prepare_turn import TurnPreparation
from minara_workspace.domain.session import (
    CommittedTurn,
    Compaction,
    CompactionRecord,
    Session,
    TurnRecord,
    TurnState,
)

_STATE = enums.EnumPair(TurnState, context_pb.TurnState, "TURN_STATE")

Context = grpc.aio.ServicerContext


class ContextServicer(context_grpc.ContextServiceServicer):
    def __init__(self, preparation: TurnPreparation, commit: TurnCommit) -> None:
        self._preparation = preparation
        self._commit = commit

    async def PrepareTurn(
        self,
        request: context_pb.PrepareTurnRequest,
        context: "Context[context_pb.PrepareTurnRequest, context_pb.PrepareTurnResponse]",
    ) -> context_pb.PrepareTurnResponse:
        turn = context_from_pb(request.context)
        material = await self._preparation.prepare(turn.turn_id, turn.session_id, turn.user_id)
        response = context_pb.PrepareTurnResponse(
            notices=material.notices,
            spent_today_usd=decimal_to_pb(material.spent_today_usd),
            identity_block=material.blocks.identity,
            memory_block=material.blocks.memory,
            bootstrap_block=material.bootstrap,
            heartbeat=material.heartbeat,
            sent_blocks=material.sent_blocks,
            turn_count=material.turn_count,
            commit_token=material.commit_token,
        )
        add_history(response, material.history)
        return response

    async def CommitTurn(
        self,
        request: context_pb.CommitTurnRequest,
        context: "Context[context_pb.CommitTurnRequest, context_pb.CommitTurnResponse]",
    ) -> context_pb.CommitTurnResponse:
        _check_message(request.message)
        turn = await self._commit.commit(_record(request), request.commit_token)
        response = context_pb.CommitTurnResponse(
            turn_number=turn.turn_number,
            commit_time=time_to_pb(turn.commit_time),
            state=_STATE.to_pb(turn.state),
            usage=usage_to_pb(turn.usage),
        )
        if turn.finish_reason is not None:
            response.finish_reason = enums.FINISH_REASON.to_pb(turn.finish_reason)
        return response


class SessionServicer(session_grpc.SessionServiceServicer):
    def __init__(self, keeper: SessionKeeper) -> None:
        self._keeper = keeper

    async def CreateSession(
        self,
        request: session_pb.CreateSessionRequest,
        context: "Context[session_pb.CreateSessionRequest, session_pb.CreateSessionResponse]",
    ) -> session_pb.CreateSessionResponse:
        session = await self._keeper.create(request.request_id, _caller(), request.title)
        return session_pb.CreateSessionResponse(session=_session_to_pb(session))

    async def GetSession(
        self,
        request: session_pb.GetSessionRequest,
        context: "Context[session_pb.GetSessionRequest, session_pb.GetSessionResponse]",
    ) -> session_pb.GetSessionResponse:
        session = await self._keeper.get(SessionId(request.session_id), _caller())
        return session_pb.GetSessionResponse(session=_session_to_pb(session))

    async def ListSessions(
        self,
        request: session_pb.ListSessionsRequest,
        context: "Context[session_pb.ListSessionsRequest, session_pb.ListSessionsResponse]",
    ) -> session_pb.ListSessionsResponse:
        page = await self._keeper.list_sessions(
            _caller(), size=request.page_size, token=request.page_token
        )
        return session_pb.ListSessionsResponse(
            sessions=[_session_to_pb(session) for session in page.sessions],
            next_page_token=page.next_token,
        )

    async def RefreshSession(
        self,
        request: session_pb.RefreshSessionRequest,
        context: "Context[session_pb.RefreshSessionRequest, session_pb.RefreshSessionResponse]",
    ) -> session_pb.RefreshSessionResponse:
        await self._keeper.refresh(SessionId(request.session_id), _caller())
        return session_pb.RefreshSessionResponse()

    async def ListTurns(
        self,
        request: session_pb.ListTurnsRequest,
        context: "Context[session_pb.ListTurnsRequest, session_pb.ListTurnsResponse]",
    ) -> session_pb.ListTurnsResponse:
        page = await self._keeper.list_turns(
            SessionId(request.session_id),
            _caller(),
            size=request.page_size,
            token=request.page_token,
        )
        return session_pb.ListTurnsResponse(
            turns=[_turn_to_pb(turn) for turn in page.turns], next_page_token=page.next_token
        )


def _caller() -> UserId:
    return UserId(current_grant().subject)


def _check_message(message: str) -> None:
    """What is stored as a person's words is what their grant was signed over."""
    grant = current_grant()
    is_covered = not message or message_sha256(message) == grant.message_sha256
    if grant.grant_type is GrantType.TURN and not is_covered:
        raise NotAuthenticated(
            "the grant is for another message",
            reason=ErrorReason.GRANT_MISMATCH,
            metadata={"field": "message"},
        )


def _record(request: context_pb.CommitTurnRequest) -> TurnRecord:
    turn = context_from_pb(request.context)
    has_finished = request.state == context_pb.TURN_STATE_COMPLETED
    assistant = enums.ROLE.to_pb(Role.ASSISTANT)
    return TurnRecord(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        user_id=turn.user_id,
        origin=turn.origin,
        epoch=turn.session_epoch,
        state=_STATE.from_pb(request.state),
        message=request.message,
        transcript=_wire_form(
            request.messages,
            [context_pb.HistoryPart(turn_id=turn.turn_id, message_count=len(request.messages))],
        ),
        assistant_text="\n".join(
            block.text.text
            for message in request.messages
            if message.role == assistant
            for block in message.blocks
        ),
        usage=usage_from_pb(request.usage),
        finish_reason=(
            enums.FINISH_REASON.from_pb(request.finish_reason) if has_finished else None
        ),
        failure_reason=request.failure_reason,
        provider=request.provider,
        model=request.model,
        step_count=request.step_count,
        sent_blocks=tuple(request.sent_blocks),
        skill_ids=tuple(request.skill_ids),
        scenario_ids=tuple(request.scenario_ids),
        stage=enums.STAGE.from_pb_or(request.stage, DEFAULT_CEILING_STAGE),
        risk_ceiling=enums.TIER.from_pb_or(request.risk_ceiling, PermissionTier.READ_ONLY),
        open_loops=tuple(request.open_loops),
        decided_action_id=request.decided_action_id,
        start_time=time_from_pb(request.start_time),
        compaction=_compaction(request.compaction) if request.HasField("compaction") else None,
        messages=_messages(request.messages),
    )


def _compaction(message: context_pb.Compaction) -> Compaction:
    covered = sum(part.message_count for part in message.parts)
    if covered != len(message.history) or any(part.message_count < 0 for part in message.parts):
        raise InvalidRequest(
            "the parts of a compaction cover its history", metadata={"field": "compaction.parts"}
        )
    _messages(message.history)
    return Compaction(
        history=_wire_form(message.history, message.parts),
        through_turn_number=message.through_turn_number,
        sent_blocks=tuple(message.sent_blocks),
        records=tuple(
            CompactionRecord(
                rung=record.rung,
                tokens_before=record.tokens_before,
                tokens_after=record.tokens_after,
            )
            for record in message.records
        ),
    )


def _messages(messages: Sequence[message_pb.Message]) -> tuple[Message, ...]:
    """Raises InvalidRequest for a message that could not be read when it comes back."""
    return tuple(message_from_pb(message) for message in messages)


def _wire_form(
    messages: Sequence[message_pb.Message], parts: Iterable[context_pb.HistoryPart]
) -> bytes:
    return context_pb.PrepareTurnResponse(history=messages, history_parts=parts).SerializeToString()


def _session_to_pb(session: Session) -> session_pb.Session:
    message = session_pb.Session(
        session_id=session.session_id,
        title=session.title,
        create_time=time_to_pb(session.create_time),
        update_time=time_to_pb(session.update_time),
        turn_count=session.turn_count,
        latest_turn_id=session.latest_turn_id,
    )
    if session.latest_finish_reason is not None:
        message.latest_finish_reason = enums.FINISH_REASON.to_pb(session.latest_finish_reason)
    return message


def _turn_to_pb(turn: CommittedTurn) -> session_pb.Turn:
    message = session_pb.Turn(
        turn_id=turn.turn_id,
        turn_number=turn.turn_number,
        state=_STATE.to_pb(turn.state),
        origin=enums.ORIGIN.to_pb(turn.origin),
        messages=context_pb.PrepareTurnResponse.FromString(turn.transcript).history,
        usage=usage_to_pb(turn.usage),
        start_time=time_to_pb(turn.start_time),
        commit_time=time_to_pb(turn.commit_time),
    )
    if turn.finish_reason is not None:
        message.finish_reason = enums.FINISH_REASON.to_pb(turn.finish_reason)
    return message
