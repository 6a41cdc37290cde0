"""A money call against its own intent and the person's words, in three languages."""

import pytest

from minara_core.lexicon_terms import Direction
from minara_core.reasons import DenialReason
from minara_tools.domain.arguments import validated
from minara_tools.domain.intent import check_intent, is_solicited, named_move
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry
from support.tools.entries import a_move_tool, a_tool
from support.tools.venue import FakeVenue

BUY = a_move_tool(FakeVenue())
SELL = a_move_tool(FakeVenue(), "sell_token", direction=Direction.SELL)


def arguments(
    *, amount: str = "50", unit: str = "quote", intent: str = "as asked", symbol: str = "ETH"
) -> str:
    return f'{{"symbol":"{symbol}","amount":"{amount}","amount_unit":"{unit}","intent":"{intent}"}}'


def mismatch(entry: ToolEntry, text: str, *words: str) -> dict[str, str] | None:
    try:
        check_intent(entry, validated(entry, text), words)
    except ToolCallBlockedError as blocked:
        return blocked.metadata if blocked.reason is DenialReason.INTENT_MISMATCH else None
    return None


@pytest.mark.parametrize(
    "message",
    ["buy $50 of ETH", "please buy 50 usdc of eth", "買 50 USDC 的 ETH", "ETH 50달러 매수해줘", ""],
)
def test_a_call_that_says_what_the_person_said_fits(message: str) -> None:
    assert mismatch(BUY, arguments(), message) is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("sell $50 of ETH", "direction"),
        ("buy $500 of ETH", "amount"),
        ("buy $50 of BTC", "asset"),
        ("賣出 50 USDC 的 ETH", "direction"),
        ("ETH 50달러 매도해줘", "direction"),
    ],
)
def test_a_call_against_the_persons_words_is_refused(message: str, field: str) -> None:
    assert mismatch(BUY, arguments(), message) == {"field": field, "source": "message"}


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("buy $50 of ETH", "buy $500 of ETH"), None),
        (("buy $50 of ETH", "sell $50 of ETH"), None),
        (("and hurry", "buy $50 of ETH"), None),
        (("and buy $50 of BTC", "buy $50 of ETH"), None),
        (("make it $60 of ETH, buy", "buy $50 of ETH"), "amount"),
        (("sell $50 of ETH", "buy $50 of ETH"), "direction"),
        (("and hurry", "buy $500 of ETH"), "amount"),
        (("what is ETH?", "buy $50 of BTC"), "asset"),
    ],
)
def test_the_newest_words_of_a_turn_that_name_the_move_count(
    words: tuple[str, ...], field: str | None
) -> None:
    wanted = None if field is None else {"field": field, "source": "message"}
    assert mismatch(BUY, arguments(), *words) == wanted


def test_a_call_against_its_own_intent_is_refused() -> None:
    found = mismatch(BUY, arguments(intent="sell all my ETH"), "")
    assert found == {"field": "direction", "source": "intent"}


def test_a_tool_that_moves_nothing_has_no_intent_to_check() -> None:
    entry = a_tool()
    check_intent(entry, validated(entry, "{}"), ("sell everything",))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (("buy $50 of ETH",), True),
        (("and now?", "hm", "buy $50 of ETH"), True),
        (("a", "b", "c", "buy $50 of ETH"), False),
        (("no", "buy $50 of ETH"), False),
        (("make it $60 of ETH, buy", "buy $50 of ETH"), False),
        (("buy $50 of ETH when it falls",), False),
        (("buy $50 of ETH tomorrow", "buy $50 of ETH"), False),
        (("what is ETH?",), False),
        (("do not buy ETH",), False),
        ((), False),
    ],
)
def test_solicited_means_named_by_one_of_the_last_three_human_messages(
    messages: tuple[str, ...], expected: bool
) -> None:
    move = named_move(BUY, validated(BUY, arguments()))
    assert is_solicited(messages, move) is expected


def test_all_is_named_without_an_amount() -> None:
    text = '{"symbol":"ETH","amount":null,"amount_unit":"all","intent":"sell all my ETH"}'
    move = named_move(SELL, validated(SELL, text))
    assert move is not None
    assert move.sentence == "sell all of my ETH"
    assert is_solicited(("sell all my ETH",), move)


@pytest.mark.parametrize(
    ("symbol", "asset"), [("eth", "ETH"), ("ETH/USDC", "ETH"), ("ethereum", "ETH"), ("XYZ", "XYZ")]
)
def test_the_asset_of_a_call_is_its_ticker(symbol: str, asset: str) -> None:
    move = named_move(BUY, validated(BUY, arguments(symbol=symbol)))
    assert move is not None
    assert move.asset == asset
