"""kill -9 of the orchestrator at each step of a turn of three tools: another replica goes on from
what was kept, the model is asked again only for what was not, and nothing is done twice."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from support.cluster_client import Told
from support.cluster_stages import Stage
from support.take_over_points import Cut, Point, Story, words
from support.take_overs import play

HELD = [Cut.UNASKED, Cut.IN_TEXT, Cut.IN_CALL]
HELD_POINTS = [Point(place=place, cut=cut) for place in range(3) for cut in HELD]
SENT_POINTS = [Point(place=place, cut=Cut.ASKED) for place in range(3)]
LOST_POINTS = [Point(place=place, cut=Cut.RECORDED) for place in range(3)]
WAVES = [
    [*HELD_POINTS, *SENT_POINTS, Point(place=2, cut=Cut.CLOSING)],
    [*LOST_POINTS, Point(place=2, cut=Cut.COMMITTED)],
]
POINTS = [point for wave in WAVES for point in wave]
TOOLS = ("get_price", "write_file", "buy_token")

pytestmark = pytest.mark.timeout(300)


@dataclass
class Played:
    """What the tests of this module look at; made by the first of them."""

    stories: dict[str, Story] = field(default_factory=dict[str, Story])
    refusals: list[str] = field(default_factory=list[str])
    has_begun: bool = False


@pytest.fixture(scope="module")
def shelf() -> Played:
    return Played()


@pytest.fixture
async def played(shelf: Played, stage: Stage) -> Played:
    if not shelf.has_begun:
        shelf.has_begun = True
        stories, shelf.refusals = await play(stage, WAVES)
        shelf.stories = {story.point.word: story for story in stories}
    assert shelf.stories, "the turns were not played; the first failure says why"
    return shelf


@pytest.fixture(params=POINTS, ids=lambda point: point.word)
def story(request: pytest.FixtureRequest, played: Played) -> Story:
    return played.stories[request.param.word]


def lost_places(point: Point) -> set[int]:
    """What the model is to be asked for again: steps of which nothing was kept. One whose call only
    reads is kept with what is stored next; one that changes something is kept before it does."""
    if point.cut in HELD:
        return {point.place}
    lost = {0} if point.place == 0 and point.cut in {Cut.ASKED, Cut.RECORDED} else set[int]()
    if point.cut is Cut.RECORDED and point.place < len(TOOLS) - 1:
        lost.add(point.place + 1)  # it was asked for while the results waited to be stored
    return lost


def visible(told: Told) -> str:
    """The text that is left once all that was taken back is."""
    texts: dict[int, str] = {}
    for event in told.events:
        if event.name == "text_delta":
            texts[event.sequence] = event.fields["text"]
        elif event.name == "text_reset":
            since = event.fields["since_sequence"]
            texts = {sequence: text for sequence, text in texts.items() if sequence <= since}
    return "".join(texts.values())


async def test_the_turn_comes_to_its_end_on_the_other_replica(story: Story) -> None:
    assert story.told.faults() == []
    assert story.told.end == "turn_completed"
    reason = story.told.events[-1].fields["finish_reason"]
    assert reason == "FINISH_REASON_APPROVAL_REQUESTED"
    first, last = story.owners
    assert first != last
    assert story.take_overs == 1
    assert len(story.told.fields_of("turn_resumed")) == 1
    assert len(story.told.fields_of("turn_started")) == 1


async def test_the_model_is_asked_again_only_for_what_was_not_kept(story: Story) -> None:
    lost = lost_places(story.point)
    assert story.asked == [2 if place in lost else 1 for place in range(3)]


async def test_what_it_said_stands_there_once(story: Story) -> None:
    text, lost = visible(story.told), lost_places(story.point)
    assert text == "".join(words(place, 2 if place in lost else 1) for place in range(3))


async def test_each_call_is_told_begun_and_ended_once(story: Story) -> None:
    started = [each["tool_call_id"] for each in story.told.fields_of("tool_call_started")]
    finished = [
        each["result"]["tool_call_id"] for each in story.told.fields_of("tool_call_finished")
    ]
    assert sorted(started) == sorted(finished)
    assert len(set(started)) == len(started)
    assert {call.tool_call_id for call in story.calls} <= set(started)


async def test_each_call_ran_once_or_was_answered_with_its_recorded_result(story: Story) -> None:
    ended = Counter(call.name for call in story.calls if call.is_finished)
    assert story.audited == ended
    assert ended["write_file"] == ended["buy_token"] == 1
    attempt = 2 if 1 in lost_places(story.point) else 1
    assert story.files == [f"{story.point.word}-{attempt}.txt"]
    kept = {call.tool_call_id: call.result_json for call in story.calls}
    for call in story.before:
        if call.is_finished:
            assert kept[call.tool_call_id] == call.result_json


async def test_results_that_nobody_was_told_were_recorded_before_the_kill(story: Story) -> None:
    before = [call.name for call in story.before if call.is_finished]
    count = story.point.place + (story.point.cut in {Cut.RECORDED, Cut.CLOSING, Cut.COMMITTED})
    assert before == list(TOOLS[:count])


async def test_what_waits_is_one_purchase_that_is_done_once(story: Story) -> None:
    assert len(story.waiting) == 1
    assert story.answers == ["ACTION_STATE_DONE"] * 2
    assert story.orders == 1


async def test_the_next_turn_goes_well(story: Story, played: Played) -> None:
    assert story.next.end == "turn_completed"
    assert played.refusals == []
