"""A session that outgrows its window, turn by turn: what is committed is what comes back."""

from itertools import pairwise

from minara_core.events import ContextCompacted, TurnCompleted, TurnFailed, UsageReported
from minara_core.ids import TurnId
from minara_llm.model import FailureKind, ModelFailure
from minara_llm.scripted import Script, says
from minara_orchestrator.domain.history import messages_of
from support.orchestrator.house import House, a_turn, of_type
from support.orchestrator.prompts import assert_paired

WINDOW = 16_000
LONG = "so " * 600


async def a_long_session(house: House, turns: int) -> list[bool]:
    """For each turn, whether its history was compacted."""
    seen: list[bool] = []
    for number in range(turns):
        events = await house.play(a_turn(f"message {number} {LONG}", turn_id=f"turn-{number}"))
        assert isinstance(events[-1], TurnCompleted)
        assert len(of_type(events, UsageReported)) == 1
        seen.append(bool(of_type(events, ContextCompacted)))
    return seen


def scripts(turns: int) -> list[Script]:
    return [says(f"answer {number}") for number in range(turns)]


async def test_between_compactions_every_request_extends_the_one_before() -> None:
    house = House(scripts(60), context_window=WINDOW)
    compacted = await a_long_session(house, 60)
    assert 2 <= sum(compacted) <= 6
    for (before, after), was_cut in zip(pairwise(house.model.requests), compacted[1:], strict=True):
        assert (after.tools, after.system) == (before.tools, before.system)
        assert_paired(after.messages)
        extends = after.messages[: len(before.messages)] == before.messages
        assert extends is not was_cut


async def test_a_compacted_session_still_has_its_skills_instructions() -> None:
    house = House(scripts(60), context_window=WINDOW)
    await a_long_session(house, 60)
    for request in house.model.requests:
        texts = [message.text for message in request.messages]
        assert sum("Help plainly." in text for text in texts) == 1


async def test_a_turn_commits_what_it_made_of_the_history() -> None:
    house = House(scripts(40), context_window=WINDOW)
    compacted = await a_long_session(house, 40)
    first = compacted.index(True)
    record = house.workspace.records[TurnId(f"turn-{first}")]
    assert record.compaction is not None
    assert record.compaction.through_turn_number == first
    request = house.model.requests[first]
    kept = messages_of(record.compaction.history)
    assert request.messages[: len(kept)] == kept
    assert request.messages[len(kept) :] == record.messages[:2]
    assert [one.rung for one in record.compaction.records] == ["summary"]


async def test_a_failed_turn_commits_it_too() -> None:
    broken = ModelFailure("no", kind=FailureKind.BAD_REQUEST)
    house = House([*scripts(14), broken], context_window=WINDOW)
    assert not any(await a_long_session(house, 14))
    events = await house.play(a_turn("x" * 60_000, turn_id="turn-failed"))
    assert isinstance(events[-1], TurnFailed)
    assert of_type(events, ContextCompacted)
    assert house.workspace.records[TurnId("turn-failed")].compaction is not None
