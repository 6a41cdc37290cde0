"""An orchestrator stands still in the middle of turns, for longer than its leases, and another one
finishes them: whatever it does about them when it wakes is refused."""

from dataclasses import dataclass, replace

import pytest

from minara_core.errors import Conflict
from minara_core.events import FinishReason
from minara_core.ids import ToolCallId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolCall
from minara_orchestrator.adapters.stored_turns import turn_of
from minara_orchestrator.adapters.tools_client import ToolsClient
from minara_orchestrator.adapters.workspace_client import WorkspaceClient
from minara_orchestrator.app.ports import ToolBatch
from minara_orchestrator.domain.checkpoint import Past
from minara_orchestrator.domain.turn import Turn, TurnRecord, TurnState
from support.cluster_stages import Stage
from support.take_over_points import Cut, Point
from support.take_overs import Stalled, stall

POINTS = [
    Point(place=0, cut=Cut.UNASKED),  # it wakes and sends a call that only reads
    Point(place=1, cut=Cut.UNASKED),  # it wakes and keeps a call that writes, to send it then
    Point(place=2, cut=Cut.UNASKED),  # it wakes and keeps a purchase, to have it previewed then
    Point(place=2, cut=Cut.CLOSING),  # it wakes and records the turn
]
LATE_SECONDS = 6.0
"""All that it has to do is done within a second or two."""

pytestmark = pytest.mark.timeout(200)


@dataclass
class Shelf:
    stalled: Stalled | None = None
    has_begun: bool = False


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def stalled(shelf: Shelf, stage: Stage) -> Stalled:
    if not shelf.has_begun:
        shelf.has_begun = True
        shelf.stalled = await stall(stage, POINTS, late_seconds=LATE_SECONDS)
    assert shelf.stalled is not None, "the turns were not played; the first failure says why"
    return shelf.stalled


async def test_the_other_one_finishes_every_turn(stalled: Stalled) -> None:
    for story in stalled.stories:
        assert story.told.faults() == []
        assert story.told.end == "turn_completed"
        assert story.owners[0] != story.owners[1]
        assert story.take_overs == 1


async def test_of_what_it_does_late_nothing_is_stored(stalled: Stalled) -> None:
    assert stalled.before.keys() == stalled.after.keys()
    for table, rows in stalled.before.items():
        assert stalled.after[table] == rows, table


async def test_what_it_was_answered_late_was_never_run(stalled: Stalled) -> None:
    for story in stalled.stories:
        attempt = 2 if story.point == POINTS[1] else 1
        assert story.files == [f"{story.point.word}-{attempt}.txt"]
        assert story.orders == 1


def stale_turns(stalled: Stalled) -> list[Turn]:
    """The turns as the process knows them that does not know of the other one."""
    epochs = {row["turn_id"]: row["epoch"] for row in stalled.after["tools.turns"]}
    turns = [turn_of(row) for row in stalled.after["orchestrator.turns"]]
    return [
        replace(turn, context=replace(turn.context, session_epoch=epochs[turn.context.turn_id] - 1))
        for turn in turns
    ]


async def test_a_call_that_is_sent_with_its_old_epoch_is_refused(
    stalled: Stalled, stage: Stage
) -> None:
    call = ToolCall(
        tool_call_id=ToolCallId("9.0"), name="get_price", arguments_json='{"symbol":"BTC"}'
    )
    batch = ToolBatch(
        step=9,
        calls=(call,),
        stage=LifecycleStage.EVALUATE,
        callable_tools=("get_price",),
        risk_ceiling=PermissionTier.READ_ONLY,
        catalog_etag="",
    )
    async with stage.cluster.channel("tools") as channel:
        tools = ToolsClient(channel, lambda: "")
        for turn in stale_turns(stalled):
            with pytest.raises(Conflict) as refusal:
                _ = [update async for update in tools.execute(turn.context, batch)]
            assert refusal.value.reason is ErrorReason.EPOCH_STALE


async def test_a_turn_that_is_recorded_late_stays_as_the_other_one_recorded_it(
    stalled: Stalled, stage: Stage
) -> None:
    async with stage.cluster.channel("workspace") as channel:
        workspace = WorkspaceClient(channel)
        for turn in stale_turns(stalled):
            committed = await workspace.commit(TurnRecord.of_cut_off(turn, Past()))
            assert committed.state is TurnState.COMPLETED
            assert committed.finish_reason is FinishReason.APPROVAL_REQUESTED


async def test_being_fenced_is_no_fault_of_its_own(stalled: Stalled) -> None:
    assert "Traceback" not in stalled.log
    assert "reference_id" not in stalled.log
