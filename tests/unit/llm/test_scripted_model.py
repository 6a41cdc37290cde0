import json
from collections.abc import Iterator

import pytest

from minara_core.events import TokenUsage
from minara_core.messages import user_message
from minara_llm.model import (
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.scripted import ScriptedModel, calls, says


def _request(text: str = "hello") -> ModelRequest:
    return ModelRequest(
        model="scripted",
        system=(),
        tools=(),
        messages=(user_message(text),),
        max_output_tokens=100,
        session_id="session",
    )


async def _play(model: ScriptedModel, text: str = "hello") -> list[ModelEvent]:
    return [event async for event in model.stream(_request(text))]


async def test_scripts_are_played_in_order_and_requests_kept() -> None:
    model = ScriptedModel([calls(("get_price", {"symbol": "BTC"})), says("90", "000")])
    first = await _play(model, "one")
    second = await _play(model, "two")
    assert first[0] == ModelToolCall(name="get_price", arguments_json='{"symbol": "BTC"}')
    assert first[-1] == ModelStop(reason=StopReason.TOOL_CALLS)
    assert second[:2] == [ModelText(text="90"), ModelText(text="000")]
    assert second[-1] == ModelStop(reason=StopReason.END)
    assert [request.messages[0].text for request in model.requests] == ["one", "two"]
    model.assert_exhausted()


async def test_every_script_reports_usage_before_it_stops() -> None:
    usage = TokenUsage(input_tokens=7)
    for script in (says("a", usage=usage), calls(("t", {}), usage=usage)):
        events = await _play(ScriptedModel([script]))
        assert events[-2] == ModelUsage(usage=usage)


async def test_a_call_without_a_script_fails_loudly() -> None:
    model = ScriptedModel([says("only")])
    await _play(model)
    with pytest.raises(AssertionError, match="call 2"):
        await _play(model)


async def test_a_script_without_a_call_fails_loudly() -> None:
    model = ScriptedModel([says("one"), says("two")])
    await _play(model)
    with pytest.raises(AssertionError, match="1 scripts"):
        model.assert_exhausted()


async def test_an_exception_is_raised_as_given() -> None:
    failure = ModelFailure("too many", kind=FailureKind.RATE_LIMITED)
    with pytest.raises(ModelFailure) as caught:
        await _play(ScriptedModel([failure]))
    assert caught.value is failure


async def test_a_function_sees_the_request() -> None:
    def echo(request: ModelRequest) -> Iterator[ModelEvent]:
        yield ModelText(text=request.messages[-1].text)
        yield ModelStop(reason=StopReason.END)

    events = await _play(ScriptedModel([echo]), "repeat me")
    assert events[0] == ModelText(text="repeat me")


async def test_calls_may_follow_text_and_keep_every_script() -> None:
    events = await _play(
        ScriptedModel([calls(("a", {"x": "1"}), ("b", {"名": "幣"}), text="let me look")])
    )
    assert events[0] == ModelText(text="let me look")
    asked = [event for event in events if isinstance(event, ModelToolCall)]
    assert [(one.name, json.loads(one.arguments_json)) for one in asked] == [
        ("a", {"x": "1"}),
        ("b", {"名": "幣"}),
    ]


def test_a_model_tells_its_name_provider_and_window() -> None:
    model = ScriptedModel([], provider="p", name="n", context_window=10)
    assert (model.provider, model.name, model.context_window) == ("p", "n", 10)
