"""Twenty messages to one session at once, over both gateways and both orchestrators, under each of
the four policies: the session's turns never overlap, and every message has one place."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest
import sqlalchemy as sa

from minara_llm.wire.brain import Answer
from minara_llm.wire.faults import SlowFault
from minara_runtime.database import Database
from minara_workspace.adapters import sql_tables as workspace
from support.cluster_held import Asked, HeldProvider, saying
from support.cluster_invariants import assert_sound
from support.cluster_people import Person, a_crowd
from support.cluster_stages import Stage
from support.cluster_turns import StoredTurn, stored_turns

AT_ONCE = 20
FRAME_SECONDS = 0.02
"""Between two events of an answer, so that turns meet."""
SLOW_FRAME_SECONDS = 0.2
"""So that no turn comes to its end before everybody has spoken."""
MESSAGES = [f"message-{number:02}." for number in range(AT_ONCE)]

pytestmark = pytest.mark.timeout(200)


def speak(asked: Asked) -> Answer:
    """It looks up a price first, so that a turn has a step border in its middle."""
    text = f"This is what I say to {asked.said} at place {asked.place}."
    return saying(text, *([("get_price", {"symbol": "BTC"})] if asked.place == 0 else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Somebody in a conversation that has begun."""

    stage: Stage
    person: Person
    session_id: str
    model: HeldProvider
    orchestrator: Database
    workspace: Database

    async def post_all(self, policy: str) -> list[httpx.Response]:
        """All messages at once, to the gateways in turn."""
        gateways = self.stage.cluster.gateways()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self.person.client.once(
                        gateways[number % len(gateways)],
                        "/v1/chat",
                        {
                            "message": message,
                            "session_id": self.session_id,
                            "double_texting": policy,
                        },
                    )
                )
                for number, message in enumerate(MESSAGES)
            ]
        return [task.result() for task in tasks]

    async def turns(self) -> list[StoredTurn]:
        """Those after the first one, which are whole and never overlap."""
        _, *turns = await stored_turns(self.orchestrator, self.session_id)
        assert [fault for turn in turns if not turn.into for fault in turn.faults()] == []
        spans = sorted(turn.span for turn in turns if turn.events and turn.span is not None)
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin
        return turns

    async def transcripts(self) -> list[tuple[str, bytes]]:
        """Each recorded turn's own message, and all that its turn added to the conversation."""
        table = workspace.TURNS
        recorded = sa.select(table).where(table.c.session_id == self.session_id)
        rows = await self.workspace.read(
            lambda c: c.execute(recorded.order_by(table.c.turn_number)).all()
        )
        return [(row.message, bytes(row.transcript)) for row in rows[1:]]


@pytest.fixture
async def scene(stage: Stage) -> AsyncGenerator[Scene]:
    """In the end the conversation goes on, and its history is what a strict provider takes."""
    async with (
        AsyncExitStack() as stack,
        stage.held_model(speak) as model,
        a_crowd(stage.cluster, 1) as crowd,
    ):
        names = ("orchestrator", "workspace")
        databases = [Database.open(stage.cluster.database_url(name)) for name in names]
        for database in databases:
            stack.push_async_callback(database.aclose)
        model.always(SlowFault(seconds=FRAME_SECONDS))
        person = crowd.people[0]
        first = await person.client.ask("hello")
        yield Scene(
            stage=stage,
            person=person,
            session_id=first.session_id,
            model=model,
            orchestrator=databases[0],
            workspace=databases[1],
        )
        last = await person.client.ask("thank you", session_id=first.session_id)
        assert last.end == "turn_completed"
        assert model.complaints == []
        person.told += [first, last]
        await assert_sound(stage.cluster, crowd.people)


def codes(answers: Sequence[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


def replies(answers: Sequence[httpx.Response]) -> dict[str, str]:
    """The turn of each answer, and how it ended."""
    return {answer.json()["turn_id"]: answer.json()["finish_reason"] for answer in answers}


async def test_messages_in_a_line_are_all_answered_in_their_order(scene: Scene) -> None:
    answers = await scene.post_all("enqueue")
    turns = await scene.turns()
    assert codes(answers) == {200: AT_ONCE}
    assert replies(answers) == {turn.turn_id: "stop" for turn in turns}
    assert len({turn.owner for turn in turns}) == 2, "one orchestrator had all of them"
    begins = [turn.span[0] for turn in turns if turn.span is not None]
    assert begins == sorted(begins)
    recorded = [message for message, _ in await scene.transcripts()]
    assert recorded == [turn.text for turn in turns]
    assert sorted(recorded) == MESSAGES


async def test_of_messages_that_want_to_be_alone_one_is_answered(scene: Scene) -> None:
    answers = await scene.post_all("reject")
    turns = await scene.turns()
    assert codes(answers) == {200: 1, 409: AT_ONCE - 1}
    refused = [answer.json()["reason"] for answer in answers if answer.status_code == 409]
    assert set(refused) == {"TURN_RUNNING"}
    assert [turn.end for turn in turns] == ["stop"]
    assert [message for message, _ in await scene.transcripts()] == [turns[0].text]


async def test_of_messages_that_interrupt_the_last_is_answered_and_the_others_are_told(
    scene: Scene,
) -> None:
    scene.model.always(SlowFault(seconds=SLOW_FRAME_SECONDS))
    answers = await scene.post_all("interrupt")
    turns = await scene.turns()
    assert len(turns) == AT_ONCE
    *before, last = [turn.end for turn in turns]
    assert last == "stop"
    assert set(before) <= {"interrupted", "turn_cancelled"}
    withdrawn = before.count("turn_cancelled")
    assert codes(answers) == Counter({200: AT_ONCE - withdrawn, 409: withdrawn})
    refused = [answer.json()["reason"] for answer in answers if answer.status_code == 409]
    assert set(refused) <= {"CANCELLED"}
    recorded = [message for message, _ in await scene.transcripts()]
    assert recorded == [turn.text for turn in turns if turn.end != "turn_cancelled"]
    assert all(turn.span is None for turn in turns if turn.end == "turn_cancelled")


async def test_messages_put_into_a_turn_are_all_read_once_or_given_back(scene: Scene) -> None:
    answers = await scene.post_all("interject")
    turns = await scene.turns()
    assert codes(answers) == {200: AT_ONCE}
    own = [turn for turn in turns if not turn.into]
    assert {turn.end for turn in own} == {"stop"}
    assert len(turns) == AT_ONCE
    assert len(own) < AT_ONCE, "no message met a turn"
    read = [text for turn in own for text in (turn.text, *turn.interjected)]
    given_back = [text for turn in own for text in turn.too_late]
    assert sorted([*read, *given_back]) == MESSAGES
    kept = b"".join(transcript for _, transcript in await scene.transcripts())
    assert [text for text in read if kept.count(text.encode()) == 0] == []
    assert {answer.json()["turn_id"] for answer in answers} == {turn.turn_id for turn in own}
