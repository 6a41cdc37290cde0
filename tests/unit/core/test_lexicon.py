from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.lexicon import fold, language_of, parse, typed_decision
from minara_core.lexicon_tables import asset_table, stage_table
from minara_core.lexicon_terms import Direction, Language
from minara_core.taxonomy import AssetClass

EVM = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
TRON = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
SOLANA = "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263"
BITCOIN = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"

_ALPHABET = st.one_of(
    st.characters(),
    st.sampled_from("0123456789.,$%xX買卖币사매도ETHBTCusdk萬만 '\"\n"),
)


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("price of BTC", ["BTC"]),
        ("bitcoin and Ethereum", ["BTC", "ETH"]),
        ("$ETH to the moon", ["ETH"]),
        ("bitcoin cash or bitcoin", ["BCH", "BTC"]),
        ("ethereum classic", ["ETC"]),
        ("比特幣和以太坊", ["BTC", "ETH"]),
        ("比特币现金", ["BCH"]),
        ("비트코인과 이더리움을", ["BTC", "ETH"]),
        ("買ETH", ["ETH"]),
        ("ETH를 사줘", ["ETH"]),
        ("50usdc", ["USDC"]),
        ("0.5ETH", ["ETH"]),
        ("tesla and 엔비디아 and 台積電", ["TSLA", "NVDA", "TSM"]),
        ("gold and 原油", ["XAU", "WTI"]),
        ("what did the fed say on inflation", ["FED", "CPI"]),
        ("ＥＴＨ", ["ETH"]),
        ("1INCH token", ["1INCH"]),
        ("the one near the link to my core flow", []),
        ("$near and LINK", ["NEAR", "LINK"]),
        ("지금 현금 입금", []),
        ("그렇게 보이더라", []),
        ("methane together ethics", []),
        ("BUY ONE OF THEM NOW NOT LATER", []),
        (f"is {EVM} a scam", [EVM]),
        (f"{TRON} and {SOLANA}", [TRON, SOLANA]),
        (f"send to {BITCOIN}", [BITCOIN]),
    ],
)
def test_assets_are_found_in_order(text: str, symbols: list[str]) -> None:
    assert list(parse(text).symbols) == symbols


@pytest.mark.parametrize(
    ("text", "chain"), [(EVM, "evm"), (TRON, "tron"), (SOLANA, "solana"), (BITCOIN, "bitcoin")]
)
def test_contract_addresses_are_known_by_shape(text: str, chain: str) -> None:
    assert [asset.chain for asset in parse(f"look at {text}, please").assets] == [chain]


@pytest.mark.parametrize(
    ("text", "is_ambiguous"),
    [("SUI", True), ("GME", True), ("gamestop", False), ("BTC", False), ("chainlink", False)],
)
def test_a_ticker_of_a_stock_and_a_token_is_ambiguous(text: str, *, is_ambiguous: bool) -> None:
    assert [asset.is_ambiguous for asset in parse(text).assets] == [is_ambiguous]


def test_positions_point_at_the_words() -> None:
    parsed = parse("Straße: Buy $50 of Ethereum")
    (asset,) = parsed.assets
    (amount,) = parsed.amounts
    (move,) = parsed.moves
    assert parsed.plain[asset.start : asset.end] == "Ethereum"
    assert parsed.plain[amount.start : amount.end] == "$50"
    assert parsed.folded[move.start : move.end] == "buy"


def test_the_table_covers_every_class_and_sixty_coins() -> None:
    classes = list(asset_table().classes.values())
    coins = {AssetClass.CRYPTO_MAJOR, AssetClass.CRYPTO_ALT, AssetClass.CRYPTO_MEME}
    stocks = {AssetClass.EQUITY, AssetClass.TOKENIZED_EQUITY}
    assert sum(one in coins for one in classes) >= 60
    assert sum(one in stocks for one in classes) >= 30
    assert set(classes) >= set(AssetClass) - {AssetClass.PREDICTION}


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("buy $50 of ETH", [("50", "usd")]),
        ("$100 worth of ETH", [("100", "usd")]),
        ("50 USDC of ETH", [("50", "USDC")]),
        ("0.5 ETH", [("0.5", "ETH")]),
        (".5 eth", [("0.5", "ETH")]),
        ("buy 1,000 USDC of BTC", [("1000", "USDC")]),
        ("buy 1,234,567.89 USDC", [("1234567.89", "USDC")]),
        ("$1.5k of btc", [("1500", "usd")]),
        ("$2m of btc", [("2000000", "usd")]),
        ("50 bucks", [("50", "usd")]),
        ("fifty dollars of eth", [("50", "usd")]),
        ("one hundred and twenty dollars", [("120", "usd")]),
        ("two ETH", [("2", "ETH")]),
        ("50% of my ETH", [("50", "percent")]),
        ("half of my ETH", [("50", "percent")]),
        ("sell all my SOL", [("1", "all")]),
        ("sell everything", [("1", "all")]),
        ("3 shares of tesla", [("3", "TSLA")]),
        ("買 50 美元的以太坊", [("50", "usd")]),
        ("五十美元", [("50", "usd")]),
        ("兩千三百美元", [("2300", "usd")]),
        ("1.5萬美元", [("15000", "usd")]),
        ("0.5 個以太坊", [("0.5", "ETH")]),
        ("賣出三成", [("30", "percent")]),
        ("全部賣掉", [("1", "all")]),
        ("一半的比特幣", [("50", "percent")]),
        ("100U", [("100", "USDT")]),
        ("100 元", [("100", "FIAT")]),
        ("50달러", [("50", "usd")]),
        ("오십 달러", [("50", "usd")]),
        ("5만원어치", [("50000", "KRW")]),
        ("ETH 0.5개", [("0.5", "ETH")]),
        ("이더리움 전부 매도", [("1", "all")]),
        ("５０ USDC", [("50", "USDC")]),
        ("buy 50", [("50", None)]),
        ("€50", [("50", "EUR")]),
        ("50x ETH long", []),
        ("in the last 24 hours", []),
        ("5m chart", []),
        ("사주세요", []),
        ("比特幣是一個好投資", []),
    ],
)
def test_amounts_are_read_exactly(text: str, amounts: list[tuple[str, str | None]]) -> None:
    found = [(amount.value, amount.unit) for amount in parse(text).amounts]
    assert found == [(Decimal(value), unit) for value, unit in amounts]


@pytest.mark.parametrize(
    "text",
    [
        "buy -50 USDC",
        "buy 1e5 USDC",
        "buy 50-100 USDC",
        "buy $1,5",
        "1.2.3 ETH",
        "a third of it",
        "buy ½ ETH",
        "buy 1/2 ETH",
        "buy 1_000 USDC",
        "buy ٥٠ USDC",
    ],
)
def test_a_number_that_is_not_certain_is_no_amount(text: str) -> None:
    parsed = parse(text)
    assert parsed.has_unread_number
    assert parsed.amounts == ()


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("buy ETH at $2,000", "2000"),
        ("buy $50 of ETH when it drops to 1800", "1800"),
        ("ETH 跌到 2000 美元時買 50 USDC", "2000"),
        ("ETH 2000달러에 매수해줘", "2000"),
    ],
)
def test_a_price_is_not_an_amount(text: str, price: str) -> None:
    parsed = parse(text)
    assert [one.value for one in parsed.prices] == [Decimal(price)]
    assert Decimal(price) not in [one.value for one in parsed.amounts]


@pytest.mark.parametrize(
    ("text", "leverage"),
    [
        ("50x ETH long", "50"),
        ("long BTC 2.5x", "2.5"),
        ("leverage of 10", "10"),
        ("x20", "20"),
        ("做多5倍", "5"),
        ("槓桿 10 倍", "10"),
        ("10배 롱", "10"),
        ("레버리지 3배", "3"),
        ("0x50", None),
        ("buy 5 eth", None),
    ],
)
def test_leverage_is_read_apart_from_amounts(text: str, leverage: str | None) -> None:
    assert parse(text).leverage == (Decimal(leverage) if leverage else None)


@pytest.mark.parametrize(
    ("text", "directions"),
    [
        ("buy ETH", [Direction.BUY]),
        ("sell BTC and buy ETH", [Direction.SELL, Direction.BUY]),
        ("go long BTC", [Direction.LONG]),
        ("short SOL", [Direction.SHORT]),
        ("swap USDC to ETH", [Direction.SWAP]),
        ("close my BTC position", [Direction.CLOSE]),
        ("send 1 ETH", [Direction.TRANSFER]),
        ("withdraw everything", [Direction.WITHDRAW]),
        ("how long is the short term", []),
        ("in short, as long as", []),
        ("buyers and sellers, the sell-off, buying pressure", []),
        ("market close to the high", []),
        ("I bought and sold", []),
        ("send me the price", []),
        ("don't buy ETH", []),
        ("I do not want to sell", []),
        ("instead of buying", []),
        ('he wrote "buy ETH"', []),
        ("買入以太坊", [Direction.BUY]),
        ("買了以太坊", []),
        ("買賣平台", []),
        ("不要賣", []),
        ("做多還是做空", [Direction.LONG, Direction.SHORT]),
        ("提現和轉帳", [Direction.WITHDRAW, Direction.TRANSFER]),
        ("매수", [Direction.BUY]),
        ("매수했어", []),
        ("매수하지 마", []),
        ("사지 마", []),
        ("팔아줘", [Direction.SELL]),
        ("롱 숏", [Direction.LONG, Direction.SHORT]),
        ("회사", []),
    ],
)
def test_directions_are_those_the_speaker_names(text: str, directions: list[Direction]) -> None:
    assert list(parse(text).directions) == directions


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("price of BTC", {"price"}),
        ("what's trending", {"trending"}),
        ("fear and greed index", {"fear_greed"}),
        ("my portfolio", {"portfolio"}),
        ("search for PEPE", {"search"}),
        ("read notes.md", {"file_read"}),
        ("比特幣價格", {"price"}),
        ("熱門代幣", {"trending"}),
        ("恐懼與貪婪指數", {"fear_greed"}),
        ("我的持倉", {"portfolio"}),
        ("비트코인 시세", {"price"}),
        ("인기 토큰", {"trending"}),
        ("공포 탐욕 지수", {"fear_greed"}),
        ("내 포트폴리오", {"portfolio"}),
        ("hello", set[str]()),
    ],
)
def test_topics_say_what_is_to_be_read(text: str, topics: set[str]) -> None:
    assert parse(text).topics == topics


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("price of BTC", Language.EN),
        ("BTC 多少", Language.ZH),
        ("BTC 얼마", Language.KO),
        ("幫我 buy 50 USDC of ETH", Language.ZH),
        ("please tell me in plain English what the name 比特幣 means", Language.EN),
        ("", Language.EN),
        ("🚀🚀", Language.EN),
    ],
)
def test_the_language_is_that_of_the_script(text: str, language: Language) -> None:
    assert language_of(text) is language


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "Yes.",
        " YES ",
        "ｙｅｓ",
        "confirm",
        "Confirm!",
        "確認",
        "确认。",
        "是的",
        "네",
        "확인",
    ],
)
def test_a_typed_yes_is_the_whole_message(text: str) -> None:
    assert typed_decision(text) == "yes"


@pytest.mark.parametrize(
    "text", ["no", "No!", "cancel", "取消", "不要。", "아니요", "취소", "don't", "never mind"]
)
def test_a_typed_no_is_the_whole_message(text: str) -> None:
    assert typed_decision(text) == "no"


@pytest.mark.parametrize(
    "text",
    [
        "yes but 50",
        "yes?",
        "yes yes",
        "yes, and buy more",
        "ok",
        "sure",
        "好",
        "응",
        "確認一下",
        "네 그런데",
        "no problem, go on",
        "",
        " ",
        "yes\nno",
        "not yes",
        "y e s",
        "confirm 50",
        '"yes"',
    ],
)
def test_anything_beside_the_word_decides_nothing(text: str) -> None:
    assert typed_decision(text) is None


@given(st.text(_ALPHABET, max_size=200))
def test_parse_takes_any_text_and_its_positions_hold(text: str) -> None:
    parsed = parse(text)
    assert len(parsed.plain) == len(parsed.folded)
    for mention in (*parsed.assets, *parsed.amounts, *parsed.moves, *parsed.topic_mentions):
        assert 0 <= mention.start <= mention.end <= len(parsed.folded)
    assert all(amount.value.is_finite() and amount.value >= 0 for amount in parsed.amounts)


@given(st.text(_ALPHABET, max_size=80))
def test_parsing_depends_on_the_text_alone(text: str) -> None:
    assert parse(text) == parse(text)


@given(st.text(st.sampled_from("BUYbuyETHeth 50$usd"), max_size=40))
def test_case_does_not_change_moves_and_amounts(text: str) -> None:
    upper, lower = parse(text.upper()), parse(text.lower())
    assert upper.amounts == lower.amounts
    assert upper.directions == lower.directions


def test_folding_is_nfkc_and_casefold() -> None:
    assert fold("ＢＵＹ ５０ ﬁne") == "buy 50 fine"


def test_every_topic_is_known_in_three_languages() -> None:
    for topic, patterns in stage_table().topics.items():
        assert set(patterns) == set(Language), topic


@pytest.mark.parametrize("text", ["buy $1e9 of ETH", "buy $0x10 of ETH", "buy $5o of ETH"])
def test_a_number_that_goes_on_in_letters_is_unread_even_behind_a_dollar_sign(text: str) -> None:
    parsed = parse(text)
    assert parsed.has_unread_number
    assert parsed.amounts == ()


@pytest.mark.parametrize("text", ["buy $50eth", "buy $50 of ETH", "buy $50usd of ETH"])
def test_a_dollar_amount_may_touch_what_it_buys(text: str) -> None:
    assert [(str(a.value), a.unit) for a in parse(text).amounts] == [("50", "usd")]
