"""How the offline model says what tools answered: once, in the person's language."""

import pytest

from minara_core.tooling import ok
from minara_llm.offline.phrases import all_phrases, phrases_for
from support.offline_talk import answer, price_envelope

FEAR_GREED = ok({"value": "63", "classification": "Greed", "as_of": "2026-01-02", "source": "live"})


async def test_what_is_simulated_is_said_once_on_the_last_line() -> None:
    results = [(name, price_envelope(name, "1", source="simulated")) for name in ("BTC", "ETH")]
    said = await answer("price of BTC and ETH", [("get_price", one) for _, one in results])
    assert said.text.splitlines()[-1] == "This is simulated data, not a real market."
    assert said.text.count("simulated") == 1
    assert "BTC: 1 USD, -1.25% in 24 h" in said.text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("fear and greed", "(Greed)"),
        ("恐懼與貪婪指數", "（貪婪）"),
        ("恐惧与贪婪指数", "（贪婪）"),
        ("공포 탐욕 지수", "(탐욕)"),
    ],
)
async def test_a_known_mood_is_told_in_the_language_of_the_message(text: str, word: str) -> None:
    assert word in (await answer(text, [("get_fear_greed", FEAR_GREED)])).text
    odd = ok({"value": "63", "classification": "Odd", "source": "live"})
    assert "Odd" in (await answer(text, [("get_fear_greed", odd)])).text


@pytest.mark.parametrize(
    "text", ["BTCの価格は？", "ビットコインの価格", "сколько стоит BTC", "ราคา BTC"]
)
def test_a_script_that_is_none_of_the_four_is_answered_in_english(text: str) -> None:
    assert phrases_for(text) is all_phrases()["en"]
