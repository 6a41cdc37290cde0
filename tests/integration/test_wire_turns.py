"""Whole turns over the real wire: real SDKs, a server as strict as the providers, and its faults.

After every fault the text is byte for byte what the model said, calls are byte for byte what it
wrote, nothing is told twice, and the server accepts the history of the next turn.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from minara_core.events import (
    FinishReason,
    ModelSwitched,
    Payload,
    StepStarted,
    TextDelta,
    TextReset,
    ToolCallStarted,
    TurnCompleted,
    UsageReported,
)
from minara_core.ids import TurnId
from minara_core.messages import Role
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ModelText, ModelThinking, ModelToolCall, StopReason
from minara_llm.openai import OpenAIModel
from minara_llm.providers import Closable
from minara_llm.responses import ResponsesModel
from minara_llm.wire.brain import Answer
from minara_llm.wire.faults import (
    BrokenJsonFault,
    ChunksFault,
    ErrorEventFault,
    Fault,
    HangUpFault,
    NoEndFault,
    NoiseFault,
    NoUsageFault,
    OddArgumentsFault,
    OddStopFault,
    OverflowFault,
    SilenceFault,
    SlowFault,
    SplitCharactersFault,
    StatusFault,
    TwiceEndedFault,
)
from minara_llm.wire.frames import ArgumentShape
from support.orchestrator.house import House, a_turn, of_type
from support.wire.provider import ScriptedProvider, a_provider

TEXT = "以太 \u2028 \u2029 \x85 𝒳 “quoted” \\ end\n\tso "
THOUGHT = "Let me think: 以太…"
ARGUMENTS = '{ "symbol":"BTC",\n "note" : "以太 \\u2028 \u2028 𝒳 \\\\", "amount": 0.10 }'
OTHER_ARGUMENTS = '{"symbol":"ETH"}'
SILENCE_SECONDS = 0.3

Maker = Callable[[ScriptedProvider], Closable]


def _anthropic(provider: ScriptedProvider) -> Closable:
    return AnthropicModel(
        api_key="key",
        name="claude-sonnet-5-5",
        base_url=provider.url,
        timeout_seconds=SILENCE_SECONDS,
    )


def _chat(provider: ScriptedProvider) -> Closable:
    return OpenAIModel(
        provider="openai",
        api_key="key",
        name="gpt-5.4",
        base_url=f"{provider.url}/v1",
        is_native=True,
        timeout_seconds=SILENCE_SECONDS,
    )


def _compatible(provider: ScriptedProvider) -> Closable:
    return OpenAIModel(
        provider="ollama",
        api_key="key",
        name="qwen3",
        base_url=f"{provider.url}/v1",
        timeout_seconds=SILENCE_SECONDS,
    )


def _responses(provider: ScriptedProvider) -> Closable:
    return ResponsesModel(
        provider="openai",
        api_key="key",
        name="gpt-6-sol",
        base_url=f"{provider.url}/v1",
        timeout_seconds=SILENCE_SECONDS,
    )


MAKERS: Mapping[str, Maker] = MappingProxyType(
    {"anthropic": _anthropic, "chat": _chat, "compatible": _compatible, "responses": _responses}
)

QUIET: Mapping[str, Fault] = MappingProxyType(
    {
        "byte_at_a_time": ChunksFault(size=1),
        "chunks_of_three": ChunksFault(size=3),
        "characters_split": SplitCharactersFault(),
        "noise_between": NoiseFault(),
        "no_usage": NoUsageFault(),
        "unknown_stop_reason": OddStopFault(),
        "ended_twice": TwiceEndedFault(),
        "slow": SlowFault(seconds=0.002),
        **{f"arguments_{shape.value}": OddArgumentsFault(shape=shape) for shape in ArgumentShape},
    }
)
"""Faults that nobody notices: one answer is enough."""

BEFORE: Mapping[str, Fault] = MappingProxyType(
    {
        "429": StatusFault(status=429),
        "429_retry_after": StatusFault(status=429, retry_after="3"),
        "429_retry_after_ms": StatusFault(status=429, retry_after_ms="1500"),
        "500": StatusFault(status=500),
        "503": StatusFault(status=503),
        "529": StatusFault(status=529),
        "error_event_at_once": ErrorEventFault(after_deltas=0),
        "reset_before_any_byte": HangUpFault(after_deltas=None),
        "closed_before_any_byte": HangUpFault(after_deltas=None, is_reset=False),
        "reset_before_the_first_delta": HangUpFault(after_deltas=0),
        "closed_before_the_first_delta": HangUpFault(after_deltas=0, is_reset=False),
        "silent_before_the_first_delta": SilenceFault(after_deltas=0),
    }
)
"""Faults before anything was said: the same model is asked again, and nobody notices."""

WITHIN: Mapping[str, Fault] = MappingProxyType(
    {
        "error_event_later": ErrorEventFault(after_deltas=3),
        "server_error_event_later": ErrorEventFault(
            name="server_error", message="The server had an error", after_deltas=3
        ),
        "reset_in_the_middle": HangUpFault(after_deltas=3),
        "closed_in_the_middle": HangUpFault(after_deltas=3, is_reset=False),
        "silent_in_the_middle": SilenceFault(after_deltas=3),
        "broken_json": BrokenJsonFault(after_deltas=3),
    }
)
"""Faults after words were told: those are voided, then another attempt speaks."""


def heard(events: Sequence[Payload]) -> list[str]:
    """The text of each step as a client has it that obeys text_reset."""
    texts: list[str] = []
    for event in events:
        match event:
            case StepStarted():
                texts.append("")
            case TextReset():
                texts[-1] = ""
            case TextDelta():
                texts[-1] += event.text
            case _:
                pass
    return texts


def said(*texts: str, **calls: str) -> Answer:
    thoughts = (ModelThinking(text=THOUGHT[:7]), ModelThinking(text=THOUGHT[7:]))
    return Answer(
        parts=(
            *thoughts,
            *(ModelText(text=text) for text in texts),
            *(ModelToolCall(name=name, arguments_json=text) for name, text in calls.items()),
        )
    )


PIECES = tuple(TEXT[start : start + 3] for start in range(0, len(TEXT), 3))
CALLING = said(*PIECES, get_price=ARGUMENTS, buy_token=OTHER_ARGUMENTS)
DONE = said("Done: ", *PIECES)
AGAIN = said("And again.")


@dataclass(frozen=True)
class Line:
    """A house whose model is a real adapter, and the provider at its other end."""

    house: House
    provider: ScriptedProvider


@asynccontextmanager
async def a_line(*apis: str) -> AsyncGenerator[Line]:
    """One house and one provider; its route has an adapter for each of `apis`."""
    async with a_provider() as provider:
        models = [MAKERS[api](provider) for api in apis]
        yield Line(House([], speakers=models), provider)
        for model in models:
            await model.aclose()


async def play_three(line: Line, *faults: Fault) -> list[Payload]:
    """A turn with two calls whose first question meets the faults, then one that must be accepted;
    returns the events of the first."""
    if faults:
        line.provider.meet(*faults)
    events = await line.house.play(a_turn("price?", turn_id="turn-1"))
    after = await line.house.play(a_turn("again?", turn_id="turn-2"))
    assert heard(after) == ["And again."]
    assert line.provider.broken == []
    return events


def asked_of(fault: Fault, times: int) -> list[Answer]:
    """What is answered to questions that meet the fault: nothing where it stands in its place."""
    return [] if fault.is_refusing else [CALLING] * times


def check_words(line: Line, events: Sequence[Payload]) -> None:
    assert heard(events) == [TEXT, f"Done: {TEXT}"]
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.STOP
    asked = [(call.name, call.arguments_json) for call in of_type(events, ToolCallStarted)]
    assert asked == [("get_price", ARGUMENTS), ("buy_token", OTHER_ARGUMENTS)]
    kept = line.house.workspace.records[TurnId("turn-1")].messages
    texts = [message.text for message in kept if message.role is Role.ASSISTANT]
    assert texts == [TEXT, f"Done: {TEXT}"]


@pytest.mark.parametrize("fault", QUIET)
@pytest.mark.parametrize("api", MAKERS)
async def test_what_a_parser_must_bear_changes_no_byte(api: str, fault: str) -> None:
    async with a_line(api) as line:
        line.provider.answer(CALLING, DONE, AGAIN)
        events = await play_three(line, QUIET[fault])
        check_words(line, events)
        assert not of_type(events, TextReset)
        assert all(u.usage.input_tokens > 0 for u in of_type(events, UsageReported))


@pytest.mark.parametrize("fault", BEFORE)
@pytest.mark.parametrize("api", MAKERS)
async def test_a_fault_before_the_first_word_is_tried_again_unseen(api: str, fault: str) -> None:
    async with a_line(api) as line:
        kind = BEFORE[fault]
        line.provider.answer(*asked_of(kind, 1), CALLING, DONE, AGAIN)
        events = await play_three(line, kind)
        check_words(line, events)
        assert not of_type(events, TextReset)
        waits = {"429_retry_after": [3.0], "429_retry_after_ms": [1.5]}
        if fault in waits:
            assert line.house.waits == waits[fault]
        assert len(line.house.waits) == 1


@pytest.mark.parametrize("fault", WITHIN)
@pytest.mark.parametrize("api", MAKERS)
async def test_a_fault_within_the_words_voids_them_and_another_attempt_speaks(
    api: str, fault: str
) -> None:
    async with a_line(api) as line:
        line.provider.answer(CALLING, CALLING, DONE, AGAIN)
        events = await play_three(line, WITHIN[fault])
        check_words(line, events)
        assert len(of_type(events, TextReset)) == 1


@pytest.mark.parametrize("fault", ["529", "reset_in_the_middle", "error_event_later"])
@pytest.mark.parametrize(("first", "second"), [
    (first, second) for first in MAKERS for second in MAKERS if first != second
])  # fmt: skip
async def test_a_provider_that_fails_twice_is_left_for_another_and_no_text_repeats(
    first: str, second: str, fault: str
) -> None:
    async with a_line(first, second) as line:
        kind = {**BEFORE, **WITHIN}[fault]
        line.provider.answer(*asked_of(kind, 2), CALLING, DONE, AGAIN)
        line.provider.meet(kind)
        line.provider.meet(kind)
        events = await play_three(line)
        check_words(line, events)
        assert len(of_type(events, ModelSwitched)) == 1
        models = {each.model for each in line.provider.exchanges if each.model}
        assert len(models) == 2


@pytest.mark.parametrize(("first", "second"), [
    (first, second) for first in MAKERS for second in MAKERS if first != second
])  # fmt: skip
async def test_the_provider_may_change_within_a_session_and_change_back(
    first: str, second: str
) -> None:
    async with a_line(first, second) as line:
        line.provider.answer(*[CALLING, DONE] * 4, AGAIN)
        models = line.house.speakers
        for number in range(4):
            line.house.speakers = [models[number % 2]]
            events = await line.house.play(a_turn(turn_id=f"turn-{number + 1}"))
            assert heard(events) == [TEXT, f"Done: {TEXT}"]
        line.house.speakers = [models[0]]
        assert heard(await line.house.play(a_turn(turn_id="turn-5"))) == ["And again."]
        assert all(exchange.refusal is None for exchange in line.provider.exchanges)


@pytest.mark.parametrize("api", MAKERS)
async def test_a_stream_without_its_last_event_is_whole_where_the_stop_was_said(api: str) -> None:
    async with a_line(api) as line:
        # Responses say how an answer ended in their last event alone: without it nothing is known.
        is_lost = api == "responses"
        line.provider.answer(*[CALLING] * (2 if is_lost else 1), DONE, AGAIN)
        events = await play_three(line, NoEndFault())
        check_words(line, events)
        assert bool(of_type(events, TextReset)) is is_lost


@pytest.mark.parametrize("api", MAKERS)
async def test_a_refusal_ends_the_turn_as_one(api: str) -> None:
    async with a_line(api) as line:
        line.provider.answer(
            Answer(parts=(ModelText(text="I will not."),), stop=StopReason.REFUSAL), AGAIN
        )
        events = await play_three(line)
        completed = events[-1]
        assert isinstance(completed, TurnCompleted)
        assert completed.finish_reason is FinishReason.REFUSAL


@pytest.mark.parametrize("api", MAKERS)
async def test_an_overflow_climbs_the_ladder_and_asks_again(api: str) -> None:
    async with a_line(api) as line:
        line.provider.answer(*[CALLING, DONE] * 4, said("It fits."), AGAIN)
        for number in range(4):
            await line.house.play(a_turn(f"turn {number} {'x' * 500}", turn_id=f"old-{number}"))
        line.provider.meet(OverflowFault())
        events = await line.house.play(a_turn("more", turn_id="turn-1"))
        assert heard(events) == ["It fits."]
        assert heard(await line.house.play(a_turn(turn_id="turn-2"))) == ["And again."]


@pytest.mark.parametrize("api", MAKERS)
async def test_an_empty_answer_leaves_a_history_that_is_accepted(api: str) -> None:
    async with a_line(api) as line:
        line.provider.answer(Answer(parts=(ModelText(text=" \n"),)), AGAIN)
        await play_three(line)


@pytest.mark.parametrize("api", MAKERS)
async def test_a_turn_cut_in_the_middle_of_its_words_leaves_a_history_that_is_accepted(
    api: str,
) -> None:
    async with a_line(api) as line:
        line.provider.answer(CALLING, CALLING, AGAIN)
        for _ in range(2):
            line.provider.meet(HangUpFault(after_deltas=4))
        await play_three(line)
