"""GoalService: convert in, call, convert out."""

from types import MappingProxyType

import grpc.aio

from minara.orchestrator.v1 import goal_service_pb2 as goal_pb
from minara.orchestrator.v1 import goal_service_pb2_grpc as goal_grpc
from minara_core.errors import InvalidRequest
from minara_core.ids import SessionId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.app.keep_goals import GoalKeeper, GoalStep
from minara_orchestrator.domain.goal import Goal, GoalState
from minara_runtime.call_context import current_grant
from minara_runtime.convert_actions import time_to_pb

_STATES = MappingProxyType(
    {
        GoalState.ACTIVE: goal_pb.GOAL_STATE_ACTIVE,
        GoalState.PAUSED: goal_pb.GOAL_STATE_PAUSED,
        GoalState.MET: goal_pb.GOAL_STATE_MET,
        GoalState.BLOCKED: goal_pb.GOAL_STATE_BLOCKED,
    }
)
_STEPS = MappingProxyType(
    {
        goal_pb.GOAL_STEP_PAUSE: GoalStep.PAUSE,
        goal_pb.GOAL_STEP_RESUME: GoalStep.RESUME,
        goal_pb.GOAL_STEP_CLEAR: GoalStep.CLEAR,
    }
)
_MOST_ID = 128
"""Characters of an id: a goal may be set for a session that nobody has looked up."""


class GoalServicer(goal_grpc.GoalServiceServicer):
    def __init__(self, keeper: GoalKeeper) -> None:
        self._keeper = keeper

    async def GetGoal(
        self,
        request: goal_pb.GetGoalRequest,
        context: grpc.aio.ServicerContext[goal_pb.GetGoalRequest, goal_pb.GetGoalResponse],
    ) -> goal_pb.GetGoalResponse:
        goal = await self._keeper.get(_session(request.session_id), _caller())
        return goal_pb.GetGoalResponse(goal=_goal(goal))

    async def SetGoal(
        self,
        request: goal_pb.SetGoalRequest,
        context: grpc.aio.ServicerContext[goal_pb.SetGoalRequest, goal_pb.SetGoalResponse],
    ) -> goal_pb.SetGoalResponse:
        goal = await self._keeper.set(
            _session(request.session_id),
            _caller(),
            text=request.text,
            max_turns=request.max_turns,
            subgoals=tuple(request.subgoals),
        )
        return goal_pb.SetGoalResponse(goal=_goal(goal))

    async def UpdateGoal(
        self,
        request: goal_pb.UpdateGoalRequest,
        context: grpc.aio.ServicerContext[goal_pb.UpdateGoalRequest, goal_pb.UpdateGoalResponse],
    ) -> goal_pb.UpdateGoalResponse:
        step = _STEPS.get(request.step)
        if step is None:
            raise _required("step")
        goal = await self._keeper.update(_session(request.session_id), _caller(), step)
        return goal_pb.UpdateGoalResponse(goal=_goal(goal))


def _caller() -> UserId:
    return UserId(current_grant().subject)


def _session(session_id: str) -> SessionId:
    if not session_id:
        raise _required("session_id")
    if len(session_id) > _MOST_ID or not session_id.isprintable():
        raise InvalidRequest("this is no session's id", metadata={"field": "session_id"})
    return SessionId(session_id)


def _required(field: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field} is required", reason=ErrorReason.FIELD_REQUIRED, metadata={"field": field}
    )


def _goal(goal: Goal | None) -> goal_pb.Goal | None:
    if goal is None:
        return None
    return goal_pb.Goal(
        session_id=goal.session_id,
        text=goal.text,
        state=_STATES[goal.state],
        turns_used=goal.turns_used,
        max_turns=goal.max_turns,
        subgoals=goal.subgoals,
        last_verdict=goal.last_verdict or "",
        last_reason=goal.last_reason,
        paused_reason=goal.paused_reason or "",
        create_time=time_to_pb(goal.create_time),
        update_time=time_to_pb(goal.update_time),
    )
