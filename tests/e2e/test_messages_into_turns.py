"""A message that goes into a turn which runs already: its client watches that turn."""

from typing import Any

import httpx
import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_core.errors import Conflict, EventsLost
from minara_core.ids import turn_id_for
from minara_core.reasons import ErrorReason
from support.agents import HeldAgent
from support.minara import Minara
from support.second_gateway import a_second_gateway

INTERJECT = {"message": "and ETH?", "double_texting": "interject"}
END = event_pb.TurnCompleted(
    finish_reason=event_pb.FINISH_REASON_INTERRUPTED, pending_interjections=["and SOL?"]
)


def a_turn() -> HeldAgent:
    """One that ran already, waited in line before, and is stopped in the middle."""
    begun = event_pb.TurnStarted(turn_id="running-turn", session_id="session-1")
    agent = HeldAgent(
        event_pb.TurnEvent(sequence=1, turn_queued=event_pb.TurnQueued(position=1)),
        event_pb.TurnEvent(sequence=2, turn_started=begun),
        event_pb.TurnEvent(sequence=3, text_delta=event_pb.TextDelta(text="BTC is")),
        rest=(event_pb.TurnEvent(sequence=4, turn_completed=END),),
    )
    agent.go_on.set()
    return agent


async def post(
    minara: Minara, agent: HeldAgent, path: str, body: dict[str, Any], key: str = ""
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {minara.token}"} | (
        {"Idempotency-Key": key} if key else {}
    )
    async with (
        a_second_gateway(agent, minara) as second,
        httpx.AsyncClient(base_url=second.url, headers=headers) as http,
    ):
        return await http.post(path, json=body)


@pytest.fixture
async def session_id(minara: Minara) -> str:
    """A session of the person's."""
    session = await minara.client.call("POST", "/v1/sessions", {})
    return str(session["session_id"])


async def test_the_reply_names_the_turn_the_message_went_into(minara: Minara) -> None:
    agent = a_turn()
    answer = (await post(minara, agent, "/v1/chat", INTERJECT, "a-key")).json()
    assert answer["turn_id"] == "running-turn"
    assert agent.run[0].double_texting == agent_pb.DOUBLE_TEXTING_INTERJECT
    assert agent.run[0].context.turn_id == turn_id_for(minara.user_id, "a-key")


async def test_what_was_said_stands_in_the_reply_of_a_turn_that_was_stopped(
    minara: Minara,
) -> None:
    response = await post(minara, a_turn(), "/v1/chat", INTERJECT)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["reply"], answer["finish_reason"]) == ("BTC is", "interrupted")
    assert answer["pending_interjections"] == ["and SOL?"]


@pytest.mark.only("embedded", reason="it counts calls that are traced in this process")
@pytest.mark.parametrize(("policy", "closes"), [("enqueue", True), ("interject", False)])
async def test_only_the_end_of_a_turn_of_its_own_closes_anything(
    minara: Minara, policy: str, closes: bool
) -> None:
    body = INTERJECT | {"double_texting": policy}
    await post(minara, a_turn(), "/v1/chat", body, "a-key")
    message_id = turn_id_for(minara.user_id, "a-key")
    called = [
        *await minara.installation.methods_called(message_id),
        *await minara.installation.methods_called("running-turn"),
    ]
    assert ("CloseTurn" in called) is closes


async def test_after_a_cut_the_turn_itself_is_watched_on_and_the_message_is_not_sent_again(
    minara: Minara,
) -> None:
    agent = a_turn()
    agent.cuts = 1
    answer = (await post(minara, agent, "/v1/chat", INTERJECT)).json()
    assert answer["finish_reason"] == "interrupted"
    first, second = agent.run
    assert first.WhichOneof("input") == "user_message"
    assert second.WhichOneof("input") == "attach"
    assert (second.context.turn_id, second.after_sequence) == ("running-turn", 3)


async def test_an_interjection_is_signed_under_a_name_of_its_own(
    minara: Minara, session_id: str
) -> None:
    agent = a_turn()
    body = {"message": "yes", "session_id": session_id, "turn_id": "running-turn"}
    answer = (await post(minara, agent, "/v1/chat/interject", body, "a-key")).json()
    message_id = turn_id_for(minara.user_id, "a-key")
    assert answer == {"turn_id": "running-turn", "message_id": message_id, "notices": []}
    sent = agent.steered[0]
    assert (sent.turn_id, sent.text) == ("running-turn", "yes")
    assert (sent.context.turn_id, sent.context.session_id) == (message_id, session_id)


async def test_a_secret_in_an_interjection_goes_no_further(minara: Minara, session_id: str) -> None:
    agent = a_turn()
    key = "sk-ant-api03-" + "A" * 40
    body = {"message": f"use {key}", "session_id": session_id}
    answer = (await post(minara, agent, "/v1/chat/interject", body)).json()
    assert answer["notices"]
    assert key not in str(agent.steered)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"message": "hi"}, "REQUEST_INVALID"),
        ({"message": "hi", "session_id": ""}, "REQUEST_INVALID"),
        ({"message": " ", "session_id": "session-1"}, "MESSAGE_EMPTY"),
        ({"message": "hi", "session_id": "session-1", "shown_action_id": "x"}, "REQUEST_INVALID"),
    ],
)
async def test_an_interjection_of_no_form_goes_nowhere(
    minara: Minara, body: dict[str, Any], reason: str
) -> None:
    agent = a_turn()
    response = await post(minara, agent, "/v1/chat/interject", body)
    assert (response.status_code, response.json()["reason"]) == (400, reason)
    assert not agent.steered


async def test_nothing_is_said_or_stopped_in_a_session_that_is_not_the_persons(
    minara: Minara,
) -> None:
    agent = a_turn()
    body = {"session_id": "session-1", "turn_id": "running-turn"}
    for path, words in (("interject", {"message": "hi"}), ("interrupt", {})):
        response = await post(minara, agent, f"/v1/chat/{path}", body | words)
        assert (response.status_code, response.json()["reason"]) == (404, "SESSION_NOT_FOUND")
    assert not agent.steered
    assert not agent.cancelled


async def test_a_turn_that_takes_no_more_messages_is_a_conflict(
    minara: Minara, session_id: str
) -> None:
    agent = a_turn()
    agent.refusal = Conflict("it takes no more messages", reason=ErrorReason.TURN_OVER)
    body = {"message": "hi", "session_id": session_id}
    response = await post(minara, agent, "/v1/chat/interject", body)
    assert (response.status_code, response.json()["reason"]) == (409, "TURN_OVER")


async def test_a_key_that_came_with_another_message_is_a_conflict(
    minara: Minara, session_id: str
) -> None:
    agent = a_turn()
    body = {"message": "and ETH?", "session_id": session_id}
    for _ in range(2):
        assert (await post(minara, agent, "/v1/chat/interject", body, "k")).status_code == 200
    other = body | {"message": "and SOL?"}
    assert (await post(minara, agent, "/v1/chat/interject", other, "k")).status_code == 409
    assert [sent.text for sent in agent.steered] == ["and ETH?"] * 2
    assert len({sent.context.turn_id for sent in agent.steered}) == 1


async def test_a_stop_names_a_turn_or_a_session(minara: Minara, session_id: str) -> None:
    agent = a_turn()
    answer = await post(minara, agent, "/v1/chat/interrupt", {"turn_id": "running-turn"})
    assert answer.json() == {"turn_id": "running-turn", "was_live": True}
    answer = await post(minara, agent, "/v1/chat/interrupt", {"session_id": session_id})
    assert answer.status_code == 200
    assert agent.cancelled[1].context.session_id == session_id
    answer = await post(minara, agent, "/v1/chat/interrupt", {})
    assert (answer.status_code, answer.json()["reason"]) == (400, "FIELD_REQUIRED")
    assert len(agent.cancelled) == 2


async def test_events_that_were_deleted_are_told_before_any_stream(minara: Minara) -> None:
    agent = a_turn()
    agent.refusal = EventsLost("the events of this turn were deleted")
    headers = {"Authorization": f"Bearer {minara.token}"}
    async with (
        a_second_gateway(agent, minara) as second,
        httpx.AsyncClient(base_url=second.url, headers=headers) as http,
    ):
        response = await http.get("/v1/chat/stream/resume?turn_id=running-turn&after=2")
    assert (response.status_code, response.json()["reason"]) == (410, "EVENTS_LOST")
