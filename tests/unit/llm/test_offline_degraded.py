"""Standing in for language models that cannot be reached: it says so, reads, and orders nothing."""

import pytest

from minara_core.messages import Message, Role, TextBlock, context_message, user_message
from minara_core.tooling import dump_json, err, ok
from minara_llm.model import ToolChoice
from minara_llm.offline.phrases import phrases_for
from support.book_envelopes import ORDER_ID, an_order, orders
from support.hundred import HundredMessage, hundred_messages
from support.offline_talk import (
    ORDER_NAMES,
    READ_NAMES,
    a_request,
    answer,
    price_envelope,
    reply,
    tool_messages,
)

BTC = price_envelope("BTC", "90123.45")


@pytest.mark.parametrize("message", hundred_messages(), ids=lambda one: one.text)
async def test_no_message_makes_it_prepare_an_order(message: HundredMessage) -> None:
    phrases = phrases_for(message.text)
    said = await reply(a_request([user_message(message.text)]), is_degraded=True)
    called = [name for name, _ in said.calls]
    assert set(called) <= set(READ_NAMES)
    failed = [(name, err("NOT_FOUND: nothing")) for name in called]
    told = await answer(message.text, failed, is_degraded=True)
    assert told.calls == ()
    assert told.text.startswith(phrases["degraded"])
    if any(call.split(" ")[0] in ORDER_NAMES for call in message.calls):
        assert phrases["degraded_orders"] in told.text
    assert phrases["can_order"] not in told.text


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("price of BTC", "No language model can be reached right now"),
        ("BTC 價格", "目前無法連上任何語言模型"),
        ("BTC 价格", "目前无法连上任何语言模型"),
        ("BTC 가격", "지금은 언어 모델에 연결할 수 없어서"),
    ],
)
async def test_it_begins_with_one_sentence_in_the_persons_language(text: str, opening: str) -> None:
    said = await answer(text, [("get_price", BTC)], is_degraded=True)
    first, rest = said.text.split("\n", 1)
    assert first.startswith(opening)
    assert "90123.45" in rest
    assert opening not in (await answer(text, [("get_price", BTC)])).text


async def test_what_another_model_had_called_is_told_and_the_rest_is_read() -> None:
    text = "price of BTC and ETH, please"
    half = tool_messages(
        [("get_price", BTC), ("activate_skills", ok({"note": "instructions"}))],
        arguments=[{"symbol": "btc"}, {"skill_ids": ["a"]}],
        said="Let me look.",
    )
    rest = await reply(a_request([user_message(text), *half]), is_degraded=True)
    assert rest.calls == (("get_price", {"symbol": "ETH"}),)
    eth = tool_messages(
        [("get_price", price_envelope("ETH", "3000"))], 2, arguments=[{"symbol": "ETH"}]
    )
    told = await reply(a_request([user_message(text), *half, *eth]), is_degraded=True)
    assert told.calls == ()
    assert "90123.45" in told.text
    assert "3000" in told.text
    assert "instructions" not in told.text


async def test_a_call_that_nobody_would_plan_is_told_too() -> None:
    half = tool_messages([("get_price", BTC)], arguments=[{"symbol": "BTC"}])
    said = await reply(
        a_request([user_message("and what do you make of that?"), *half]), is_degraded=True
    )
    assert "90123.45" in said.text


async def test_it_answers_where_no_call_is_allowed() -> None:
    half = tool_messages([("get_price", BTC)], arguments=[{"symbol": "BTC"}])
    messages = [user_message("price of BTC and my balance"), *half]
    said = await reply(a_request(messages, tool_choice=ToolChoice.NONE), is_degraded=True)
    assert said.calls == ()
    assert "90123.45" in said.text
    assert "get_portfolio, which cannot be called" in said.text


async def test_a_decision_is_told_from_its_record() -> None:
    line = dump_json(
        {"state": "done", "tool": "buy_token", "message": "filled", "filled_quantity": "0.5",
         "filled_asset": "ETH"}
    )  # fmt: skip
    decided = context_message(f'<block name="decided_action">\n{line}\n</block>')
    said = await reply(
        a_request([user_message("yes"), decided], tool_choice=ToolChoice.NONE), is_degraded=True
    )
    opening, receipt = said.text.split("\n")
    assert opening == phrases_for("yes")["degraded"]
    assert receipt == "Done: 0.5 ETH filled."


async def test_a_cancel_shows_the_open_orders_and_names_the_ways_that_are_left() -> None:
    listed = orders(an_order())
    said = await answer("cancel my last order", [("get_orders", listed)], is_degraded=True)
    assert said.calls == ()
    assert ORDER_ID in said.text
    assert "/cancel" in said.text


@pytest.mark.parametrize("text", ["yes", "確認", "确认", "네"])
async def test_a_yes_that_answers_nothing_is_told_so(text: str) -> None:
    phrases = phrases_for(text)
    said = await answer(text, [], is_degraded=True)
    assert said.text == f"{phrases['degraded']}\n{phrases['nothing_pending']}"


@pytest.mark.parametrize(
    "text", ["buy 50 USDC of ETH", "買 50 USDC 的 ETH", "买 50 USDC 的 ETH", "ETH 50 USDC 매수해줘"]
)
async def test_a_purchase_is_told_where_it_can_be_made(text: str) -> None:
    said = await answer(text, [], is_degraded=True)
    for way in ("POST /v1/orders", "/orders", "/cancel", "/close"):
        assert way in said.text


@pytest.mark.parametrize("message", hundred_messages(), ids=lambda one: one.text)
async def test_who_answers_is_said_once(message: HundredMessage) -> None:
    phrases = phrases_for(message.text)
    called = [(call.split(" ")[0], err("NOT_FOUND: nothing")) for call in message.calls]
    told = await answer(message.text, called, is_degraded=True)
    assert phrases["rules"] not in told.text
    assert told.text.count(phrases["degraded"]) == 1
    usual = await answer(message.text, called)
    assert usual.text.count(phrases["rules"]) <= 1


async def test_an_interrupted_word_of_another_model_changes_nothing() -> None:
    cut = Message(role=Role.ASSISTANT, blocks=(TextBlock("The price is"),), is_interrupted=True)
    made = tool_messages([("get_price", BTC)], arguments=[{"symbol": "BTC"}])
    said = await reply(a_request([user_message("price of BTC"), *made, cut]), is_degraded=True)
    assert "90123.45" in said.text
