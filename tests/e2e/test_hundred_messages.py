"""A hundred messages through the offline model and the whole system, on paper and simulated
markets: the tools that are called, what is said, and what waits for the person."""

import sys

import pytest

from support.deployments import MinaraFactory
from support.hundred import HundredMessage, complaints, hundred_messages
from support.minara import EmbeddedMinara, Minara, named

LOCALES = ("en", "zh-Hant", "zh-Hans", "ko")
BALANCES = {"USDC": "100000", "ETH": "5", "BTC": "1"}


async def with_an_order_and_a_file(minara: Minara) -> None:
    """One order rests at the venue, and notes.md lies in the person's folder."""
    assert isinstance(minara, EmbeddedMinara)
    folder = minara.data_dir / "sandbox" / "files" / minara.user_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text("remember the milk", "utf-8")
    await minara.say("buy 0.1 ETH at 1000")
    decided = named(await minara.say("yes"), "action_decided")
    assert decided[0]["action"]["state"] == "ACTION_STATE_DONE"
    asked = await minara.client.call("GET", "/v1/orders?recent=0")
    assert len(asked["open_orders"]) == 1


async def complaints_about(minara: Minara, message: HundredMessage) -> list[str]:
    """What is wrong when the message opens a conversation."""
    minara.session_id = minara.shown_action_id = ""
    return list(complaints(message, await minara.say(message.text)))


@pytest.mark.only("embedded", reason="what is said does not depend on how it is deployed")
@pytest.mark.parametrize("locale", LOCALES)
async def test_each_message_is_understood_and_answered_without_an_invented_number(
    minara_factory: MinaraFactory, locale: str
) -> None:
    minara = await minara_factory(balances=BALANCES)
    await with_an_order_and_a_file(minara)
    asked = [one for one in hundred_messages() if one.locale == locale]
    wrong = {one.text: found for one in asked if (found := await complaints_about(minara, one))}
    sys.stdout.write(f"{locale:8} {len(asked) - len(wrong):3} of {len(asked)} passed\n")
    assert not wrong, "\n".join(f"{text}\n    {'; '.join(w)}" for text, w in wrong.items())


def test_there_are_a_hundred_of_them_in_every_language() -> None:
    assert len(hundred_messages()) >= 100
    for locale in LOCALES:
        assert len([one for one in hundred_messages() if one.locale == locale]) >= 20
    assert len({one.text for one in hundred_messages()}) == len(hundred_messages())
