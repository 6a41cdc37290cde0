"""The hundred messages with every tool failing: that is told, and nothing is made up."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.messages import Message, user_message
from minara_core.tooling import err
from minara_llm.offline.phrases import all_phrases
from support.hundred import HundredMessage, hundred_messages
from support.invented import invented_numbers
from support.offline_talk import Reply, a_request, reply, tool_messages

WITH_CALLS = [one for one in hundred_messages() if one.calls]
MOST_STEPS = 6

FAILURES = {
    "failed": (err("PRICE_UNAVAILABLE: the source does not answer"), "the source does not answer."),
    "denied": (err("SCOPE_DENIED: this is not allowed here"), "this is not allowed here."),
    "broke": (err("INTERNAL: the tool broke; reference r-77"), "reference r-77."),
    "no_code": (err("nothing came back"), "nothing came back."),
}
UNREADABLE = (
    "",
    "not json",
    "[]",
    '{"ok":true,"data":{}}',
    '{"ok":true,"data":{"price":null,"open_orders":null}}',
)


async def said_when_all_fail(message: HundredMessage, envelope: str) -> tuple[str, list[str]]:
    """Everything that is said until the turn ends, and the tools that were called."""
    messages: list[Message] = [user_message(message.text)]
    texts: list[str] = []
    called: list[str] = []
    for step in range(1, MOST_STEPS):
        said = await reply(a_request(messages))
        texts.append(said.text)
        if not said.calls:
            return "\n".join(texts), called
        called += [name for name, _ in said.calls]
        messages += _answered(said, envelope, step)
    raise AssertionError(f"{message.text} never ends")


def _answered(said: Reply, envelope: str, step: int) -> Sequence[Message]:
    return tool_messages(
        [(name, envelope) for name, _ in said.calls],
        step,
        arguments=[arguments for _, arguments in said.calls],
        said=said.text,
    )


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failure_is_told_for_every_tool_and_no_number_is_made_up(kind: str) -> None:
    envelope, sentence = FAILURES[kind]
    assert len(WITH_CALLS) >= 34
    for message in WITH_CALLS:
        answer, called = await said_when_all_fail(message, envelope)
        code = json.loads(envelope)["error"].partition(": ")[0]
        assert sentence in answer, message.text
        assert kind == "no_code" or code in answer, message.text
        assert all(name in answer for name in called), message.text
        assert invented_numbers(answer, message.text, [envelope]) == [], message.text
        assert all_phrases()[message.locale]["pending"] not in answer, message.text


@pytest.mark.parametrize("envelope", UNREADABLE)
async def test_an_unreadable_answer_is_called_so_and_filled_with_nothing(envelope: str) -> None:
    for message in WITH_CALLS:
        answer, called = await said_when_all_fail(message, envelope)
        unreadable = all_phrases()[message.locale]["unreadable"]
        for name in called:
            assert unreadable.format(tool=name) in answer, message.text
        assert all_phrases()[message.locale]["no_open_order"] not in answer, message.text
        assert invented_numbers(answer, message.text, [envelope]) == [], message.text


async def test_what_failed_is_told_beside_what_did_not() -> None:
    price = '{"ok":true,"data":{"symbol":"BTC","price":"90000","currency":"USD"}}'
    failed = err("VENUE_UNAVAILABLE: the venue does not answer")
    made = tool_messages(
        [("get_price", price), ("get_portfolio", failed)], arguments=[{"symbol": "BTC"}, {}]
    )
    text = "price of BTC and my balance"
    said = await reply(a_request([user_message(text), *made]))
    assert said.text.startswith("BTC: 90000 USD")
    assert "the venue does not answer. (VENUE_UNAVAILABLE)" in said.text
    assert invented_numbers(said.text, text, [price, failed]) == []


ANY_MESSAGE = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["price of BTC", "and", "cancel", "my", "last", "order", "buy", "sell", "50", "0.10",
             "$1,5", "USDC", "of", "ETH", "at", "2000", "limits", "pnl", "，", "買", "全部", "餘額",
             "取消訂單", "팔아줘", "주문 취소해줘", "잔고", "result://a/1.0", "notes.md", "?"]
        ),
        max_size=10,
    ).map(" ".join),
)  # fmt: skip
ANY_VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.decimals().map(str), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["price", "symbol", "currency", "tokens", "balances", "open_orders", "id", "limits",
                 "instrument", "mode", "venue", "fills", "state", "accounts", "is_cut", "side"]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@given(ANY_MESSAGE, ANY_VALUE)
async def test_whatever_is_asked_and_answered_the_turn_ends_and_makes_nothing_up(
    text: str, value: object
) -> None:
    envelope = json.dumps({"ok": True, "data": value})
    answer, _ = await said_when_all_fail(HundredMessage(locale="en", text=text), envelope)
    assert answer.strip()
    assert invented_numbers(answer, text, [envelope]) == []
