"""The workspace service as the orchestrator sees it."""

from decimal import Decimal

import grpc.aio

from minara.workspace.v1 import context_service_pb2 as context_pb
from minara.workspace.v1 import context_service_pb2_grpc as context_grpc
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.ports import TurnMaterial
from minara_orchestrator.domain.history import Compaction, history_of, messages_of
from minara_orchestrator.domain.turn import (
    Committed,
    DecidedInput,
    TurnRecord,
    TurnState,
    input_text,
)
from minara_runtime import convert_enums as enums
from minara_runtime.convert import context_to_pb, message_from_pb, message_to_pb
from minara_runtime.convert_actions import decimal_from_pb, time_to_pb
from minara_runtime.convert_events import usage_from_pb, usage_to_pb

PREPARE_SECONDS = 2.0
COMMIT_SECONDS = 5.0

_STATE = enums.EnumPair(TurnState, context_pb.TurnState, "TURN_STATE")


class WorkspaceClient:
    """Implements Workspace over ContextService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = context_grpc.ContextServiceStub(channel)

    async def prepare(self, context: TurnContext, message: str) -> TurnMaterial:
        response = await self._stub.PrepareTurn(
            context_pb.PrepareTurnRequest(context=context_to_pb(context), message=message),
            timeout=PREPARE_SECONDS,
        )
        return TurnMaterial(
            identity_block=response.identity_block,
            memory_block=response.memory_block,
            bootstrap_block=response.bootstrap_block,
            notices=tuple(response.notices),
            heartbeat=response.heartbeat,
            personalization_block=response.personalization_block,
            history=history_of(
                [message_from_pb(message) for message in response.history],
                [(part.turn_id, part.message_count) for part in response.history_parts],
            ),
            sent_blocks=frozenset(response.sent_blocks),
            turn_count=response.turn_count,
            commit_token=response.commit_token,
            spent_today_usd=(
                decimal_from_pb(response.spent_today_usd)
                if response.spent_today_usd.value
                else Decimal(0)
            ),
        )

    async def commit(self, record: TurnRecord) -> Committed:
        response = await self._stub.CommitTurn(_request(record), timeout=COMMIT_SECONDS)
        has_finished = response.state == context_pb.TURN_STATE_COMPLETED
        return Committed(
            turn_number=response.turn_number,
            state=_STATE.from_pb(response.state),
            finish_reason=(
                enums.FINISH_REASON.from_pb(response.finish_reason) if has_finished else None
            ),
            usage=usage_from_pb(response.usage),
        )


def _request(record: TurnRecord) -> context_pb.CommitTurnRequest:
    turn = record.turn
    request = context_pb.CommitTurnRequest(
        context=context_to_pb(turn.context),
        state=_STATE.to_pb(record.state),
        message=input_text(turn.input),
        messages=[message_to_pb(message) for message in record.messages],
        usage=usage_to_pb(record.usage),
        failure_reason=record.failure_reason,
        provider=record.provider,
        model=record.model,
        step_count=record.step_count,
        sent_blocks=record.sent_blocks,
        commit_token=record.commit_token,
        skill_ids=record.skill_ids,
        scenario_ids=record.scenario_ids,
        stage=enums.STAGE.to_pb(record.stage),
        open_loops=record.open_loops,
        start_time=time_to_pb(turn.start_time),
        risk_ceiling=enums.TIER.to_pb(record.risk_ceiling),
    )
    if record.finish_reason is not None:
        request.finish_reason = enums.FINISH_REASON.to_pb(record.finish_reason)
    if isinstance(turn.input, DecidedInput):
        request.decided_action_id = turn.input.pending_action_id
    if record.compaction is not None:
        request.compaction.CopyFrom(_compaction(record.compaction))
    return request


def _compaction(compaction: Compaction) -> context_pb.Compaction:
    return context_pb.Compaction(
        history=[message_to_pb(message) for message in messages_of(compaction.history)],
        parts=[
            context_pb.HistoryPart(turn_id=turn.turn_id, message_count=len(turn.messages))
            for turn in compaction.history
        ],
        through_turn_number=compaction.through_turn_number,
        sent_blocks=compaction.sent_blocks,
        records=[
            context_pb.CompactionRecord(
                rung=record.rung,
                tokens_before=record.tokens_before,
                tokens_after=record.tokens_after,
            )
            for record in compaction.records
        ],
    )
