"""A sub-agent works within its turn: with fewer tools, a share of the budget, its own history."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from typing_extensions import override

from minara_core.events import (
    FinishReason,
    StepStarted,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    UsageReported,
)
from minara_core.ids import ToolCallId
from minara_core.messages import Role, ToolResultBlock
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import (
    ToolCall,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)
from minara_core.turn_context import TurnContext
from minara_llm.model import ModelRequest
from minara_llm.scripted import Events, ScriptedModel, calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.domain.turn import Limits, Stop
from support.orchestrator.house import FakeLink, House, a_turn, of_type, past_of
from support.orchestrator.peers import FakeSkills, FakeTools, a_definition, answers

WORDS = "Find the price of BTC."
TASK = {"task": WORDS, "tool_sets": ["read"]}
PRICE = ("get_price", {"symbol": "BTC"})
DEFINITIONS = (
    a_definition("buy_token", PermissionTier.ALWAYS_CONFIRM),
    a_definition("get_price"),
    a_definition("subagent"),
)
CALLABLE = ("buy_token", "get_price", "subagent")


def delegates(call: ToolCall) -> ToolResult:
    """The tools service passes sub-agents on."""
    if call.name != "subagent":
        return answers(call)
    return ToolResult(
        tool_call_id=call.tool_call_id, name=call.name, outcome=ToolDelegated(), envelope=""
    )


def a_house(*scripts: object, limits: Limits | None = None) -> House:
    return House(
        scripts,  # pyright: ignore[reportArgumentType] - scripts of any kind
        tools=FakeTools(definitions=DEFINITIONS, respond=delegates),
        skills=FakeSkills(callable_tools=CALLABLE),
        limits=limits or Limits(),
    )


async def test_a_sub_agent_answers_with_its_last_words_and_sees_nothing_of_the_conversation() -> (
    None
):
    house = a_house(
        calls(("subagent", TASK), text="I will have that looked up. "),
        calls(("get_price", {"symbol": "BTC"}), text="Looking. "),
        says("BTC is 100,000."),
        says("It is 100,000."),
    )
    events = await house.play(a_turn("What is my secret word? Also the price of BTC."))
    asked = house.model.requests[1]
    said = " ".join(message.text for message in asked.messages)
    assert "secret word" not in said
    assert WORDS in said
    assert asked.system == house.model.requests[0].system
    assert asked.tools == house.model.requests[0].tools
    assert "buy_token" not in (asked.callable_tools or ())
    results = [
        block.envelope
        for message in house.model.requests[3].messages
        if message.role is Role.TOOL
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]
    assert len(results) == 1
    assert "BTC is 100,000." in results[0]
    assert results[0].startswith("<untrusted")
    assert isinstance(events[-1], TurnCompleted)


async def test_its_calls_have_ids_below_the_call_that_started_it() -> None:
    house = a_house(
        calls(("subagent", TASK)),
        calls(("get_price", {"symbol": "BTC"})),
        says("found"),
        says("done"),
    )
    events = await house.play(a_turn())
    started = [(e.tool_call_id, e.parent_tool_call_id) for e in of_type(events, ToolCallStarted)]
    assert started == [("1.0", ""), ("1.0/1.0", "1.0")]
    finished = [event.result.tool_call_id for event in of_type(events, ToolCallFinished)]
    assert finished == ["1.0/1.0", "1.0"]
    assert [event.step for event in of_type(events, StepStarted)] == [1, 2]
    assert [event.text for event in of_type(events, TextDelta)] == ["done"]


async def test_what_it_uses_is_the_turns() -> None:
    usage = TokenUsage(input_tokens=10, output_tokens=5, cost_usd=Decimal("0.01"))
    house = a_house(
        calls(("subagent", TASK), usage=usage),
        calls(("get_price", {}), usage=usage),
        says("found", usage=usage),
        says("done", usage=usage),
    )
    await house.play(a_turn())
    (record,) = house.workspace.records.values()
    assert record.usage == TokenUsage(input_tokens=40, output_tokens=20, cost_usd=Decimal("0.04"))


async def test_it_may_use_half_of_what_is_left() -> None:
    endless = [calls(("get_price", {})) for _ in range(30)]
    house = a_house(
        calls(("subagent", {**TASK, "max_steps": 12})),
        *endless[:4],
        says("what I have"),
        says("done"),
        limits=Limits(max_tool_calls=9),
    )
    events = await house.play(a_turn())
    nested = [e for e in of_type(events, ToolCallStarted) if e.parent_tool_call_id]
    ran = [
        event.result
        for event in of_type(events, ToolCallFinished)
        if event.parent_tool_call_id and isinstance(event.result.outcome, ToolSuccess)
    ]
    assert len(ran) == 4
    assert len(nested) == 4
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.STOP


@pytest.mark.parametrize("tool_sets", [["trade"], ["web"]])
async def test_it_has_no_tools_that_move_money_and_none_that_its_turn_has_not(
    tool_sets: list[str],
) -> None:
    house = a_house(calls(("subagent", {**TASK, "tool_sets": tool_sets})), says("done"))
    events = await house.play(a_turn())
    (finished,) = of_type(events, ToolCallFinished)
    assert isinstance(finished.result.outcome, ToolFailure)


async def test_sub_agents_have_sub_agents_of_their_own_but_no_deeper() -> None:
    house = a_house(
        calls(("subagent", TASK)),
        calls(("subagent", TASK)),
        calls(("get_price", {})),
        says("deepest"),
        says("deeper"),
        says("done"),
    )
    events = await house.play(a_turn())
    names = [(e.tool_call_id, e.name) for e in of_type(events, ToolCallStarted)]
    assert names == [
        ("1.0", "subagent"),
        ("1.0/1.0", "subagent"),
        ("1.0/1.0/1.0", "get_price"),
    ]
    callable_at = [request.callable_tools or () for request in house.model.requests]
    assert "subagent" in callable_at[1]
    assert "subagent" not in callable_at[2]


async def test_sub_agents_of_one_step_share_the_half() -> None:
    both = calls(("subagent", TASK), ("subagent", TASK))
    model = ScriptedModel([both, says("a"), says("b"), says("c")])
    house = a_house(limits=Limits(max_output_tokens=8_000))
    house.speakers = [model]
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnCompleted)
    assert [request.max_output_tokens <= 2_000 for request in model.requests[1:3]] == [True, True]
    assert len(of_type(events, UsageReported)) == 2


async def test_a_turn_that_stops_stops_its_sub_agents() -> None:
    link = FakeLink()

    def stops(request: object) -> object:
        link.stop.request(Stop.INTERRUPT)
        return calls(("get_price", {}))

    house = a_house(calls(("subagent", TASK)), stops)
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.INTERRUPTED
    data = [
        json.loads(event.result.outcome.data_json)
        for event in of_type(events, ToolCallFinished)
        if isinstance(event.result.outcome, ToolSuccess)
    ]
    assert [each["finish_reason"] for each in data] == ["interrupted"]


async def test_a_sub_agent_that_was_cut_off_begins_anew_under_other_ids() -> None:
    link = FakeLink()
    house = a_house(
        calls(("subagent", TASK)), calls(("get_price", {"symbol": "BTC"})), says("x"), says("done")
    )
    await house.play(a_turn(), link)
    nested = next(
        place
        for place, each in enumerate(link.log)
        if isinstance(each, ToolCallStarted) and each.parent_tool_call_id
    )
    again = a_house(calls(("get_price", {"symbol": "ETH"})), says("y"), says("done"))
    events = await again.play(a_turn(), FakeLink(past=past_of(link.log[: nested + 1])))
    assert [event.tool_call_id for event in of_type(events, ToolCallStarted)] == ["1.0/2.0"]
    finished = [event.result.tool_call_id for event in of_type(events, ToolCallFinished)]
    assert finished == ["1.0/1.0", "1.0/2.0", "1.0"]
    assert isinstance(events[-1], TurnCompleted)


async def test_nothing_is_begun_or_sent_beyond_the_turns_calls() -> None:
    house = a_house(
        calls(("subagent", TASK), ("subagent", TASK)),
        calls(*[PRICE] * 10),
        limits=Limits(max_tool_calls=2),
    )
    events = await house.play(a_turn())
    assert [[call.tool_call_id for call in batch.calls] for batch in house.tools.batches] == [
        ["1.0", "1.1"]
    ]
    ended = [event.result for event in of_type(events, ToolCallFinished)]
    failed = [each.outcome.reason for each in ended[:2] if isinstance(each.outcome, ToolFailure)]
    assert failed == ["BUDGET_EXCEEDED", "BUDGET_EXCEEDED"]
    assert all(isinstance(each.outcome, ToolDenial) for each in ended[2:])
    assert len(ended) == 12
    assert isinstance(events[-1], TurnCompleted)


async def test_a_sub_agent_that_may_not_ask_once_has_failed() -> None:
    spent = TokenUsage(input_tokens=10, output_tokens=999, cost_usd=Decimal("0.01"))
    house = a_house(
        calls(("subagent", TASK), usage=spent),
        says("done"),
        limits=Limits(max_output_tokens=1_000),
    )
    events = await house.play(a_turn())
    (finished,) = of_type(events, ToolCallFinished)
    assert isinstance(finished.result.outcome, ToolFailure)
    assert finished.result.outcome.reason == "BUDGET_EXCEEDED"
    assert len(house.model.requests) == 2


@dataclass
class CrowdedTools(FakeTools):
    """Answers prices to four at a time; `most` have called at once."""

    four: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(4))
    here: int = 0
    most: int = 0

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.here += 1
        self.most = max(self.most, self.here)
        for call in batch.calls:
            if call.name == "get_price":
                await self.four.wait()
            yield ToolFinished(result=delegates(call), duration_ms=1)
        self.here -= 1


async def test_four_sub_agents_of_a_turn_work_at_once_however_deep_they_lie() -> None:
    def speaks(request: ModelRequest) -> Events:
        if any(message.tool_calls for message in request.messages):
            return says("ok")
        words = " ".join(message.text for message in request.messages)
        if "the deepest" in words:
            return calls(PRICE)
        below, count = ("the deepest", 2) if "the middle" in words else ("the middle", 8)
        return calls(*[("subagent", {**TASK, "task": below})] * count)

    tools = CrowdedTools(definitions=DEFINITIONS)
    house = House(
        [speaks] * 100,
        tools=tools,
        skills=FakeSkills(callable_tools=CALLABLE),
        limits=Limits(max_tool_calls=5_000, max_output_tokens=10_000_000),
    )
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnCompleted)
    ran = [e for e in of_type(events, ToolCallFinished) if e.result.name == "get_price"]
    assert len(ran) == 16
    assert tools.most == 4


async def test_what_was_told_of_a_sub_agent_stands_when_the_turn_is_taken_over() -> None:
    def house_of(life: str) -> House:
        def speaks(request: ModelRequest) -> Events:
            words = " ".join(message.text for message in request.messages)
            is_done = any(message.tool_calls for message in request.messages)
            if WORDS in words:
                return says(f"found in the {life} life") if is_done else calls(PRICE)
            return says("done") if is_done else calls(("subagent", TASK), ("subagent", TASK))

        return a_house(*[speaks] * 10)

    first, link = house_of("first"), FakeLink()
    await first.play(a_turn(), link)
    cut = 1 + next(
        place
        for place, each in enumerate(link.log)
        if isinstance(each, ToolCallFinished) and each.result.name == "subagent"
    )
    told = link.log[cut - 1]
    assert isinstance(told, ToolCallFinished)
    again, after = house_of("second"), FakeLink(past=past_of(link.log[:cut]))
    await again.play(a_turn(), after)
    assert [call.tool_call_id for call in again.tools.batches[0].calls] == ["1.1"]
    (record,) = again.workspace.records.values()
    kept = {
        block.tool_call_id: block.envelope
        for message in record.messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    }
    assert told.result.envelope in kept[told.result.tool_call_id]
    assert "found in the first life" in kept[ToolCallId("1.0")]
    assert "found in the second life" in kept[ToolCallId("1.1")]
