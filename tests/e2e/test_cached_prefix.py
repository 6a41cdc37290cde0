"""The cached prefix: across a ten-turn session every request extends the one before."""

from itertools import pairwise

from minara_llm.scripted import calls, says
from support.deployments import MinaraFactory
from support.minara import finish_reason

TURNS = 10


async def test_ten_turns_extend_one_prefix_byte_for_byte(minara_factory: MinaraFactory) -> None:
    scripts = [
        script
        for number in range(TURNS)
        for script in (
            calls(("get_price", {"symbol": "BTC" if number % 2 else "ETH"})),
            says(f"answer {number}"),
        )
    ]
    minara = await minara_factory(scripts=scripts)
    for number in range(TURNS):
        events = await minara.say(f"message {number}: buy, price, portfolio, 比特幣"[: 12 + number])
        assert finish_reason(events) == "stop"
    minara_factory.model.assert_exhausted()
    prompts = minara_factory.model.prompts()
    assert len(prompts) == 2 * TURNS
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
        assert len(after) > len(before)
