"""GoalService as its callers see it, in process and over TCP, with grants checked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack

import grpc.aio
import pytest

from minara.orchestrator.v1 import goal_service_pb2 as goal_pb
from minara.orchestrator.v1 import goal_service_pb2_grpc as goal_grpc
from minara_core.errors import (
    AlreadyExists,
    InvalidRequest,
    MinaraError,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    NotReady,
)
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope
from minara_orchestrator.adapters.grpc_server_goals import GoalServicer
from minara_orchestrator.adapters.sql_goals import SqlGoals
from minara_orchestrator.adapters.sql_turns import VERSIONS
from minara_orchestrator.app.keep_goals import GoalKeeper
from minara_orchestrator.domain.goal import Verdict
from minara_runtime import telemetry
from minara_runtime.channels import with_grant
from minara_runtime.interceptors import server_interceptors
from support.channels import KINDS, a_channel
from support.databases import Databases
from support.grants import Installation, an_installation
from support.orchestrator.goals import HERE, ME

SESSION = str(HERE)


@pytest.fixture
def installation() -> Installation:
    return an_installation()


@pytest.fixture
async def goals(sqlite_databases: Databases) -> SqlGoals:
    return SqlGoals(await sqlite_databases.open(VERSIONS))


@pytest.fixture(params=KINDS)
async def channel(
    request: pytest.FixtureRequest, installation: Installation, goals: SqlGoals
) -> AsyncGenerator[grpc.aio.Channel]:
    servicer = GoalServicer(GoalKeeper(goals))
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(
            a_channel(
                request.param,
                lambda server: goal_grpc.add_GoalServiceServicer_to_server(servicer, server),
                interceptors,
            )
        )


class Caller:
    """A person who may read and chat."""

    def __init__(self, channel: grpc.aio.Channel, installation: Installation) -> None:
        self._stub = goal_grpc.GoalServiceStub(channel)
        self._grant = with_grant(installation.request_grant(Scope.READ, Scope.CHAT))

    async def get(self, session_id: str = SESSION) -> goal_pb.GetGoalResponse:
        request = goal_pb.GetGoalRequest(session_id=session_id)
        return await self._stub.GetGoal(request, metadata=self._grant)

    async def set(
        self, text: str, *, max_turns: int = 0, subgoals: tuple[str, ...] = ()
    ) -> goal_pb.Goal:
        request = goal_pb.SetGoalRequest(
            session_id=SESSION, text=text, max_turns=max_turns, subgoals=subgoals
        )
        return (await self._stub.SetGoal(request, metadata=self._grant)).goal

    async def update(self, step: "goal_pb.GoalStep.ValueType") -> goal_pb.UpdateGoalResponse:
        request = goal_pb.UpdateGoalRequest(session_id=SESSION, step=step)
        return await self._stub.UpdateGoal(request, metadata=self._grant)


@pytest.fixture
def caller(channel: grpc.aio.Channel, installation: Installation) -> Caller:
    return Caller(channel, installation)


async def test_a_session_without_a_goal_and_an_unknown_one_look_alike(caller: Caller) -> None:
    for session_id in (SESSION, "no-such-session"):
        assert not (await caller.get(session_id)).HasField("goal")


async def test_a_goal_is_told_as_it_stands(caller: Caller) -> None:
    goal = await caller.set("a yield above 8 %", subgoals=("on Base",))
    assert (goal.session_id, goal.text) == (SESSION, "a yield above 8 %")
    assert goal.state == goal_pb.GOAL_STATE_ACTIVE
    assert (goal.turns_used, goal.max_turns) == (0, 20)
    assert list(goal.subgoals) == ["on Base"]
    assert (goal.last_verdict, goal.last_reason, goal.paused_reason) == ("", "", "")
    assert goal.create_time == goal.update_time
    assert (await caller.get()).goal == goal


async def test_a_goal_is_paused_resumed_and_cleared(caller: Caller, goals: SqlGoals) -> None:
    await caller.set("a yield above 8 %", max_turns=2)
    await goals.change(
        HERE,
        ME,
        lambda found, now: found and found.judged(Verdict.CONTINUE, "no yet", TurnId("turn-1")),
    )
    paused = (await caller.update(goal_pb.GOAL_STEP_PAUSE)).goal
    assert (paused.state, paused.paused_reason) == (goal_pb.GOAL_STATE_PAUSED, "user")
    assert (paused.last_verdict, paused.turns_used) == ("continue", 1)
    assert (await caller.update(goal_pb.GOAL_STEP_PAUSE)).goal == paused
    resumed = (await caller.update(goal_pb.GOAL_STEP_RESUME)).goal
    assert (resumed.state, resumed.turns_used) == (goal_pb.GOAL_STATE_ACTIVE, 0)
    assert (await caller.update(goal_pb.GOAL_STEP_RESUME)).goal == resumed
    assert not (await caller.update(goal_pb.GOAL_STEP_CLEAR)).HasField("goal")
    assert not (await caller.get()).HasField("goal")


async def test_refusals_carry_their_reasons(caller: Caller, goals: SqlGoals) -> None:
    async def refusal(call: Awaitable[object], kind: type[MinaraError]) -> ErrorReason:
        with pytest.raises(kind) as refused:
            await call
        return refused.value.reason

    pause = goal_pb.GOAL_STEP_PAUSE
    assert await refusal(caller.update(pause), NotFound) is ErrorReason.GOAL_NOT_FOUND
    assert await refusal(caller.set(" "), InvalidRequest) is ErrorReason.GOAL_INVALID
    await caller.set("one")
    assert await refusal(caller.set("two"), AlreadyExists) is ErrorReason.GOAL_EXISTS
    await goals.change(
        HERE, ME, lambda found, now: found and found.judged(Verdict.MET, "", TurnId("turn-1"))
    )
    assert await refusal(caller.update(pause), NotReady) is ErrorReason.GOAL_NOT_ACTIVE


@pytest.mark.parametrize("session_id", ["", "a\x00b", "x" * 129])
async def test_what_is_no_id_names_no_session(caller: Caller, session_id: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await caller.get(session_id)
    assert refused.value.metadata["field"] == "session_id"


async def test_an_update_says_what_to_do(caller: Caller) -> None:
    await caller.set("one")
    with pytest.raises(InvalidRequest):
        await caller.update(goal_pb.GOAL_STEP_UNSPECIFIED)


async def test_a_foreign_goal_is_neither_seen_nor_in_the_way(
    channel: grpc.aio.Channel, installation: Installation, caller: Caller
) -> None:
    token = installation.gateway.request(user_id="somebody", scopes=(Scope.READ, Scope.CHAT))
    stub, grant = goal_grpc.GoalServiceStub(channel), with_grant(token)
    await stub.SetGoal(goal_pb.SetGoalRequest(session_id=SESSION, text="theirs"), metadata=grant)
    assert not (await caller.get()).HasField("goal")
    assert (await caller.set("mine")).text == "mine"
    theirs = await stub.GetGoal(goal_pb.GetGoalRequest(session_id=SESSION), metadata=grant)
    assert theirs.goal.text == "theirs"


async def test_nobody_sets_a_goal_without_the_scope(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = goal_grpc.GoalServiceStub(channel)
    request = goal_pb.SetGoalRequest(session_id=SESSION, text="one")
    with pytest.raises(NotAuthenticated):
        await stub.SetGoal(request)
    with pytest.raises(NotPermitted):
        await stub.SetGoal(request, metadata=with_grant(installation.request_grant(Scope.READ)))


async def test_of_twenty_goals_set_at_once_one_stands(caller: Caller) -> None:
    refused: list[str] = []

    async def set_goal(text: str) -> None:
        try:
            await caller.set(text)
        except AlreadyExists:
            refused.append(text)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(set_goal(f"goal {number}"))
    assert len(refused) == 19
    assert (await caller.get()).goal.text not in refused
