from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.lexicon_terms import Direction
from minara_core.money import parse_amount
from minara_core.named_moves import NamedMove, contradiction, names_move
from minara_llm.offline.phrases import all_phrases
from minara_llm.offline.plan import plan
from minara_llm.offline.steps import PlannedCall, Remark
from support.put_off import PUT_OFF

Call = tuple[str, Mapping[str, str | int]]


def _calls(text: str) -> list[Call]:
    return [(call.name, dict(call.arguments)) for call in plan(text).calls]


def _price(symbol: str) -> Call:
    return "get_price", {"symbol": symbol}


PORTFOLIO: Call = ("get_portfolio", {})
TRENDING: Call = ("get_trending", {})
FEAR_GREED: Call = ("get_fear_greed", {})


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("price of BTC", [_price("BTC")]),
        ("BTC?", [_price("BTC")]),
        ("price of BTC and ETH", [_price("BTC"), _price("ETH")]),
        ("price of BTC and my portfolio", [_price("BTC"), PORTFOLIO]),
        ("my portfolio and the price of BTC", [PORTFOLIO, _price("BTC")]),
        ("show trending coins and fear & greed", [TRENDING, FEAR_GREED]),
        ("what do I own", [PORTFOLIO]),
        ("search for PEPE token", [("search_tokens", {"query": "PEPE"})]),
        ("find tokens named moon", [("search_tokens", {"query": "moon"})]),
        ("read notes.md", [("read_file", {"path": "notes.md"})]),
        ("open the file Reports/Q3.txt", [("read_file", {"path": "Reports/Q3.txt"})]),
        ("read file ../../etc/passwd", [("read_file", {"path": "../../etc/passwd"})]),
        ("比特幣價格多少", [_price("BTC")]),
        ("比特幣和以太坊的價格", [_price("BTC"), _price("ETH")]),
        ("熱門代幣", [TRENDING]),
        ("恐懼與貪婪指數", [FEAR_GREED]),
        ("我的持倉", [PORTFOLIO]),
        ("搜尋 PEPE 代幣", [("search_tokens", {"query": "PEPE"})]),
        ("讀取 notes.md", [("read_file", {"path": "notes.md"})]),
        ("비트코인과 이더리움 가격", [_price("BTC"), _price("ETH")]),
        ("비트코인 가격이랑 내 포트폴리오", [_price("BTC"), PORTFOLIO]),
        ("인기 토큰 알려줘", [TRENDING]),
        ("공포 탐욕 지수", [FEAR_GREED]),
        ("잔고 얼마나 있어", [PORTFOLIO]),
        ("PEPE 검색해줘", [("search_tokens", {"query": "PEPE"})]),
        ("notes.md 읽어줘", [("read_file", {"path": "notes.md"})]),
    ],
)
def test_readings_are_planned_in_the_order_of_the_message(text: str, calls: list[Call]) -> None:
    planned = plan(text)
    assert _calls(text) == calls
    assert not planned.is_analysis
    assert planned.remarks == ()


@pytest.mark.parametrize(
    "text",
    [
        "analyze BTC and tell me if I should long 5x",
        "Should I buy BTC?",
        "is BTC safe",
        "分析比特幣，告訴我要不要開 5 倍多單",
        "現在可以買比特幣嗎",
        "비트코인 분석하고 5배 롱 잡을까?",
        "비트코인 사도 될까?",
    ],
)
def test_a_question_for_judgement_reads_data_and_trades_nothing(text: str) -> None:
    planned = plan(text)
    assert _calls(text) == [_price("BTC"), FEAR_GREED]
    assert planned.is_analysis


@pytest.mark.parametrize(
    ("text", "tool", "symbol", "amount", "unit"),
    [
        ("buy $50 of ETH", "buy_token", "ETH", "50", "quote"),
        ("Buy 50 USDC of ETH", "buy_token", "ETH", "50", "quote"),
        ("buy 0.010 BTC", "buy_token", "BTC", "0.01", "base"),
        ("buy $1.5k of BTC", "buy_token", "BTC", "1500", "quote"),
        ("sell 0.5 ETH", "sell_token", "ETH", "0.5", "base"),
        ("sell $20 of ETH", "sell_token", "ETH", "20", "quote"),
        ("sell all my SOL", "sell_token", "SOL", None, "all"),
        ("swap 50 USDC to ETH", "buy_token", "ETH", "50", "quote"),
        ("swap 0.5 ETH for USDC", "sell_token", "ETH", "0.5", "base"),
        ("買 50 美元的以太坊", "buy_token", "ETH", "50", "quote"),
        ("買三百美元的ETH", "buy_token", "ETH", "300", "quote"),
        ("我想賣掉 0.5 個 ETH", "sell_token", "ETH", "0.5", "base"),
        ("把我的SOL全部賣掉", "sell_token", "SOL", None, "all"),
        ("이더리움 50달러어치 사줘", "buy_token", "ETH", "50", "quote"),
        ("0.1 ETH 매도", "sell_token", "ETH", "0.1", "base"),
        ("이더리움 전부 팔아줘", "sell_token", "ETH", None, "all"),
    ],
)
def test_an_order_is_planned_with_exact_arguments_and_a_true_intent(
    text: str, tool: str, symbol: str, amount: str | None, unit: str
) -> None:
    ((name, arguments),) = _calls(text)
    assert name == tool
    given_amount = {"amount": amount} if amount is not None else {}
    assert arguments == {
        "symbol": symbol,
        "amount_unit": unit,
        "intent": arguments["intent"],
        **given_amount,
    }
    value = parse_amount(amount) if amount is not None else None
    direction = Direction(tool.removesuffix("_token"))
    move = NamedMove(direction=direction, asset=symbol, amount=value, amount_unit=unit)
    for words in (text, str(arguments["intent"])):
        assert names_move(words, move)
        assert contradiction(words, move) is None


def test_two_orders_keep_their_own_amounts() -> None:
    calls = _calls("buy $50 of ETH and sell 0.1 BTC")
    assert [(name, arguments["symbol"], arguments["amount"]) for name, arguments in calls] == [
        ("buy_token", "ETH", "50"),
        ("sell_token", "BTC", "0.1"),
    ]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("buy ETH", "which_amount"),
        ("buy $50", "which_trade_asset"),
        ("buy ETH 50", "which_unit"),
        ("buy 100 euros of ETH", "which_unit"),
        ("買 100 元的比特幣", "which_unit"),
        ("5만원어치 비트코인 사줘", "which_unit"),
        ("buy $50 of BTC and ETH", "unclear_amount"),
        ("Buy 0.5 ETH (about $1500)", "unclear_amount"),
        ("buy -50 USDC of ETH", "unclear_amount"),
        ("buy minus five ETH", "unclear_amount"),
        ("買負五個 ETH", "unclear_amount"),
        ("마이너스 5 ETH 매수", "unclear_amount"),
        ("buy 1e5 USDC of ETH", "unclear_amount"),
        ("buy $1,5 of ETH", "unclear_amount"),
        ("buy 0.0000000000000000001 ETH", "unclear_amount"),
        ("sell half of my BTC", "no_share"),
        ("buy ETH with all my USDC", "no_share"),
        ("buy ETH at $2000", "no_condition"),
        ("ETH 跌到 2000 美元時買 50 USDC", "no_condition"),
        ("long ETH 5x with $100", "cannot_move"),
        ("buy $50 of ETH with 5x leverage", "cannot_move"),
        ("close my ETH position", "cannot_move"),
        ("transfer 5 ETH to my friend", "manual_only"),
        ("提現 100 USDC", "manual_only"),
        ("100달러 출금해줘", "manual_only"),
        ("don't buy ETH", "refused_move"),
        ("別賣我的比特幣", "refused_move"),
        ("이더리움 사지 마", "refused_move"),
        ("do it", "continuation"),
        ("yes", "nothing_pending"),
        ("就這樣", "continuation"),
        ("그렇게 해", "continuation"),
        ("tell me a joke", "cannot"),
        ("what is the fed doing", "cannot"),
        ("你好", "greeting"),
        ("안녕하세요", "greeting"),
        ("", "cannot"),
        ('translate "buy 50 USDC of ETH"', "cannot"),
        ("I bought 50 USDC of ETH yesterday", "cannot"),
        ("near price", "which_asset"),
        ("latest news on solana", "no_news"),
        ("don't cancel my orders", "refused_move"),
        ("주문 취소하지 마", "refused_move"),
        ("buy ten USDC of ETH at two thousand", "which_limit"),
        ("buy 0.1 ETH with a limit", "which_limit"),
        ("ETH 0.1개 주문해줘", "which_side"),
        ("buy 0.1 ETH at 2000 euros", "which_limit"),
        ("在 2000 元限價買入 0.1 ETH", "which_limit"),
        ("ETH 0.1개 200만원에 지정가 매수", "which_limit"),
        ("buy 50 USDC of BTC every day", "no_condition"),
        ("buy 50 USDC of BTC tomorrow", "no_condition"),
        ("매일 50 USDC씩 비트코인 사줘", "no_condition"),
        ("set a stop loss at 1800", "no_condition"),
        ("cancel my ETH order if it falls", "no_condition"),
        ("withdraw 100 USDC tomorrow", "manual_only"),
        ("比特币涨到 12 万的时候提醒我", "no_alert"),
        ("remind me to buy ETH tomorrow", "no_alert"),
        ("why did BTC drop today?", "no_why"),
        ("halt all trading", "halt_yours"),
        ("write me a poem about bitcoin", "cannot"),
        ("今天天氣如何", "cannot"),
        ("謝謝", "thanks"),
        ("뭘 할 수 있어?", "help"),
        ("are you an ai?", "who"),
        ('write "hello" to notes.txt', "no_write"),
        ("search", "which_query"),
    ],
)
def test_what_it_cannot_do_it_says_and_calls_nothing(text: str, remark: str) -> None:
    planned = plan(text)
    assert planned.calls == ()
    assert [one.key for one in planned.remarks][:1] == [remark]


@pytest.mark.parametrize("text", PUT_OFF)
def test_a_move_for_another_moment_calls_nothing_and_reads_no_amount(text: str) -> None:
    planned = plan(text)
    assert planned.calls == ()
    assert not planned.is_analysis
    assert [one.key for one in planned.remarks] == ["no_condition"]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("what was the price of BTC yesterday?", "no_past"),
        ("BTC 昨天的價格", "no_past"),
        ("어제 비트코인 가격", "no_past"),
        ("how much is 3 BTC in euros?", "no_currency"),
        ("BTC price in KRW", "no_currency"),
        ("比特幣價格用歐元", "no_currency"),
        ("비트코인 원화 가격", "no_currency"),
        ("BTC 가격이 오늘 왜 올랐어?", "no_why"),
        ("price of BTC, and alert me at 100000", "no_alert"),
    ],
)
def test_a_question_beyond_the_price_of_now_is_told_so_and_shown_that_price(
    text: str, remark: str
) -> None:
    assert plan(text).steps == (
        Remark(key=remark),
        PlannedCall(name="get_price", arguments={"symbol": "BTC"}),
    )


def test_a_currency_alone_is_priced_like_a_coin() -> None:
    assert _calls("price of KRW") == [_price("KRW")]
    assert plan("price of KRW").remarks == ()


def test_at_most_five_prices_are_asked_for() -> None:
    planned = plan("price of DOGE, SHIB, PEPE, WIF, BONK and FLOKI")
    assert [call.arguments["symbol"] for call in planned.calls] == [
        "DOGE", "SHIB", "PEPE", "WIF", "BONK",
    ]  # fmt: skip
    assert [remark.key for remark in planned.remarks] == ["at_most"]


@given(
    st.text(
        st.one_of(st.characters(), st.sampled_from("buy sell all ETH 50$,買賣全部사줘")),
        max_size=120,
    )
)
def test_any_text_has_a_plan_whose_amounts_are_valid(text: str) -> None:
    planned = plan(text)
    assert planned.calls or planned.remarks
    assert len(planned.calls) <= 12
    for call in planned.calls:
        if "amount" in call.arguments:
            parse_amount(str(call.arguments["amount"]))
    assert all(remark.key in all_phrases()["en"] for remark in planned.remarks)


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("swap 1 ETH to BTC", "swap_tokens", ("ETH", "BTC", "1", "from")),
        ("把 1 ETH 換成 BTC", "swap_tokens", ("ETH", "BTC", "1", "from")),
        ("1 ETH를 BTC로 바꿔줘", "swap_tokens", ("ETH", "BTC", "1", "from")),
        ("swap $100 of ETH to BTC", "swap_tokens", ("ETH", "BTC", "100", "usd")),
        ("swap all my ETH to BTC", "swap_tokens", ("ETH", "BTC", "all")),
        ("buy 0.1 ETH at 2000", "place_limit_order", ("buy", "ETH", "0.1", "base", "2000")),
        ("sell 0.5 ETH at 3000", "place_limit_order", ("sell", "ETH", "0.5", "base", "3000")),
        ("在 2000 限價買入 0.1 ETH", "place_limit_order", ("buy", "ETH", "0.1", "base", "2000")),
        ("ETH 0.1개 2000달러에 지정가 매수해줘", "place_limit_order",
         ("buy", "ETH", "0.1", "base", "2000")),
        ("transfer 100 USDC to my perps account", "transfer_token",
         ("USDC", "spot", "perps", "100", "base")),
        ("100 USDC를 선물 계정으로 이체해줘", "transfer_token",
         ("USDC", "spot", "perps", "100", "base")),
        ("transfer all my USDC from perps to spot", "transfer_token",
         ("USDC", "perps", "spot", "all")),
    ],
)  # fmt: skip
def test_a_swap_a_limit_and_a_transfer_are_planned_too(
    text: str, tool: str, arguments: tuple[str, ...]
) -> None:
    ((name, planned),) = _calls(text)
    assert name == tool
    assert tuple(value for key, value in planned.items() if key != "intent") == arguments
