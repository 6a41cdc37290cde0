"""Every call that is told to have begun is told to have ended, whatever breaks and wherever."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from typing_extensions import override

from minara_core.errors import Conflict, InvalidRequest, LimitExceeded, MinaraError
from minara_core.events import (
    FinishReason,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
)
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolDelegated, ToolFailure, ToolResult
from minara_core.turn_context import TurnContext
from minara_llm.scripted import calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from support.orchestrator.house import FakeLink, House, a_turn, of_type
from support.orchestrator.peers import FakeSkills, FakeTools, a_definition, answers

TASK = {"task": "Find the price of BTC.", "tool_sets": ["read"]}
PRICE = ("get_price", {"symbol": "BTC"})
PLAIN = [
    InvalidRequest("no such tool set"),
    LimitExceeded("too many calls at once"),
    Conflict("the trading state changed"),
]
ELSEWHERE = [ErrorReason.EPOCH_STALE, ErrorReason.LEASE_LOST]


@dataclass
class BreakingTools(FakeTools):
    """Passes sub-agents on. A batch with one of the calls in `errors` breaks once those before it
    are answered, and the call `stuck`, which never is, is under way."""

    errors: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    stuck: str = ""
    is_stuck: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        for call in batch.calls:
            if call.tool_call_id == self.stuck:
                self.is_stuck.set()
                await asyncio.Event().wait()
            if call.tool_call_id in self.errors:
                if self.stuck:
                    await self.is_stuck.wait()
                raise self.errors[call.tool_call_id]
            result = answers(call)
            if call.name == "subagent":
                result = ToolResult(
                    tool_call_id=call.tool_call_id,
                    name=call.name,
                    outcome=ToolDelegated(),
                    envelope="",
                )
            yield ToolFinished(result=result, duration_ms=1)


def a_house(*scripts: object, errors: Mapping[str, Exception], stuck: str = "") -> House:
    return House(
        scripts,  # pyright: ignore[reportArgumentType] - scripts of any kind
        tools=BreakingTools(
            definitions=(a_definition("get_price"), a_definition("subagent")),
            errors=errors,
            stuck=stuck,
        ),
        skills=FakeSkills(callable_tools=("get_price", "subagent")),
    )


def ends(events: Sequence[object]) -> dict[str, str]:
    """How each call ended: with the reason of its failure, else empty."""
    return {
        event.result.tool_call_id: event.result.outcome.reason
        if isinstance(event.result.outcome, ToolFailure)
        else ""
        for event in of_type(events, ToolCallFinished)
    }


def begun(events: Sequence[object]) -> list[str]:
    return [event.tool_call_id for event in of_type(events, ToolCallStarted)]


@pytest.mark.parametrize("error", PLAIN, ids=lambda error: type(error).__name__)
async def test_calls_that_the_tools_service_refuses_have_failed_and_the_turn_goes_on(
    error: MinaraError,
) -> None:
    house = a_house(calls(PRICE, PRICE, PRICE), says("sorry"), errors={"1.1": error})
    events = await house.play(a_turn())
    assert ends(events) == {"1.0": "", "1.1": error.reason, "1.2": error.reason}
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.STOP
    assert house.bugs == []


@pytest.mark.parametrize("error", PLAIN, ids=lambda error: type(error).__name__)
async def test_a_sub_agent_goes_on_after_calls_that_are_refused(error: MinaraError) -> None:
    house = a_house(
        calls(("subagent", TASK)),
        calls(PRICE),
        says("no price"),
        says("done"),
        errors={"1.0/1.0": error},
    )
    events = await house.play(a_turn())
    assert ends(events) == {"1.0/1.0": error.reason, "1.0": ""}
    assert isinstance(events[-1], TurnCompleted)
    assert house.bugs == []


async def test_a_bug_ends_the_turn_once_its_calls_are_told_to_have_failed() -> None:
    bug = RuntimeError("bug")
    house = a_house(calls(PRICE, PRICE), errors={"1.1": bug})
    events = await house.play(a_turn())
    assert ends(events) == {"1.0": "", "1.1": ErrorReason.INTERNAL}
    assert isinstance(events[-1], TurnFailed)
    assert house.bugs == [bug]


async def test_a_bug_in_a_sub_agent_is_reported_as_itself_and_leaves_no_call_open() -> None:
    bug = RuntimeError("bug")
    house = a_house(
        calls(("subagent", TASK), ("subagent", TASK)),
        calls(PRICE),
        calls(PRICE),
        errors={"1.0/1.0": bug},
        stuck="1.1/1.0",
    )
    events = await house.play(a_turn())
    assert sorted(begun(events)) == ["1.0", "1.0/1.0", "1.1", "1.1/1.0"]
    assert ends(events) == dict.fromkeys(begun(events), ErrorReason.INTERNAL)
    parents = [event.parent_tool_call_id for event in of_type(events, ToolCallFinished)]
    assert sorted(parents) == ["", "", "1.0", "1.1"]
    assert isinstance(events[-1], TurnFailed)
    assert house.bugs == [bug]


@pytest.mark.parametrize("reason", ELSEWHERE)
@pytest.mark.parametrize("call_id", ["1.0", "1.0/1.0", "1.0/1.0/1.0"])
async def test_a_turn_that_is_elsewhere_now_is_left_with_its_calls_open(
    reason: ErrorReason, call_id: str
) -> None:
    house = a_house(
        calls(("subagent", TASK), PRICE),
        calls(("subagent", TASK)),
        calls(PRICE),
        errors={call_id: Conflict("another process has the session", reason=reason)},
    )
    link = FakeLink()
    with pytest.raises(Conflict) as left:
        await house.play(a_turn(), link)
    assert left.value.reason is reason
    assert not {"1.0", "1.0/1.0", "1.0/1.0/1.0"} & set(ends(link.events))
    assert house.bugs == []


async def test_the_error_of_one_sub_agent_is_the_failure_of_its_call_only() -> None:
    def cannot(request: object) -> object:
        raise LimitExceeded("no room for one more")

    house = a_house(
        calls(("subagent", TASK), ("subagent", TASK)),
        cannot,
        says("found"),
        says("done"),
        errors={},
    )
    events = await house.play(a_turn())
    assert ends(events) == {"1.0": ErrorReason.RATE_LIMITED, "1.1": ""}
    assert isinstance(events[-1], TurnCompleted)
    assert house.bugs == []
