"""However a provider cuts its answer into fragments, the same message comes of it."""

from types import SimpleNamespace as Part
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minara_llm.anthropic_reply import AnthropicReply
from minara_llm.model import ModelEvent, ModelText, ModelToolCall
from minara_llm.openai_reply import ChatReply
from minara_llm.responses_reply import ResponsesReply

JSON = '{"symbol":"以太","amount":"0.10","note":"a \\"quoted\\" \u2028 line","list":[1,{"x":null}]}'
WORDS = "It is 𝒳 and \u2029 以太."


def cuts(text: str) -> st.SearchStrategy[list[str]]:
    """Every way to cut a text into parts, empty ones too."""
    places = st.lists(st.integers(0, len(text)), max_size=12).map(sorted)
    return places.map(
        lambda found: [
            text[start:end] for start, end in zip([0, *found], [*found, len(text)], strict=True)
        ]
    )


def summary(events: list[ModelEvent]) -> tuple[str, list[tuple[str, str]]]:
    return (
        "".join(event.text for event in events if isinstance(event, ModelText)),
        [(e.name, e.arguments_json) for e in events if isinstance(e, ModelToolCall)],
    )


def anthropic(words: list[str], arguments: list[list[str]]) -> list[Any]:
    events: list[Any] = [Part(type="content_block_start", index=0, content_block=_text_block())]
    events += [
        Part(type="content_block_delta", index=0, delta=Part(type="text_delta", text=part))
        for part in words
    ]
    events.append(Part(type="content_block_stop", index=0))
    for n, parts in enumerate(arguments, start=1):
        block = Part(type="tool_use", id=f"id{n}", name=f"tool{n}", input={})
        events.append(Part(type="content_block_start", index=n, content_block=block))
        events += [
            Part(
                type="content_block_delta",
                index=n,
                delta=Part(type="input_json_delta", partial_json=part),
            )
            for part in parts
        ]
        events.append(Part(type="content_block_stop", index=n))
    stop = Part(type="message_delta", delta=Part(stop_reason="tool_use"), usage=None)
    return [*events, stop]


def _text_block() -> Any:
    return Part(type="text", text="")


def chat(words: list[str], arguments: list[list[str]]) -> list[Any]:
    deltas: list[Any] = [Part(content=part, tool_calls=None) for part in words]
    for n, parts in enumerate(arguments, start=1):
        first = Part(index=n, id=f"id{n}", function=Part(name=f"tool{n}", arguments=None))
        rest = [Part(index=n, id=None, function=Part(name=None, arguments=p)) for p in parts]
        deltas += [Part(content=None, tool_calls=[fragment]) for fragment in (first, *rest)]
    chunks = [Part(choices=[Part(index=0, delta=d, finish_reason=None)]) for d in deltas]
    end = Part(index=0, delta=Part(content=None, tool_calls=None), finish_reason="tool_calls")
    return [*chunks, Part(choices=[end])]


def responses(words: list[str], arguments: list[list[str]]) -> list[Any]:
    def part(name: str, **fields: Any) -> Any:
        return Part(type=f"response.{name}", **fields)

    text = Part(type="output_text", text="".join(words))
    message = Part(type="message", id="m", content=[text])
    events = [part("output_text.delta", output_index=0, delta=each) for each in words]
    events.append(part("output_item.done", output_index=0, item=message))
    for n, parts in enumerate(arguments, start=1):
        item = Part(
            type="function_call", id=f"i{n}", call_id=f"c{n}", name=f"tool{n}", arguments=None
        )
        events += [
            part("function_call_arguments.delta", output_index=n, delta=each) for each in parts
        ]
        events.append(part("output_item.done", output_index=n, item=item))
    return [*events, part("completed", response=Part())]


EXPECTED = (WORDS, [("tool1", JSON), ("tool2", JSON)])


@given(words=cuts(WORDS), one=cuts(JSON), two=cuts(JSON))
def test_anthropic_fragments_add_up(words: list[str], one: list[str], two: list[str]) -> None:
    reply = AnthropicReply(model="m")
    told = [event for part in anthropic(words, [one, two]) for event in reply.take(part)]
    assert summary([*told, *reply.finish()]) == EXPECTED


@given(words=cuts(WORDS), one=cuts(JSON), two=cuts(JSON))
def test_chat_fragments_add_up(words: list[str], one: list[str], two: list[str]) -> None:
    reply = ChatReply(provider="openai", model="m")
    told = [event for part in chat(words, [one, two]) for event in reply.take(part)]
    assert summary([*told, *reply.finish()]) == EXPECTED


@given(words=cuts(WORDS), one=cuts(JSON), two=cuts(JSON))
def test_responses_fragments_add_up(words: list[str], one: list[str], two: list[str]) -> None:
    reply = ResponsesReply(provider="openai", model="m")
    told = [event for part in responses(words, [one, two]) for event in reply.take(part)]
    assert summary([*told, *reply.finish()]) == EXPECTED
