"""What the offline model does in several steps: reading first, then orders; cancels; outcomes."""

import pytest

from minara_core.asks import asks_to_cancel
from minara_core.lexicon_terms import Direction
from minara_core.messages import Message, context_message, user_message
from minara_core.named_moves import NamedMove, contradiction, names_move
from minara_core.tooling import dump_json, err, ok
from minara_llm.model import ToolChoice
from support.book_envelopes import NEWER_ID, ORDER_ID, an_order, orders
from support.offline_talk import Reply, a_request, price_envelope, reply, tool_messages

BTC = price_envelope("BTC", "90123.45")
DENIED = err("BALANCE_INSUFFICIENT: USDC: 5 available, 50 needed")


async def after(text: str, *steps: tuple[Message, Message]) -> Reply:
    """What is said or called once these steps were made for `text`."""
    return await reply(a_request([user_message(text), *(one for step in steps for one in step)]))


async def continued(text: str, envelopes: dict[str, str]) -> list[Reply]:
    """All replies to `text`, each tool answering with its envelope."""
    messages: list[Message] = [user_message(text)]
    replies: list[Reply] = []
    for step in range(1, 6):
        said = await reply(a_request(messages))
        replies.append(said)
        if not said.calls:
            break
        messages += tool_messages(
            [(name, envelopes[name]) for name, _ in said.calls],
            step,
            arguments=[arguments for _, arguments in said.calls],
            said=said.text,
        )
    return replies


async def test_what_was_read_is_told_before_the_orders_are_prepared() -> None:
    text = "price of BTC, then buy 50 USDC of ETH"
    read, ordered, told = await continued(text, {"get_price": BTC, "buy_token": DENIED})
    assert ([name for name, _ in read.calls], read.text) == (["get_price"], "")
    assert [name for name, _ in ordered.calls] == ["buy_token"]
    assert ordered.text.startswith("BTC: 90123.45 USD")
    assert "50 needed" in told.text
    assert "BTC" not in told.text


async def test_what_cannot_be_done_is_said_beside_what_can() -> None:
    text = "long BTC 5x, and the weather, and show my fear & greed"
    _, told = await continued(text, {"get_fear_greed": err("NOT_FOUND: nothing")})
    cannot, failed, beyond = (
        told.text.index(part) for part in ("I cannot do this", "NOT_FOUND", "weather.")
    )
    assert cannot < failed < beyond


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("cancel my last order", NEWER_ID),
        ("取消我最後一筆訂單", NEWER_ID),
        ("取消我最后一笔订单", NEWER_ID),
        ("마지막 주문 취소해줘", NEWER_ID),
        ("cancel my BTC order", NEWER_ID),
        ("cancel order 01a22e4a", ORDER_ID),
        ("cancel my buy order", ORDER_ID),
    ],
)
async def test_the_order_that_is_meant_is_found_and_its_cancel_prepared(
    text: str, chosen: str
) -> None:
    newer = an_order(
        id=NEWER_ID, instrument="BTC/USDC", side="sell", create_time="2026-01-03T00:00:00Z"
    )
    listed = orders(newer, an_order())
    pending = ok({"state": "pending_confirmation", "pending_action_id": "a1"})
    first, second, _ = await continued(text, {"get_orders": listed, "cancel_order": pending})
    assert first.calls == (("get_orders", {"recent": 0}),)
    ((name, arguments),) = second.calls
    assert (name, arguments["order_id"]) == ("cancel_order", chosen)
    asset = arguments["symbol"].partition("/")[0]
    move = NamedMove(
        direction=Direction.CANCEL, asset=asset, amount=None, amount_unit=None, reference=chosen
    )
    for words in (text, arguments["intent"]):
        assert asks_to_cancel(words)
        assert names_move(words, move)
        assert contradiction(words, move) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cancel my order", "Several open orders fit."),
        ("cancel all my orders", "Several open orders fit."),
        ("cancel my SOL order", "No open order fits"),
        ("cancel order 99ff99ff", "No open order fits"),
        ("取消我的訂單", "有多筆符合的未成交訂單"),
        ("주문 취소해줘", "여러 개입니다"),
    ],
)
async def test_without_one_order_that_is_meant_they_are_shown_and_none_is_cancelled(
    text: str, says: str
) -> None:
    listed = orders(an_order(), an_order(id=NEWER_ID))
    _, told = await continued(text, {"get_orders": listed})
    assert says in told.text
    assert ORDER_ID in told.text
    assert NEWER_ID in told.text


async def test_orders_that_could_not_be_read_are_never_said_to_be_none() -> None:
    for envelope in (err("VENUE_UNAVAILABLE: no answer"), ok({}), ok({"is_cut": True}), "?"):
        _, told = await continued("cancel my last order", {"get_orders": envelope})
        assert "get_orders" in told.text
        assert "No open order" not in told.text
        assert "no open orders" not in told.text


async def test_a_cancel_that_may_not_be_called_shows_the_orders_and_says_so() -> None:
    listed = tool_messages([("get_orders", orders(an_order()))], arguments=[{"recent": 0}])
    messages = [user_message("cancel my last order"), *listed]
    said = await reply(a_request(messages, callable_tools=["get_orders"]))
    assert said.calls == ()
    assert ORDER_ID in said.text
    assert "cancel_order, which cannot be called" in said.text


async def test_in_the_last_step_what_was_read_is_told_and_no_order_is_called() -> None:
    made = tool_messages([("get_price", BTC)], arguments=[{"symbol": "BTC"}])
    messages = [user_message("price of BTC and buy 50 USDC of ETH"), *made]
    said = await reply(a_request(messages, tool_choice=ToolChoice.NONE))
    assert said.calls == ()
    assert "90123.45" in said.text
    assert "buy_token, which cannot be called" in said.text


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ({"tool": "place_limit_order", "message": "the order rests at the venue",
          "filled_quantity": "0", "filled_asset": "ETH"}, "Done: the order rests at the venue."),
        ({"tool": "cancel_order", "message": "the order was cancelled",
          "filled_quantity": "0.04", "filled_asset": "ETH"}, "Done: the order was cancelled."),
        ({"tool": "transfer_token", "message": "sent", "filled_quantity": "100",
          "filled_asset": "USDC"}, "Done: sent."),
        ({"tool": "buy_token", "message": "partly filled; the rest was cancelled",
          "filled_quantity": "0.5", "filled_asset": "ETH"},
         "Done: 0.5 ETH filled. (partly filled; the rest was cancelled)"),
    ],
)  # fmt: skip
async def test_an_outcome_tells_a_fill_only_where_there_was_one(
    outcome: dict[str, str], says: str
) -> None:
    line = dump_json({"state": "done", **outcome})
    decided = context_message(f'<block name="decided_action">\n{line}\n</block>')
    said = await reply(a_request([user_message("yes"), decided], tool_choice=ToolChoice.NONE))
    assert said.text == says
