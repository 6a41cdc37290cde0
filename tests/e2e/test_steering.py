"""A turn that runs is steered over HTTP: spoken into, stopped, queued behind, left."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from minara_core.ids import turn_id_for
from minara_gateway.client import ProblemError, StreamedEvent
from minara_llm.scripted import calls, says
from support.eventually import eventually
from support.held_model import HeldModel
from support.minara import Minara, a_minara, finish_reason, is_well_formed, named, text_of

BUY = {
    "symbol": "ETH",
    "amount": "50",
    "amount_unit": "quote",
    "intent": "Buy 50 USDC worth of ETH.",
}
LOOKS = calls(("get_price", {"symbol": "BTC"}), text="Let me see.")
FIRST = {"message": "price of BTC"}
SECOND = "and what about ETH?"


class Running:
    """A person whose turn runs: the model is in the middle of its first sentence."""

    def __init__(self, minara: Minara, model: HeldModel, turn: "asyncio.Task[Any]") -> None:
        self.minara = minara
        self.model = model
        self.turn = turn

    @property
    def session(self) -> dict[str, str]:
        return {"session_id": self.minara.session_id}

    async def post(self, path: str, body: dict[str, Any], key: str = "") -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        token = f"Bearer {self.minara.token}"
        async with self.minara.http(Authorization=token, **headers) as http:
            return await http.post(path, json=body, timeout=30)

    async def ended(self) -> list[StreamedEvent]:
        """The events of the turn that runs, which is let go on."""
        self.model.go_on.set()
        return await asyncio.wait_for(self.turn, 20)


@asynccontextmanager
async def running(
    folder: Path, *scripts: Any, held: int = 0, before: tuple[str, ...] = (), **body: Any
) -> AsyncGenerator[Running]:
    """The person has said `before`, each to its end, and then what runs."""
    model = HeldModel(scripts, held=[held])
    async with a_minara(folder, model=model) as minara:
        session = await minara.client.call("POST", "/v1/sessions", {})
        minara.session_id = session["session_id"]
        for message in before:
            await minara.say(message)
        turn = asyncio.create_task(minara.say(FIRST["message"], **body))
        await asyncio.wait_for(model.speaks.wait(), 10)
        yield Running(minara, model, turn)
        model.go_on.set()
        await asyncio.wait([turn], timeout=10)


def turn_of(events: list[StreamedEvent]) -> str:
    return str(named(events, "turn_started")[0]["turn_id"])


async def test_a_message_put_into_a_turn_is_read_at_its_next_step(tmp_path: Path) -> None:
    async with running(tmp_path, LOOKS, says("BTC and ETH are up.")) as run:
        body = run.session | {"message": SECOND}
        told = [await run.post("/v1/chat/interject", body, "a-key") for _ in range(2)]
        events = await run.ended()
        assert is_well_formed(events)
        message_id = turn_id_for(run.minara.user_id, "a-key")
        expected: dict[str, Any] = {
            "turn_id": turn_of(events),
            "message_id": message_id,
            "notices": [],
        }
        assert [answer.json() for answer in told] == [expected] * 2
        injected = {"text": SECOND, "message_id": message_id}
        assert named(events, "user_interjected") == [injected]
        assert str(run.model.requests[1].messages).count(SECOND) == 1
        assert len(await run.minara.rows("workspace", "turns")) == 1


async def test_a_yes_put_into_a_turn_confirms_nothing(tmp_path: Path) -> None:
    scripts = (calls(("buy_token", BUY)), LOOKS, says("It is up."))
    async with running(tmp_path, *scripts, held=1, before=("buy $50 of ETH",)) as run:
        body = run.session | {"message": "yes"}
        assert (await run.post("/v1/chat/interject", body)).status_code == 200
        events = await run.ended()
        assert named(events, "user_interjected")
        assert not named(events, "action_decided")
        assert not await run.minara.rows("paper", "paper_orders")


async def test_a_turn_that_is_over_takes_no_message_and_another_turn_does(tmp_path: Path) -> None:
    async with running(tmp_path, says("It is up."), says("So is ETH.")) as run:
        ended = turn_of(await run.ended())
        into = run.session | {"message": SECOND, "turn_id": ended}
        refused = await run.post("/v1/chat/interject", into)
        assert (refused.status_code, refused.json()["reason"]) == (409, "TURN_OVER")
        nothing = await run.post("/v1/chat/interject", run.session | {"message": SECOND})
        assert (nothing.status_code, nothing.json()["reason"]) == (404, "TURN_NOT_FOUND")
        assert text_of(await run.minara.say(SECOND)) == "So is ETH."


@pytest.mark.parametrize("by", ["turn_id", "session_id"])
async def test_a_stop_keeps_what_was_said(tmp_path: Path, by: str) -> None:
    async with running(tmp_path, says("It is ", "up."), says("As I said.")) as run:
        [row] = await run.minara.rows("orchestrator", "turns")
        answer = await run.post("/v1/chat/interrupt", {by: row[by]})
        assert answer.json() == {"turn_id": row["turn_id"], "was_live": True}
        await eventually(lambda: run.model.was_left == 1, timeout=1)
        events = await run.ended()
        assert finish_reason(events) == "interrupted"
        assert text_of(events) == "It is "
        await run.minara.say("go on")
        assert "It is" in str(run.model.requests[1].messages)
        again = await run.post("/v1/chat/interrupt", {"turn_id": row["turn_id"]})
        assert again.json() == {"turn_id": row["turn_id"], "was_live": False}


async def test_a_second_message_waits_behind_the_first(tmp_path: Path) -> None:
    async with running(tmp_path, says("It is up."), says("So is ETH.")) as run:
        second = asyncio.create_task(run.minara.say(SECOND, double_texting="enqueue"))
        await eventually(lambda: waits(run.minara))
        assert text_of(await run.ended()) == "It is up."
        events = await second
        (queued,) = named(events, "turn_queued")
        assert queued["position"] == 1
        assert queued["turn_id"] == turn_of(events)
        assert text_of(events) == "So is ETH."


async def test_a_second_message_is_refused_where_that_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, says("It is up.")) as run:
        body = run.session | {"message": SECOND, "double_texting": "reject"}
        for path in ("/v1/chat", "/v1/chat/stream"):
            refused = await run.post(path, body)
            assert (refused.status_code, refused.json()["reason"]) == (409, "TURN_RUNNING")
        assert text_of(await run.ended()) == "It is up."


async def test_a_second_message_stops_the_first_turn_and_those_that_wait(tmp_path: Path) -> None:
    async with running(tmp_path, says("It is ", "up."), says("So is ETH.")) as run:
        waiting = run.session | {"message": "never read"}
        queued = asyncio.create_task(run.post("/v1/chat", waiting))
        await eventually(lambda: waits(run.minara))
        events = await run.minara.say(SECOND, double_texting="interrupt")
        assert text_of(events) == "So is ETH."
        assert finish_reason(await run.ended()) == "interrupted"
        cancelled = await queued
        assert (cancelled.status_code, cancelled.json()["reason"]) == (409, "CANCELLED")
        assert "never read" not in str(run.model.requests[1].messages)


async def test_a_second_message_goes_into_the_turn_and_its_client_watches_that(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, LOOKS, says("BTC and ETH are up.")) as run:
        body = run.session | {"message": SECOND, "double_texting": "interject"}
        second = asyncio.create_task(run.post("/v1/chat", body, "a-key"))
        await eventually(lambda: waits(run.minara))
        events = await run.ended()
        answer = (await second).json()
        assert answer["turn_id"] == turn_of(events)
        assert answer["reply"] == text_of(events)
        assert [told["text"] for told in named(events, "user_interjected")] == [SECOND]
        again = (await run.post("/v1/chat", body, "a-key")).json()
        assert again == answer
        assert len(run.model.requests) == 2


async def test_with_nothing_to_go_into_a_message_is_a_turn_of_its_own(tmp_path: Path) -> None:
    model = HeldModel([says("It is up.")], held=[])
    async with a_minara(tmp_path, model=model) as minara:
        events = await minara.say(FIRST["message"], double_texting="interject")
    assert text_of(events) == "It is up."


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/stream"])
async def test_a_client_that_leaves_under_cancel_ends_the_model_call_within_a_second(
    tmp_path: Path, path: str
) -> None:
    model = HeldModel([says("It is ", "up."), says("As I said.")])
    async with a_minara(tmp_path, model=model) as minara:
        async with minara.http(Authorization=f"Bearer {minara.token}") as http:
            body = FIRST | {"on_disconnect": "cancel"}
            asking = asyncio.create_task(http.post(path, json=body))
            await asyncio.wait_for(model.speaks.wait(), 10)
            asking.cancel()
            await asyncio.wait([asking])
        await eventually(lambda: model.was_left == 1, timeout=1)
        [row] = await minara.rows("orchestrator", "turns")
        resumed = f"/v1/chat/stream/resume?turn_id={row['turn_id']}"
        events = [event async for event in minara.client.stream(resumed)]
        assert (finish_reason(events), text_of(events)) == ("interrupted", "It is ")


async def test_a_client_that_leaves_under_continue_leaves_a_turn_that_goes_on(
    tmp_path: Path,
) -> None:
    model = HeldModel([says("It is ", "up.")])
    async with a_minara(tmp_path, model=model) as minara:
        async with minara.http(Authorization=f"Bearer {minara.token}") as http:
            asking = asyncio.create_task(http.post("/v1/chat/stream", json=FIRST))
            await asyncio.wait_for(model.speaks.wait(), 10)
            asking.cancel()
            await asyncio.wait([asking])
        model.go_on.set()
        [row] = await minara.rows("orchestrator", "turns")
        resumed = f"/v1/chat/stream/resume?turn_id={row['turn_id']}"
        events = [event async for event in minara.client.stream(resumed)]
        assert (finish_reason(events), text_of(events)) == ("stop", "It is up.")


async def test_a_stop_of_nothing_is_not_found(tmp_path: Path) -> None:
    async with a_minara(tmp_path, model=HeldModel([])) as minara:
        session = await minara.client.call("POST", "/v1/sessions", {})
        for body, reason in (
            ({"turn_id": "turn-x"}, "TURN_NOT_FOUND"),
            ({"session_id": session["session_id"]}, "TURN_NOT_FOUND"),
            ({"session_id": "session-x"}, "SESSION_NOT_FOUND"),
        ):
            with pytest.raises(ProblemError) as refusal:
                await minara.client.call("POST", "/v1/chat/interrupt", body)
            assert (refusal.value.status, refusal.value.reason) == (404, reason)


async def waits(minara: Minara) -> bool:
    """Whether the orchestrator has taken a second message."""
    turns = await minara.rows("orchestrator", "turns")
    return len(turns) == 2
