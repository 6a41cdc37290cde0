"""A Responses item is told once, however its events name it and in whatever order they come."""

from itertools import permutations, product
from types import SimpleNamespace as Part
from typing import Any

import pytest

from minara_llm.model import ModelEvent, ModelText, ModelToolCall
from minara_llm.responses_reply import ResponsesReply

FORMS = list(product(("right", "shifted", "missing"), (True, False), (True, False)))
"""Places in the stream; whether it has ids; whether the last event has."""

ORDERS = list(permutations(range(3)))


def a_call(number: int, *, has_ids: bool = True) -> Part:
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"} if has_ids else {}
    return Part(type="function_call", name="buy_token", arguments=f'{{"amount":"{number}"}}', **ids)


def a_message(*, has_ids: bool = True) -> Part:
    ids = {"id": "msg_1"} if has_ids else {}
    return Part(type="message", content=[Part(type="output_text", text="Hello")], **ids)


def items(*, has_ids: bool) -> list[Part]:
    return [
        a_message(has_ids=has_ids),
        a_call(1, has_ids=has_ids),
        a_call(2, has_ids=has_ids),
    ]


def an_event(kind: str, place: int, form: str, **fields: Any) -> Part:
    index = {"right": {"output_index": place}, "shifted": {"output_index": place + 1}}
    return Part(type=f"response.{kind}", **index.get(form, {}), **fields)


def streamed(form: str, *, has_ids: bool) -> list[list[Part]]:
    """The events of each item."""
    found: list[list[Part]] = []
    for place, item in enumerate(items(has_ids=has_ids)):
        events = [an_event("output_item.added", place, form, item=item)]
        ids = {"item_id": item.id} if has_ids else {}
        if item.type == "message":
            events.append(an_event("output_text.delta", place, form, delta="Hello", **ids))
        events.append(an_event("output_item.done", place, form, item=item))
        found.append(events)
    return found


def summary(events: list[ModelEvent]) -> tuple[str, list[str]]:
    text = "".join(event.text for event in events if isinstance(event, ModelText))
    return text, [e.arguments_json for e in events if isinstance(e, ModelToolCall)]


def heard(events: list[Part], output: list[Part]) -> tuple[str, list[str]]:
    reply = ResponsesReply(provider="openai", model="m")
    told = [each for event in events for each in reply.take(event)]
    told += reply.take(Part(type="response.completed", response=Part(output=output)))
    return summary([*told, *reply.finish()])


WHOLE = ("Hello", ['{"amount":"1"}', '{"amount":"2"}'])


@pytest.mark.parametrize(("form", "in_stream", "at_end"), FORMS)
def test_an_item_is_told_once(form: str, in_stream: bool, at_end: bool) -> None:
    events = [event for each in streamed(form, has_ids=in_stream) for event in each]
    assert heard(events, items(has_ids=at_end)) == WHOLE
    assert heard(events, []) == WHOLE


@pytest.mark.parametrize(("form", "in_stream", "at_end"), FORMS)
def test_what_the_stream_left_out_is_told_at_the_end(
    form: str, in_stream: bool, at_end: bool
) -> None:
    message, first, _ = streamed(form, has_ids=in_stream)
    assert heard([*message, *first], items(has_ids=at_end)) == WHOLE
    assert heard([], items(has_ids=at_end)) == WHOLE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", ["right", "shifted", "missing"])
def test_the_end_may_repeat_items_in_another_order(form: str, order: tuple[int, ...]) -> None:
    events = [event for each in streamed(form, has_ids=True) for event in each]
    output = [items(has_ids=True)[place] for place in order]
    text, calls = heard(events, output)
    assert text == "Hello"
    assert calls == [item.arguments for item in output if item.type == "function_call"]


@pytest.mark.parametrize("order", ORDERS)
def test_items_may_come_in_any_order(order: tuple[int, ...]) -> None:
    each = streamed("right", has_ids=True)
    assert heard([event for place in order for event in each[place]], []) == WHOLE


@pytest.mark.parametrize("has_ids", [True, False])
def test_an_item_that_is_done_twice_is_told_once(has_ids: bool) -> None:
    done = [events[-1] for events in streamed("right", has_ids=has_ids)]
    assert heard([event for each in done for event in (each, each)], []) == WHOLE


def test_a_call_that_the_end_names_otherwise_is_told_once() -> None:
    events = [event for each in streamed("right", has_ids=True) for event in each]
    renamed = [a_call(1), a_call(2)]
    for number, item in enumerate(renamed):
        item.id, item.call_id = f"fc_x{number}", f"call_x{number}"
    assert heard(events, [a_message(), *renamed]) == WHOLE


def test_two_calls_at_one_place_are_two() -> None:
    each = [an_event("output_item.added", 0, "right", item=a_call(n)) for n in (1, 2)]
    each += [an_event("output_item.done", 0, "right", item=a_call(n)) for n in (1, 2)]
    assert heard(each, [a_call(1), a_call(2)])[1] == WHOLE[1]
