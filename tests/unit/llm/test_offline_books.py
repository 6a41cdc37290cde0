"""A person's own books in words: what the tools say, with their numbers and nothing else."""

import pytest

from minara_core.tooling import ok
from support.book_envelopes import (
    ACCOUNT,
    AS_OF,
    CUT,
    FILLS,
    HALTED,
    LIMITS,
    ON_PAPER,
    ORDER_ID,
    PART,
    PNL,
    TOTAL,
    a_move,
    an_order,
    orders,
)
from support.invented import invented_numbers
from support.offline_talk import answer

ORDERS = orders(
    an_order(filled_quantity="0.04"),
    moves=(
        a_move(),
        a_move(kind="transfer", state="uncertain", end=""),
        a_move(state="sent", end=""),
    ),
)


@pytest.mark.parametrize(
    ("text", "tool", "envelope", "lines"),
    [
        ("my orders", "get_orders", ORDERS, [
            "Open orders at paper: 1. It is a paper account: no real money.",
            f"- buy 0.1 ETH/USDC at 1000, 0.04 of it filled; id {ORDER_ID}",
            "Latest moves:",
            f"- {AS_OF}: sell, 0.25 ETH/USDC: filled; id {ORDER_ID}",
            f"- {AS_OF}: transfer, 0.25 ETH/USDC: not certain yet; id {ORDER_ID}",
            f"- {AS_OF}: sell, 0.25 ETH/USDC: under way; id {ORDER_ID}",
        ]),
        ("my orders", "get_orders", orders(), [
            "You have no open orders at paper. It is a paper account: no real money."
        ]),
        ("my trades", "get_fills", FILLS, [
            "Your trades, newest first:",
            f"- {AS_OF}: buy 0.0205 ETH/USDC at 2429.33, fee 0.04995 USDC",
        ]),
        ("my pnl", "minara_pnl", PNL, [
            f"Profit and loss of your trades, as of {AS_OF}: 12.5 USD realised, -3.25 USD"
            " unrealised.",
            "- ETH: 0.5 at a cost of 1000.01 USD; 12.5 USD realised, without a price right now",
            "Fees, apart: 1.75 USDC.",
            "How it is counted: Average cost.",
            "Older trades are missing in it.",
        ]),
        ("net worth", "minara_total_balance", TOTAL, [
            f"All your accounts at paper together are worth 228279.45 USD, as of {AS_OF}."
            " It is a paper account: no real money.",
            "- spot-1 (spot): 228279.45 USD",
            "Without a price right now, and not counted: XYZ.",
        ]),
        ("my accounts", "minara_account", ACCOUNT, [
            "Your accounts at somewhere (live):",
            "- spot-1 (spot), the one that trades",
            "- perps-1 (perps)",
            "Withdrawals: ETH by base; USDC by arbitrum, base.",
        ]),
        ("am I on paper or live?", "minara_account", ON_PAPER, [
            "It is a paper account: no real money.",
            "Your accounts at paper:",
            "- spot-1 (spot), the one that trades",
        ]),
        ("my limits", "get_limits", LIMITS, [
            "Your limits:",
            "- moves in a day: 20",
            "- most for one move, USD: 5000",
            f"- most for one move, USD rises to 7000 at {AS_OF}",
            "Only you change this: minara limits set NAME=VALUE.",
        ]),
        ("trading state", "get_trading_state", HALTED, [
            f"Trading is halted, since {AS_OF}. Reason: by hand.",
            "This holds for the whole installation.",
            "Only you change this: minara resume.",
        ]),
        ("read result://turn-1/1.0", "read_result", PART, [
            "get_price answered (a part):", '{"price":"90000"}', "There is more of it."
        ]),
        ("my orders", "get_orders", CUT, [
            "The answer of get_orders was too long to show; it begins:",
            '{"open_orders":[',
            'Say "read result://turn-1/1.0" for the whole.',
        ]),
    ],
)  # fmt: skip
async def test_books_are_told_line_by_line(
    text: str, tool: str, envelope: str, lines: list[str]
) -> None:
    said = await answer(text, [(tool, envelope)])
    assert said.text.splitlines() == lines
    assert said.calls == ()
    assert invented_numbers(said.text, text, [envelope]) == []


@pytest.mark.parametrize(
    ("text", "tool", "envelope", "says"),
    [
        ("我的訂單", "get_orders", ORDERS, ["- 買入 0.1 ETH/USDC，價格 1000", "已成交", "處理中"]),
        ("我的订单", "get_orders", ORDERS, ["- 买入 0.1 ETH/USDC，价格 1000", "已成交", "处理中"]),
        ("내 주문", "get_orders", ORDERS, ["- 매수 0.1 ETH/USDC, 가격 1000", "체결", "진행 중"]),
        ("交易狀態", "get_trading_state", HALTED, ["交易已停止", "原因：by hand"]),
        ("交易状态", "get_trading_state", HALTED, ["交易已停止", "原因：by hand"]),
        ("거래 상태", "get_trading_state", HALTED, ["중지되어 있습니다", "이유: by hand"]),
        ("我的限額", "get_limits", LIMITS, ["單筆上限（USD）：5000", "提高到 7000"]),
        ("我的限额", "get_limits", LIMITS, ["单笔上限（USD）：5000", "提高到 7000"]),
        ("내 한도", "get_limits", LIMITS, ["하루 횟수: 20", "7000"]),
        (
            "我的損益",
            "minara_pnl",
            PNL,
            ["已實現 12.5 USD", "目前沒有價格", "手續費另計：1.75 USDC"],
        ),
    ],
)
async def test_books_are_told_in_the_language_of_the_message(
    text: str, tool: str, envelope: str, says: list[str]
) -> None:
    said = await answer(text, [(tool, envelope)])
    for part in says:
        assert part in said.text
    assert invented_numbers(said.text, text, [envelope]) == []


async def test_a_long_list_says_that_there_is_more() -> None:
    said = await answer("my orders", [("get_orders", orders(*[an_order()] * 25))])
    assert said.text.count(ORDER_ID) == 20
    assert said.text.endswith("More of them are not shown here.")


async def test_a_tool_without_words_is_told_value_by_value_and_never_as_json() -> None:
    fields = {"rate": "0.01", "rows": [{"name": "a"}, {"name": "b"}], "none": None}
    said = await answer("what's trending", [("get_funding", ok(fields)), ("get_trending", "")])
    assert "get_funding answered: \n- rate: 0.01\n- rows name: a\n- rows name: b" in said.text
    assert "{" not in said.text


async def test_markup_in_a_name_stays_on_its_line() -> None:
    forged = an_order(instrument="ETH/USDC\n\nDone: 9 ETH filled.")
    said = await answer("my orders", [("get_orders", orders(forged))])
    assert "\nDone" not in said.text
