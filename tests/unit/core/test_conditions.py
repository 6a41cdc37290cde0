"""What is asked for later, again and again or on a condition is not asked for now."""

from decimal import Decimal

import pytest

from minara_core.asks import is_put_off
from minara_core.lexicon import parse
from minara_core.lexicon_terms import Direction
from minara_core.named_moves import NamedMove, names_move
from support.put_off import NOT_PUT_OFF, PUT_OFF

ANY_SIDE = (Direction.BUY, Direction.SELL, Direction.TRANSFER)


def moves_of(text: str) -> list[NamedMove]:
    """Every move that a hasty reader could take the message for."""
    parsed = parse(text)
    numbers = [(one.value, one.unit) for one in (*parsed.amounts, *parsed.prices)]
    amounts = [(None, "all"), *numbers, *((value, "quote") for value, _ in numbers)]
    return [
        NamedMove(direction=side, asset=symbol, amount=amount, amount_unit=unit)
        for side in ANY_SIDE
        for symbol in parsed.symbols
        for amount, unit in amounts
    ]


@pytest.mark.parametrize("text", PUT_OFF)
def test_a_move_for_another_moment_is_put_off_and_names_none_for_now(text: str) -> None:
    assert is_put_off(parse(text))
    assert moves_of(text)
    assert not any(names_move(text, move) for move in moves_of(text))


@pytest.mark.parametrize("text", NOT_PUT_OFF)
def test_a_move_for_now_and_a_question_are_not_put_off(text: str) -> None:
    assert not is_put_off(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "buy minus five ETH",
        "buy minus 5 ETH",
        "buy negative fifty dollars of ETH",
        "buy minus $50 of ETH",
        "buy -five ETH",
        "買負五個 ETH",
        "买负5个ETH",
        "마이너스 5 ETH 매수",
        "마이너스 오 달러 이더리움 매수",
    ],
)
def test_a_sign_that_is_spelled_out_leaves_no_amount(text: str) -> None:
    parsed = parse(text)
    assert parsed.has_unread_number
    assert parsed.amounts == ()
    move = NamedMove(direction=Direction.BUY, asset="ETH", amount=Decimal(5), amount_unit="base")
    assert not names_move(text, move)
