from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.asks import asks, is_continuation
from minara_core.lexicon import parse
from minara_core.lexicon_terms import Direction
from minara_core.taxonomy import LifecycleStage

DISCOVER, EVALUATE = LifecycleStage.DISCOVER, LifecycleStage.EVALUATE
DECIDE, MANAGE = LifecycleStage.DECIDE, LifecycleStage.MANAGE


@pytest.mark.parametrize(
    ("text", "direction", "assets"),
    [
        ("buy $50 of ETH", Direction.BUY, ["ETH"]),
        ("Buy 50 USDC of ETH", Direction.BUY, ["ETH"]),
        ("BUY 50 USDC OF ETH", Direction.BUY, ["ETH"]),
        ("please buy 0.01 BTC", Direction.BUY, ["BTC"]),
        ("can you buy $50 of ETH for me?", Direction.BUY, ["ETH"]),
        ("I want to buy $50 of ETH", Direction.BUY, ["ETH"]),
        ("I'd like to sell 0.5 ETH", Direction.SELL, ["ETH"]),
        ("ETH buy 50 usdc", Direction.BUY, ["ETH"]),
        ("use 50 USDC to buy ETH", Direction.BUY, ["ETH"]),
        ("with $50, buy ETH", Direction.BUY, ["ETH"]),
        ("put $100 into SOL", Direction.BUY, ["SOL"]),
        ("invest 50 usdc in eth", Direction.BUY, ["ETH"]),
        ("market buy 0.1 btc", Direction.BUY, ["BTC"]),
        ("buy ETH", Direction.BUY, ["ETH"]),
        ("sell all my SOL", Direction.SELL, ["SOL"]),
        ("sell my ETH now!!!", Direction.SELL, ["ETH"]),
        ("sell BTC and buy $50 of ETH", Direction.SELL, ["BTC"]),
        ("analyze BTC and buy $50 of it", Direction.BUY, ["BTC"]),
        ("price of BTC then buy $50 of ETH", Direction.BUY, ["ETH"]),
        ("long ETH 5x with $100", Direction.LONG, ["ETH"]),
        ("open a 10x short on BTC with 200 USDC", Direction.SHORT, ["BTC"]),
        ("close my ETH position", Direction.CLOSE, ["ETH"]),
        ("swap 50 USDC to ETH", Direction.SWAP, ["ETH"]),
        ("convert my ETH to USDC", Direction.SWAP, ["ETH"]),
        ("transfer 5 ETH to my wallet", Direction.TRANSFER, ["ETH"]),
        ("withdraw 100 USDC", Direction.WITHDRAW, ["USDC"]),
        ("buy ETH at $2000", Direction.BUY, ["ETH"]),
        ("don't sell my ETH, buy $50 of BTC", Direction.BUY, ["BTC"]),
        ("買 50 美元的以太坊", Direction.BUY, ["ETH"]),
        ("买50美元的以太坊", Direction.BUY, ["ETH"]),
        ("幫我買 50 USDC 的 ETH", Direction.BUY, ["ETH"]),
        ("可以幫我買50美元的ETH嗎？", Direction.BUY, ["ETH"]),
        ("我想賣掉 0.5 個 ETH", Direction.SELL, ["ETH"]),
        ("把我的SOL全部賣掉", Direction.SELL, ["SOL"]),
        ("用100U買比特幣", Direction.BUY, ["BTC"]),
        ("花 50 美元買 ETH", Direction.BUY, ["ETH"]),
        ("再买 20 美元的 SOL", Direction.BUY, ["SOL"]),
        ("ETH 跌到 2000 美元時買 50 USDC", Direction.BUY, ["ETH"]),
        ("做多 ETH 5倍 100 USDC", Direction.LONG, ["ETH"]),
        ("ETH 做空 3 倍", Direction.SHORT, ["ETH"]),
        ("平掉我的ETH倉位", Direction.CLOSE, ["ETH"]),
        ("把 50 USDC 換成 ETH", Direction.SWAP, ["ETH"]),
        ("提現 100 USDC", Direction.WITHDRAW, ["USDC"]),
        ("幫我 buy 50 USDC of ETH", Direction.BUY, ["ETH"]),
        ("이더리움 50달러 매수", Direction.BUY, ["ETH"]),
        ("이더리움 50달러어치 사줘", Direction.BUY, ["ETH"]),
        ("ETH 50 USDC 매수해 줘", Direction.BUY, ["ETH"]),
        ("ETH 50달러만 사주세요", Direction.BUY, ["ETH"]),
        ("50 USDC로 ETH 사줘", Direction.BUY, ["ETH"]),
        ("비트코인 사고 싶어 50달러", Direction.BUY, ["BTC"]),
        ("0.1 ETH 매도", Direction.SELL, ["ETH"]),
        ("이더리움 전부 팔아줘", Direction.SELL, ["ETH"]),
        ("테슬라 3주 매수해줘", Direction.BUY, ["TSLA"]),
        ("이더리움 롱 5배 100 USDC", Direction.LONG, ["ETH"]),
        ("이더리움 5배 롱 진입해줘", Direction.LONG, ["ETH"]),
        ("ETH를 USDC로 바꿔줘", Direction.SWAP, ["ETH"]),
        ("100달러 출금해줘", Direction.WITHDRAW, []),
    ],
)
def test_a_request_for_a_move_is_stage_decide(
    text: str, direction: Direction, assets: list[str]
) -> None:
    ask = asks(text)
    assert (ask.stage, ask.is_sure, ask.is_trade_request) == (DECIDE, True, True)
    assert ask.direction is direction
    assert list(ask.assets) == assets


@pytest.mark.parametrize(
    "text",
    [
        "analyze BTC and tell me if I should long 5x",
        "Should I buy ETH?",
        "is it a good time to buy bitcoin?",
        "buy ETH?",
        "Would you buy $50 of ETH?",
        "is BTC a buy?",
        "what should I sell",
        "I want to know whether to buy ETH",
        "how do I buy ETH",
        "why do people buy ETH",
        "explain how whales buy and sell BTC",
        "compare BTC and ETH",
        "is PEPE safe?",
        "BTC vs ETH",
        "do a risk assessment of SOL",
        "Can you tell me if I should buy $50 of ETH?",
        "Should I sell? If so just sell 1 ETH",
        "要不要買以太坊？",
        "現在可以買比特幣嗎",
        "以太坊值得買嗎",
        "分析比特幣，告訴我要不要開 5 倍多單",
        "分析BTC並告訴我該不該做多5倍",
        "幫我看看要不要買 ETH",
        "50美元能買多少ETH",
        "為什麼大家買比特幣",
        "狗狗幣安全嗎",
        "分析一下 SOL 的風險",
        "비트코인 분석하고 5배 롱 잡을까?",
        "비트코인 분석하고 롱 5배 해야 할지 알려줘",
        "지금 이더리움 사도 될까?",
        "이더리움 살까 말까",
        "비트코인 매도할까요?",
        "솔라나 매수 추천해줘",
        "도지코인 안전해?",
        "비트코인 전망",
    ],
)
def test_a_question_about_doing_it_is_evaluated_and_no_request(text: str) -> None:
    ask = asks(text)
    assert (ask.stage, ask.is_sure, ask.is_trade_request) == (EVALUATE, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "show me my portfolio",
        "what do I own",
        "how is my ETH position doing",
        "cancel my open orders",
        "set a stop loss on my ETH",
        "How much USDC do I have?",
        "price of BTC and my portfolio",
        "analyze my portfolio",
        "what's my pnl",
        "rebalance please",
        "我的持倉",
        "我的投資組合有多少",
        "取消我的訂單",
        "我的盈虧",
        "設定止損",
        "내 포트폴리오 보여줘",
        "잔고 얼마나 있어",
        "미체결 주문 취소",
        "내 수익률 어때",
    ],
)
def test_own_positions_and_orders_are_managed(text: str) -> None:
    ask = asks(text)
    assert (ask.stage, ask.is_sure, ask.is_trade_request) == (MANAGE, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "price of BTC",
        "how much is eth right now",
        "what is trending",
        "latest news on solana",
        "fear and greed index",
        "search for PEPE token",
        "gold price",
        "top gainers",
        "BTC價格",
        "比特币现在多少钱？",
        "熱門代幣",
        "最新消息",
        "恐懼與貪婪指數",
        "台積電股價",
        "비트코인 가격 알려줘",
        "도지 시세 얼마?",
        "인기 토큰 알려줘",
        "솔라나 뉴스",
        "공포 탐욕 지수",
    ],
)
def test_prices_news_and_trends_are_discovered(text: str) -> None:
    ask = asks(text)
    assert (ask.stage, ask.is_sure, ask.is_trade_request) == (DISCOVER, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "tell me a joke",
        "how long will this take",
        "don't buy ETH",
        "never sell my BTC",
        'translate "buy 50 USDC of ETH" into Chinese',
        "I bought 50 USDC of ETH yesterday",
        "my friend told me to buy ETH",
        "he said: 'sell all your ETH now'",
        "Tell me a story about a man who wants to buy 50 USDC of ETH",
        "stop buying ETH",
        "I don't want to sell my ETH",
        "buy",
        "b u y 50 USDC of ETH",
        "the people buy ETH",
        "你好",
        "昨天我買了50美元的ETH",
        "不要買 ETH",
        "別賣我的比特幣",
        "他叫我買 ETH",
        "「買 50 美元的 ETH」",
        "안녕하세요",
        "이더리움 사지 마",
        "이더리움 매수하지 마세요",
        "어제 이더리움 50달러 매수했어",
    ],
)
def test_what_asks_for_nothing_is_unsure_and_no_request(text: str) -> None:
    ask = asks(text)
    assert (ask.stage, ask.is_sure, ask.is_trade_request) == (EVALUATE, False, False)


@pytest.mark.parametrize(
    "text",
    [
        "do it",
        "Go ahead",
        "yes",
        "ok do it",
        "make it 3x",
        "make it 100 USDC",
        "buy it",
        "3x",
        "sounds good",
        "proceed please",
        "就這樣",
        "好的，就這樣做",
        "改成 3 倍",
        "好",
        "可以",
        "继续",
        "下單吧",
        "그렇게 해",
        "네",
        "진행해줘",
        "3배로 해줘",
        "좋아",
    ],
)
def test_a_reply_without_content_is_a_continuation(text: str) -> None:
    assert is_continuation(text)
    assert asks(text).is_continuation
    assert not asks(text).is_trade_request


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "cancel",
        "buy $50 of ETH",
        "price of BTC",
        "make it ETH instead of BTC",
        "取消",
        "不要",
        "아니요",
        "취소",
        "hello",
        "what is a perpetual",
        "做多 ETH",
        "do it for ETH",
    ],
)
def test_a_message_with_content_or_a_refusal_is_no_continuation(text: str) -> None:
    assert not is_continuation(text)


def test_the_amount_is_that_of_the_requested_move() -> None:
    ask = asks("BTC is at 90000, so sell 2 ETH")
    assert ask.amount is not None
    assert (ask.amount.value, ask.amount.unit) == (Decimal(2), "ETH")
    assert asks("sell BTC and buy $50 of ETH").amount is None


def test_a_parsed_message_and_its_text_ask_the_same() -> None:
    text = "long ETH 5x with $100"
    assert asks(parse(text)) == asks(text)
    assert asks(text).leverage == 5


@given(
    st.text(
        st.one_of(st.characters(), st.sampled_from("buy sell ETH $50,？嗎買賣사줘")), max_size=160
    )
)
def test_any_text_has_an_ask_and_only_requests_decide(text: str) -> None:
    ask = asks(text)
    assert ask.is_trade_request == (ask.stage is DECIDE)
    assert not (ask.is_trade_request and ask.direction is None)
