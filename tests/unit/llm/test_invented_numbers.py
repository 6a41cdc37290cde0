import pytest

from support.invented import invented_numbers, no_invented_numbers

PRICE = '{"ok":true,"data":{"price":"90123.45","change_24h_percent":"-1.25"}}'


@pytest.mark.parametrize(
    "answer",
    [
        "BTC: 90123.45 USD",
        "-1.25% in 24 h",
        "90,123.45 USD",
        "no number at all",
        "",
    ],
)
def test_what_an_envelope_gives_is_not_invented(answer: str) -> None:
    assert no_invented_numbers(answer, "price of BTC", [PRICE])


@pytest.mark.parametrize(
    ("answer", "made_up"),
    [
        ("BTC: 90123.46 USD", ["90123.46"]),
        ("BTC: 90123 USD", ["90123"]),
        ("BTC: 123.45 USD", ["123.45"]),
        ("about 90,000 or 91,000", ["90000", "91000"]),
        ("5 USD", ["5"]),
    ],
)
def test_a_rounded_cut_or_new_number_is_invented(answer: str, made_up: list[str]) -> None:
    assert invented_numbers(answer, "price of BTC", [PRICE]) == made_up


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("buy 50 of ETH", "In which unit is 50 meant?"),
        ("buy $1.5k of ETH", "1500"),
        ("buy 1,000 USDC of ETH", "1000"),
        ("買五十 USDC 的 ETH", "50"),
    ],
)
def test_what_the_person_said_is_not_invented(message: str, answer: str) -> None:
    assert no_invented_numbers(answer, message, [])


def test_without_envelopes_every_number_but_the_persons_is_invented() -> None:
    assert invented_numbers("BTC: 90123.45", "price of BTC", []) == ["90123.45"]
