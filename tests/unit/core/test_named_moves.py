from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.lexicon_terms import Direction
from minara_core.named_moves import NamedMove, contradiction, names_move

Call = tuple[str, str, str | None, str | None]


def _amount(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None else None


def _move(call: Call) -> NamedMove:
    direction, asset, amount, unit = call
    return NamedMove(
        direction=Direction(direction), asset=asset, amount=_amount(amount), amount_unit=unit
    )


def _names(text: str, call: Call) -> bool:
    return names_move(text, _move(call))


def _contradicts(text: str, call: Call) -> str | None:
    return contradiction(text, _move(call))


BUY_50_ETH: Call = ("buy", "ETH", "50", "quote")

NAMED: list[tuple[str, Call]] = [
    ("buy $50 of ETH", BUY_50_ETH),
    ("Buy 50 USDC of ETH", BUY_50_ETH),
    ("buy 50 USDC of ETH", ("buy", "ETH", "50.00", "USDC")),
    ("buy ETH", BUY_50_ETH),
    ("Should I buy ETH for $50?", BUY_50_ETH),
    ("I like ETH. Buy $50 of it.", BUY_50_ETH),
    ("buy 50 USDC of BTC and ETH", BUY_50_ETH),
    ("sell BTC and buy $50 of ETH", BUY_50_ETH),
    ("sell BTC and buy $50 of ETH", ("sell", "BTC", "1", "base")),
    ("swap 50 USDC to ETH", BUY_50_ETH),
    ("convert 0.5 ETH to USDC", ("sell", "ETH", "0.5", "base")),
    ("sell 0.5 ETH", ("sell", "ETH", "0.5", "base")),
    ("sell 0.5 ETH", ("sell", "ETH", "0.50", "ETH")),
    ("sell all my SOL", ("sell", "SOL", None, "all")),
    ("close my ETH position", ("close", "ETH", None, "all")),
    ("close my ETH position", ("sell", "ETH", "2", "base")),
    ("sell half of my ETH", ("sell", "ETH", "50", "percent")),
    ("long ETH 5x with $100", ("long", "ETH", "100", "quote")),
    ("buy 1,000 USDC of BTC", ("buy", "BTC", "1000", "quote")),
    ("buy fifty dollars of eth", BUY_50_ETH),
    ("買 50 美元的以太坊", BUY_50_ETH),
    ("把 50 USDC 換成 ETH", BUY_50_ETH),
    ("用100U買比特幣", ("buy", "BTC", "100", "quote")),
    ("이더리움 50달러 매수", BUY_50_ETH),
    ("이더리움 전부 팔아줘", ("sell", "ETH", None, "all")),
    (
        "buy $50 of 0xdAC17F958D2ee523a2206206994597C13D831ec7",
        ("buy", "0xDAC17F958D2EE523A2206206994597C13D831EC7", "50", "quote"),
    ),
]

NOT_NAMED: list[tuple[str, Call]] = [
    ("buy $50 of ETH", ("buy", "ETH", "51", "quote")),
    ("buy $50 of ETH", ("buy", "ETH", "50", "base")),
    ("buy $50 of ETH", ("sell", "ETH", "50", "quote")),
    ("buy $50 of ETH", ("buy", "BTC", "50", "quote")),
    ("buy $50 of ETH and $20 of BTC", ("buy", "BTC", "50", "quote")),
    ("buy $50 of ETH and $20 of BTC", ("buy", "ETH", "20", "quote")),
    ("sell BTC and buy ETH", ("buy", "BTC", "50", "quote")),
    ("swap 50 USDC to ETH", ("sell", "ETH", "50", "quote")),
    ("buy 50 USDC of ETH", ("buy", "USDC", "50", "base")),
    ("price of ETH", BUY_50_ETH),
    ("don't buy ETH", BUY_50_ETH),
    ("I bought 50 USDC of ETH", BUY_50_ETH),
    ('the page says "buy 50 USDC of ETH"', BUY_50_ETH),
    ("buy ETH at $50", ("buy", "ETH", "500", "quote")),
    ("buy 1e5 USDC of ETH", ("buy", "ETH", "100000", "quote")),
    ("buy 50-100 USDC of ETH", BUY_50_ETH),
    ("buy ETH. Make that: buy 100 USDC of ETH", BUY_50_ETH),
    ("sell half of my ETH", ("sell", "ETH", None, "all")),
    ("sell half of my ETH", ("sell", "ETH", "0.5", "base")),
    ("sell all my ETH", ("sell", "ETH", "3", "base")),
    ("sell 0.5 ETH", ("sell", "ETH", None, "all")),
    ("buy fifty dollars of eth", ("buy", "ETH", "500", "quote")),
    ("yes", BUY_50_ETH),
    ("", BUY_50_ETH),
    ("long ETH", BUY_50_ETH),
    ("不要買 ETH", BUY_50_ETH),
    ("買了 50 美元的 ETH", BUY_50_ETH),
    ("買 100 元的 ETH", ("buy", "ETH", "100", "quote")),
    ("이더리움 사지 마", BUY_50_ETH),
    ("이더리움 50달러 매수", ("buy", "ETH", "500", "quote")),
    ("5만원어치 비트코인 사줘", ("buy", "BTC", "50000", "quote")),
]


@pytest.mark.parametrize(("text", "call"), NAMED)
def test_a_message_names_the_move_it_asks_for(text: str, call: Call) -> None:
    assert _names(text, call)


@pytest.mark.parametrize(("text", "call"), NOT_NAMED)
def test_a_message_does_not_name_another_move(text: str, call: Call) -> None:
    assert not _names(text, call)


@pytest.mark.parametrize(("text", "call"), NAMED)
def test_what_a_message_names_it_does_not_contradict(text: str, call: Call) -> None:
    assert _contradicts(text, call) is None


@pytest.mark.parametrize(
    ("text", "call", "field"),
    [
        ("Sell 50 USDC of ETH.", BUY_50_ETH, "direction"),
        ("Buy 50 USDC of BTC.", BUY_50_ETH, "asset"),
        ("Buy 500 USDC of ETH.", BUY_50_ETH, "amount"),
        ("Buy 50 ETH.", BUY_50_ETH, "amount"),
        ("don't buy ETH", BUY_50_ETH, "direction"),
        ("Short ETH with 50 USDC", BUY_50_ETH, "direction"),
        ("buy $50 of ETH and $20 of BTC", ("buy", "BTC", "50", "quote"), "amount"),
        ("sell BTC and buy ETH", ("buy", "BTC", None, None), "direction"),
        ("price of ETH, and buy $50 of BTC", BUY_50_ETH, "asset"),
        ("sell half of my ETH", ("sell", "ETH", None, "all"), "amount"),
        ("sell 0.5 ETH", ("sell", "ETH", None, "all"), "amount"),
        ("賣出以太坊", BUY_50_ETH, "direction"),
        ("買 500 美元的以太坊", BUY_50_ETH, "amount"),
        ("買 50 美元的比特幣", BUY_50_ETH, "asset"),
        ("不要買以太坊", BUY_50_ETH, "direction"),
        ("이더리움 매도", BUY_50_ETH, "direction"),
        ("이더리움 500달러 매수", BUY_50_ETH, "amount"),
        ("비트코인 50달러 매수", BUY_50_ETH, "asset"),
        ("이더리움 사지 마", BUY_50_ETH, "direction"),
    ],
)
def test_a_contradiction_names_its_field(text: str, call: Call, field: str) -> None:
    assert _contradicts(text, call) == field


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("", BUY_50_ETH),
        ("yes, do it", BUY_50_ETH),
        ("The user asked for it.", BUY_50_ETH),
        ("Buy ETH because BTC is rising", BUY_50_ETH),
        ("buy 50 USDC", BUY_50_ETH),
        ("I like ETH. Buy 50 USDC", BUY_50_ETH),
        ("Buy 0.5 ETH, about 1500 USDC", ("buy", "ETH", "1500", "quote")),
        ("sell half of my ETH", ("sell", "ETH", "0.25", "base")),
        ("sell everything", ("sell", "ETH", "3", "base")),
        ("Should I buy or sell ETH?", BUY_50_ETH),
        ("就這樣", BUY_50_ETH),
        ("그렇게 해", BUY_50_ETH),
    ],
)
def test_silence_is_no_contradiction(text: str, call: Call) -> None:
    assert _contradicts(text, call) is None


@given(st.text(max_size=120), st.sampled_from(["buy", "sell", "long", "close", "swap", "transfer"]))
def test_any_text_can_be_compared(text: str, direction: str) -> None:
    call: Call = (direction, "ETH", "50", "quote")
    assert _contradicts(text, call) in {None, "direction", "asset", "amount"}
    if _names(text, call):
        assert _contradicts(text, call) is None


@given(
    st.decimals(min_value="0.01", max_value="99999", places=2),
    st.decimals("0.01", "99999", places=2),
)
def test_the_named_amount_must_be_equal(named: Decimal, called: Decimal) -> None:
    call: Call = ("buy", "ETH", str(called), "quote")
    assert _names(f"buy {named} USDC of ETH", call) == (named == called)


def a_buy(*, price: str | None = None) -> NamedMove:
    return NamedMove(
        direction=Direction.BUY,
        asset="ETH",
        amount=Decimal("0.1"),
        amount_unit="base",
        price=None if price is None else Decimal(price),
    )


@pytest.mark.parametrize(
    "text",
    [
        "cancel the order to buy 0.1 ETH",
        "cancel my buy order of 0.1 ETH",
        "取消買 0.1 ETH 的訂單",
        "0.1 ETH 매수 주문 취소해줘",
        "buy 0.1 ETH at 2000",
    ],
)
def test_what_is_to_be_cancelled_or_has_a_price_asks_for_no_order_at_the_market(text: str) -> None:
    assert not names_move(text, a_buy())


@pytest.mark.parametrize("text", ["cancel that and buy 0.1 ETH", "cancel it, then buy 0.1 ETH"])
def test_a_purchase_after_a_cancel_is_asked_for(text: str) -> None:
    assert names_move(text, a_buy())


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("buy 0.1 ETH at 2000", None),
        ("buy 0.1 ETH", None),
        ("buy 0.1 ETH at 2100", "price"),
        ("sell 0.1 ETH at 2000", "direction"),
    ],
)
def test_another_price_contradicts_an_order_that_rests(text: str, field: str | None) -> None:
    assert contradiction(text, a_buy(price="2000")) == field


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("swap 1 ETH to BTC", None),
        ("swap 1 ETH to SOL", "asset"),
        ("swap 2 ETH to BTC", "amount"),
        ("transfer 1 ETH", "direction"),
        ("hello", None),
    ],
)
def test_another_end_or_amount_contradicts_a_swap(text: str, field: str | None) -> None:
    move = NamedMove(
        direction=Direction.SWAP, asset="ETH", amount=Decimal(1), amount_unit="ETH", into="BTC"
    )
    assert contradiction(text, move) == field


@pytest.mark.parametrize(
    ("move", "sentence"),
    [
        (a_buy(price="2000"), "buy 0.1 ETH at 2000"),
        (
            NamedMove(
                direction=Direction.SWAP, asset="ETH", amount=None, amount_unit="all", into="BTC"
            ),
            "swap all of my ETH to BTC",
        ),
        (
            NamedMove(
                direction=Direction.CANCEL,
                asset="ETH",
                amount=None,
                amount_unit=None,
                reference="3fa2bc",
            ),
            "cancel my ETH order 3fa2bc",
        ),
    ],
)
def test_a_move_is_named_by_the_sentence_it_proposes(move: NamedMove, sentence: str) -> None:
    assert move.sentence == sentence
    assert names_move(sentence, move)
