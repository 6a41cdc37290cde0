"""Turns that run, as gRPC clients meet them: spoken into, stopped, left, and left by thousands."""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.clock import SystemClock
from minara_core.errors import (
    Conflict,
    EventsLost,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    NotPermitted,
)
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelToolCall,
    StopReason,
)
from minara_llm.scripted import calls, says
from minara_runtime.database import Database
from support.eventually import eventually
from support.grpc_person import GrpcPerson
from support.held_model import HeldModel
from support.minara import EmbeddedMinara, a_minara
from support.orchestrator.turn_stores import a_process

LOOKS = calls(("get_price", {"symbol": "BTC"}), text="Let me see. ")
CANCEL = agent_pb.ON_DISCONNECT_CANCEL


@dataclass
class Scene:
    """A person, and a model that holds its first answer."""

    minara: EmbeddedMinara
    model: HeldModel
    person: GrpcPerson
    data_dir: Path

    async def started(self, text: str = "price of BTC", **options: Any) -> str:
        """A turn whose model is in the middle of its first sentence; nobody watches it."""
        request = self.person.request(text, **options)
        event = await self.person.first(request, "turn_started")
        await asyncio.wait_for(self.model.speaks.wait(), 10)
        return event.turn_started.turn_id

    async def ended(self, turn_id: str) -> list[event_pb.TurnEvent]:
        self.model.go_on.set()
        return await asyncio.wait_for(self.person.events(self.person.attaching(turn_id)), 20)


@asynccontextmanager
async def a_scene(folder: Path, *scripts: Any) -> AsyncGenerator[Scene]:
    model = HeldModel(scripts)
    async with a_minara(folder, model=model) as minara:
        channels = minara.channel("orchestrator"), minara.channel("workspace")
        person = GrpcPerson.of(folder, minara.user_id, *channels)
        await person.begin()
        yield Scene(minara, model, person, folder)
        model.go_on.set()


def names(events: list[event_pb.TurnEvent]) -> list[str]:
    return [event.WhichOneof("event") or "" for event in events]


async def test_a_message_is_steered_into_the_session_s_live_turn(tmp_path: Path) -> None:
    async with a_scene(tmp_path, LOOKS, says("Both are up.")) as scene:
        turn_id = await scene.started()
        for _ in range(2):
            assert await scene.person.steer("and ETH?", turn_id="", message_id="m-1") == turn_id
        events = await scene.ended(turn_id)
        said = [e.user_interjected for e in events if e.HasField("user_interjected")]
        assert [(each.text, each.message_id) for each in said] == [("and ETH?", "m-1")]
        with pytest.raises(Conflict) as over:
            await scene.person.steer("one more", turn_id)
        assert over.value.reason is ErrorReason.TURN_OVER


async def test_what_is_steered_is_scanned_signed_and_a_person_s(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("Up.")) as scene:
        turn_id = await scene.started()
        person, agent = scene.person, scene.person.agent
        with pytest.raises(InvalidRequest) as unscanned:
            await person.steer("bell \x07")
        assert unscanned.value.reason is ErrorReason.MESSAGE_NOT_SCANNED
        for context in (person.context("one thing"), person.watcher()):
            with pytest.raises(NotAuthenticated):
                await agent.SteerTurn(agent_pb.SteerTurnRequest(context=context, text="another"))
        with pytest.raises(NotPermitted):
            await person.steer("hi", origin=Origin.GOAL)
        assert "user_interjected" not in names(await scene.ended(turn_id))


async def test_a_stranger_neither_steers_nor_stops_nor_watches(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("Up.")) as scene:
        turn_id = await scene.started()
        mine = scene.person
        stranger = GrpcPerson("stranger", mine.signer, mine.orchestrator, mine.workspace)
        stranger.session_id = mine.session_id
        for tried in (
            stranger.cancel(turn_id),
            stranger.steer("hi", turn_id),
            stranger.events(stranger.attaching(turn_id)),
        ):
            with pytest.raises(NotFound):
                await tried
        assert names(await scene.ended(turn_id))[-1] == "turn_completed"


async def test_a_turn_is_stopped_by_its_session_once(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("One. ", "Two.")) as scene:
        turn_id = await scene.started()
        stopped = await scene.person.cancel()
        assert (stopped.turn_id, stopped.was_live) == (turn_id, True)
        events = await scene.ended(turn_id)
        assert events[-1].turn_completed.finish_reason == event_pb.FINISH_REASON_INTERRUPTED
        assert scene.model.was_left == 1
        again = await scene.person.cancel(turn_id)
        assert (again.turn_id, again.was_live) == (turn_id, False)
        with pytest.raises(NotFound):
            await scene.person.cancel()


async def test_a_turn_under_cancel_ends_when_its_stream_is_left(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("One. ", "Two."), says("And now.")) as scene:
        turn_id = await scene.started(on_disconnect=CANCEL)
        await eventually(lambda: scene.model.was_left == 1, timeout=1)
        events = await scene.ended(turn_id)
        assert names(events)[-1] == "turn_cancelled"
        next_turn = await scene.person.events(scene.person.request("go on"))
        assert names(next_turn)[-1] == "turn_completed"
        said = [message.text for message in scene.model.requests[1].messages]
        assert "One. " in said


async def test_a_turn_under_cancel_goes_on_while_somebody_watches(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("One. ", "Two.")) as scene:
        request = scene.person.request("count", on_disconnect=CANCEL)
        running = asyncio.create_task(scene.person.first(request, "text_delta"))
        await asyncio.wait_for(scene.model.speaks.wait(), 10)
        turn_id = request.context.turn_id
        watching = asyncio.create_task(scene.person.events(scene.person.attaching(turn_id)))
        await running
        assert not (await asyncio.wait([watching], timeout=0.5))[0]
        scene.model.go_on.set()
        assert names(await watching)[-1] == "turn_completed"


async def test_a_cursor_into_events_that_are_kept_no_longer_is_refused(tmp_path: Path) -> None:
    async with a_scene(tmp_path, says("Up.")) as scene:
        turn_id = await scene.started()
        await scene.ended(turn_id)
        database = Database.open(scene.minara.installation.database_url("orchestrator"))
        events = a_process(database, "test").events
        assert await events.expire(SystemClock().now() + timedelta(days=1)) == 1
        await database.aclose()
        for after in (0, 2):
            with pytest.raises(EventsLost):
                await scene.person.events(scene.person.attaching(turn_id, after))
        path = f"/v1/chat/stream/resume?turn_id={turn_id}"
        async with scene.minara.http(Authorization=f"Bearer {scene.minara.token}") as http:
            answer = await http.get(path)
        assert answer.status_code == 410
        assert answer.json()["reason"] == "EVENTS_LOST"


WARMED_UP, DROPPED = 1_000, 10_000
MOST_GROWTH_BYTES = 10_000_000


async def test_ten_thousand_dropped_streams_leave_nothing_behind() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "support.dropped_streams",
        str(WARMED_UP),
        str(DROPPED),
        cwd=Path(__file__).parents[1],
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    figures = json.loads(said.splitlines()[-1])
    print(f"\n{WARMED_UP} and {DROPPED} dropped streams: {figures}")
    before, after = figures["resident"]
    assert after <= before + MOST_GROWTH_BYTES
    assert figures["left"] <= 0
    assert figures["end"] == "turn_completed"


PEOPLE = 100
STEPS = 5


class CanaryModel:
    """Answers each turn with calls and words that hold what its person said, and nobody else's.

    The first answers wait until all turns have asked; `spread` is how far, in steps, the fastest
    turn has ever been ahead of the slowest one.
    """

    provider = "scripted"
    name = "canaries"
    context_window = 200_000

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self.spread = 0
        self._all_here = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        (canary,) = {
            word
            for message in request.messages
            for word in message.text.split()
            if word.startswith("canary-")
        }
        self.steps[canary] += 1
        if len(self.steps) == PEOPLE:
            self._all_here.set()
        await self._all_here.wait()
        self.spread = max(self.spread, max(self.steps.values()) - min(self.steps.values()))
        yield ModelText(text=f"{canary} ")
        if self.steps[canary] < STEPS:
            arguments = json.dumps({"query": canary})
            yield ModelToolCall(name="get_market_overview", arguments_json=arguments)
            yield ModelStop(reason=StopReason.TOOL_CALLS)
        else:
            yield ModelStop(reason=StopReason.END)


async def test_a_hundred_turns_at_once_do_not_hear_each_other_and_get_on_together(
    tmp_path: Path,
) -> None:
    model = CanaryModel()
    async with a_minara(tmp_path, model=model) as minara:
        channels = minara.channel("orchestrator"), minara.channel("workspace")

        async def talk(number: int) -> list[event_pb.TurnEvent]:
            person = GrpcPerson.of(tmp_path, minara.user_id, *channels)
            await person.begin()
            return await person.events(person.request(f"canary-{number} please"))

        async with asyncio.TaskGroup() as group:
            talks = [group.create_task(talk(number)) for number in range(PEOPLE)]
    for number, task in enumerate(talks):
        events = task.result()
        own = f"canary-{number}"
        assert names(events)[-1] == "turn_completed"
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        text = "".join(event.text_delta.text for event in events)
        assert text.split() == [own] * STEPS
        told = " ".join(str(event) for event in events)
        assert set(re.findall(r"canary-\d+", told)) == {own}
    print(f"\nthe fastest turn was at most {model.spread} steps ahead")
    assert model.spread < STEPS
