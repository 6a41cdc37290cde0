"""The cached prefix: across a ten-turn session every request extends the one before."""

from itertools import pairwise
from pathlib import Path

from minara_llm.model import ModelRequest
from minara_llm.scripted import ScriptedModel, calls, says
from support.minara import a_minara, finish_reason

TURNS = 10


def wire(request: ModelRequest) -> tuple[str, str, list[str]]:
    """A request as text: tools, system, then each message; equal text is equal bytes."""
    return repr(request.tools), repr(request.system), [repr(m) for m in request.messages]


async def test_ten_turns_extend_one_prefix_byte_for_byte(tmp_path: Path) -> None:
    scripts = [
        script
        for number in range(TURNS)
        for script in (
            calls(("get_price", {"symbol": "BTC" if number % 2 else "ETH"})),
            says(f"answer {number}"),
        )
    ]
    model = ScriptedModel(scripts)
    async with a_minara(tmp_path / "data", model=model) as minara:
        for number in range(TURNS):
            events = await minara.say(
                f"message {number}: buy, price, portfolio, 比特幣"[: 12 + number]
            )
            assert finish_reason(events) == "stop"
    model.assert_exhausted()
    requests = [wire(request) for request in model.requests]
    assert len(requests) == 2 * TURNS
    for before, after in pairwise(requests):
        assert after[0] == before[0]
        assert after[1] == before[1]
        assert after[2][: len(before[2])] == before[2]
        assert len(after[2]) > len(before[2])
