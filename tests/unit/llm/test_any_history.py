"""Whatever a transcript holds, each API's rules accept what is made of it, and it only grows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from minara_core.ids import ToolCallId
from minara_core.messages import (
    Block,
    FileBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    user_message,
)
from minara_core.tooling import ToolCall
from minara_llm.anthropic_request import DOCUMENTS, MessagesDialect, messages_request
from minara_llm.model import FileContent, ModelRequest
from minara_llm.openai_request import ChatDialect, chat_body
from minara_llm.prices import facts_of
from minara_llm.responses_request import ResponsesDialect, responses_body
from minara_llm.sent_files import accepted_files
from minara_llm.wire.chat_checks import check_chat
from minara_llm.wire.memory import Memory
from minara_llm.wire.messages_checks import check_messages
from minara_llm.wire.models import WIRE_MODELS, model_named
from minara_llm.wire.responses_checks import check_responses
from minara_llm.wire.signatures import Signer
from support.wire.requests import a_request

FILES = {
    "a": FileContent(name="", media_type="image/png", content=b"\x89PNG\r\n\x1a\n"),
    "b": FileContent(name="b\ud83c", media_type="application/pdf", content=b"%PDF-1"),
    "c": FileContent(name="c", media_type="text/plain", content=b" \xff"),
}

words = st.sampled_from(["", " \n", "hello", "以太 \u2028", "a\ud83cb", "\0"])
arguments = st.sampled_from(["{}", "", '{"a":1}', "{oops", "[1]", '{"a":NaN}', '{"a":"\\udf78"}'])
names = st.sampled_from(["get_price", "no such tool", "", "以太"])
call_ids = st.sampled_from(["1.0", "1.1", "2.0"])


states = st.sampled_from(["none", "messages", "chat", "responses"])
provider_ids = st.sampled_from(
    [
        *("toolu_1", "toolu_2", "call_1", "fc_1", "fc_2", "call_m0c0", "call_m2c0"),
        *("functions.get_price:0", "x" * 41, "x" * 65, "以太", "", None, 5),
    ]
)


def a_state(api: str, message: Message, ids: Sequence[Any]) -> str:
    """What an adapter kept of a message whose calls some server gave these ids."""
    names = [call.name for call in message.tool_calls]
    own, others = ids[: len(names)], ids[len(names) :]
    match api:
        case "messages":
            uses = [
                {"type": "tool_use", "id": own_id, "name": name}
                for own_id, name in zip(own, names, strict=True)
            ]
            state = {"provider": "anthropic", "model": "m", "content": uses}
        case "chat":
            state = {"provider": "p", "model": "m", "tool_call_ids": own}
        case "responses":
            calls = [
                {"type": "function_call", "id": item_id, "call_id": own_id, "name": name}
                for item_id, own_id, name in zip(others, own, names, strict=True)
            ]
            state = {"provider": "openai", "model": "gpt-6-sol", "items": calls}
        case _:
            return ""
    return json.dumps(state)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    role = draw(st.sampled_from(list(Role)))
    blocks: list[Block] = [TextBlock(text) for text in draw(st.lists(words, max_size=2))]
    match role:
        case Role.ASSISTANT:
            blocks.append(ThinkingBlock(draw(words)))
            for place in draw(st.lists(call_ids, max_size=3, unique=True)):
                call = ToolCall(
                    tool_call_id=ToolCallId(place),
                    name=draw(names),
                    arguments_json=draw(arguments),
                )
                blocks.append(ToolCallBlock(call))
        case Role.TOOL:
            blocks += [
                ToolResultBlock(
                    tool_call_id=ToolCallId(place),
                    envelope=draw(words),
                    is_error=draw(st.booleans()),
                )
                for place in draw(st.lists(call_ids, max_size=3))
            ]
        case Role.USER:
            keys = draw(st.lists(st.sampled_from(["a", "b", "c", "gone"]), max_size=2))
            blocks += [FileBlock(file_key=key, media_type="x/y") for key in keys]
        case Role.CONTEXT:
            pass
    message = Message(role=role, blocks=tuple(blocks))
    if role is not Role.ASSISTANT:
        return message
    ids = [draw(provider_ids) for _ in range(2 * len(message.tool_calls))]
    return replace(message, provider_state=a_state(draw(states), message, ids))


histories = st.lists(messages(), max_size=10)
tools = st.sampled_from([{}, {"tools": ()}, {"callable_tools": ()}])


def asked(model: str, history: Sequence[Message], **changes: Any) -> ModelRequest:
    return a_request(*history, user_message("and now?"), model=model, files=FILES, **changes)


def check(model: str, body: dict[str, Any], rules: Callable[..., None], *memory: Memory) -> None:
    """Raises what the API would answer."""
    known = model_named(WIRE_MODELS, model)
    assert known is not None
    # Over the wire and back: whatever cannot be encoded fails here.
    sent = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "strict")
    rules(json.loads(sent), known, *memory)


@settings(max_examples=300)
@given(histories, st.sampled_from(["claude-sonnet-5-5", "claude-haiku-4-5"]), tools)
def test_messages_accept_any_history(
    history: list[Message], model: str, changes: dict[str, Any]
) -> None:
    facts = facts_of(model)
    dialect = MessagesDialect(
        carries_system=model == "claude-sonnet-5-5",
        accepted=accepted_files(facts, DOCUMENTS, takes_images=None),
    )
    body = messages_request(asked(model, history, **changes), dialect, facts).body
    check(model, body, check_messages, Memory(Signer(b"k")))


@settings(max_examples=300)
@given(histories, st.sampled_from(["gpt-6-sol", "qwen3"]), tools)
def test_chat_accepts_any_history(
    history: list[Message], model: str, changes: dict[str, Any]
) -> None:
    is_native, facts = model == "gpt-6-sol", facts_of(model)
    accepted = accepted_files(facts, frozenset({"application/pdf"}), takes_images=True)
    dialect = ChatDialect(provider="p", is_native=is_native, accepted=accepted)
    check(model, chat_body(asked(model, history, **changes), dialect, facts), check_chat)


@settings(max_examples=300)
@given(histories, tools)
def test_responses_accept_any_history(history: list[Message], changes: dict[str, Any]) -> None:
    model = "gpt-6-sol"
    facts = facts_of(model)
    accepted = accepted_files(facts, DOCUMENTS, takes_images=None)
    dialect = ResponsesDialect(provider="openai", accepted=accepted)
    body = responses_body(asked(model, history, **changes), dialect, facts)
    check(model, body, check_responses, Memory(Signer(b"k")))
