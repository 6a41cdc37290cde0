"""Scripts of a wire server as a person writes them."""

import pytest

from minara_core.errors import InvalidRequest
from minara_llm.model import ModelText, ModelThinking, ModelToolCall, StopReason
from minara_llm.wire.brain import Answer
from minara_llm.wire.faults import (
    ChunksFault,
    NoiseFault,
    OddArgumentsFault,
    SlowFault,
    StatusFault,
)
from minara_llm.wire.frames import ArgumentShape
from minara_llm.wire.scripts import FAULTS, Line, read_script


def test_an_answer_is_thought_then_said_then_called() -> None:
    (line,) = read_script(
        '[{"thinking": "Hm.", "texts": ["Let ", "me."], "stop": "tool_calls",'
        ' "calls": [{"name": "get_price", "arguments": {"symbol": "以太"}}, {"name": "x"}]}]'
    )
    assert line.answer == Answer(
        parts=(
            ModelThinking(text="Hm."),
            ModelText(text="Let "),
            ModelText(text="me."),
            ModelToolCall(name="get_price", arguments_json='{"symbol":"以太"}'),
            ModelToolCall(name="x", arguments_json="{}"),
        ),
        stop=StopReason.TOOL_CALLS,
    )


def test_arguments_may_be_any_text() -> None:
    (line,) = read_script('[{"calls": [{"name": "x", "arguments": "{oops"}]}]')
    assert line.answer.tool_calls[0].arguments_json == "{oops"


def test_faults_are_named_or_have_fields() -> None:
    (line,) = read_script(
        '[{"texts": "Hi.", "faults": ["noise", {"fault": "status", "status": 429,'
        ' "retry_after": "7"}, {"fault": "slow", "seconds": 1}, {"fault": "chunks"},'
        ' {"fault": "odd_arguments", "shape": "null_ids"}]}]'
    )
    assert line == Line(
        answer=Answer(parts=(ModelText(text="Hi."),)),
        faults=(
            NoiseFault(),
            StatusFault(status=429, retry_after="7"),
            SlowFault(seconds=1),
            ChunksFault(size=1),
            OddArgumentsFault(shape=ArgumentShape.NULL_IDS),
        ),
    )


@pytest.mark.parametrize("name", sorted(set(FAULTS) - {"status", "slow"}))
def test_every_fault_but_those_with_a_figure_needs_only_its_name(name: str) -> None:
    (line,) = read_script(f'[{{"faults": ["{name}"]}}]')
    assert isinstance(line.faults[0], FAULTS[name])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("{}", "a script is a list"),
        ("[1]", "answer 1: an object"),
        ('[{"text": "x"}]', "answer 1 has no 'text'"),
        ('[{}, {"texts": [1]}]', "answer 2, texts"),
        ('[{"calls": {}}]', "answer 1, calls: a list"),
        ('[{"calls": [{}]}]', "a call has a name"),
        ('[{"stop": "soon"}]', "stop: one of"),
        ('[{"faults": ["rain"]}]', "'rain' is none of status,"),
        ('[{"faults": ["slow"]}]', "'slow' has the fields"),
        ('[{"faults": [{"fault": "slow", "hours": 1}]}]', "'slow' has the fields"),
        ('[{"faults": [{"fault": "slow", "seconds": "1"}]}]', "cannot have '1' as its seconds"),
        ('[{"faults": [{"fault": "odd_arguments", "shape": "round"}]}]', "cannot have 'round'"),
    ],
)
def test_what_is_no_script_is_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_script(text)
    assert words in caught.value.message
