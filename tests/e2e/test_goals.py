"""A standing goal over HTTP: set, worked on turn by turn, judged, and never a person's word."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minara_core.goals import GOAL_TURN_TEXT
from minara_core.ids import turn_id_for
from minara_core.taxonomy import Scope
from minara_gateway.client import ProblemError, StreamedEvent
from minara_llm.scripted import ScriptedModel, calls, says
from support.cluster import HOST, Port
from support.further_tokens import holding_only
from support.minara import Minara, a_minara, finish_reason, named, text_of
from support.model_server import Script, a_model_server

GOAL = {"text": "Find the cheapest of ETH and BTC", "max_turns": 5, "subgoals": ["look at ETH"]}
BUY = {
    "symbol": "ETH",
    "amount": "50",
    "amount_unit": "quote",
    "intent": "Buy 50 USDC worth of ETH.",
}
CONTINUE = says('{"verdict": "continue", "reason": "BTC was not looked at"}')
MET = says('{"verdict": "met", "reason": "both were compared"}')


@pytest.fixture
async def with_session(minara: Minara) -> Minara:
    await begin(minara)
    return minara


async def begin(minara: Minara) -> None:
    """A session that has not been spoken in."""
    session = await minara.client.call("POST", "/v1/sessions", {})
    minara.session_id = session["session_id"]


@asynccontextmanager
async def judged_by_a_model(folder: Path, *scripts: Script) -> AsyncGenerator[Minara]:
    """A person with a goal. A model server plays the scripts, a turn's and its judge's in turn."""
    port = Port()
    speaks: dict[str, Any] = {
        "model": "openai:scripted",
        "batch_model": "openai:scripted",
        "openai_base_url": f"http://{HOST}:{port.number}/v1",
    }
    async with (
        a_model_server(port, scripts) as played,
        a_minara(folder, orchestrator=speaks) as minara,
    ):
        await begin(minara)
        await minara.client.call("POST", path_of(minara), GOAL)
        yield minara
        played.assert_exhausted()
    port.close()


def path_of(minara: Minara, step: str = "") -> str:
    return f"/v1/sessions/{minara.session_id}/goal{step}"


async def refusal(minara: Minara, step: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    with pytest.raises(ProblemError) as refused:
        await minara.client.call("POST", path_of(minara, step), body or {})
    return refused.value.status, str(refused.value.reason)


async def work(minara: Minara) -> list[StreamedEvent]:
    """One turn that works on the goal."""
    return [event async for event in minara.client.stream(path_of(minara, ":continue"), {})]


async def test_a_goal_is_set_paused_resumed_and_cleared(with_session: Minara) -> None:
    minara = with_session
    assert await minara.client.call("GET", path_of(minara)) == {"goal": None}
    made = (await minara.client.call("POST", path_of(minara), GOAL))["goal"]
    assert {name: made[name] for name in GOAL} == GOAL
    assert (made["state"], made["turns_used"]) == ("GOAL_STATE_ACTIVE", 0)
    assert (await minara.client.call("POST", path_of(minara), GOAL))["goal"] == made
    assert (await minara.client.call("GET", path_of(minara)))["goal"] == made
    paused = await minara.client.call("POST", path_of(minara, ":pause"))
    assert paused["goal"]["state"] == "GOAL_STATE_PAUSED"
    resumed = await minara.client.call("POST", path_of(minara, ":resume"))
    assert resumed["goal"]["state"] == "GOAL_STATE_ACTIVE"
    assert await minara.client.call("POST", path_of(minara, ":clear")) == {"goal": None}
    assert await minara.client.call("GET", path_of(minara)) == {"goal": None}


async def test_what_a_goal_cannot_do_is_refused(with_session: Minara) -> None:
    minara = with_session
    assert await refusal(minara, ":pause") == (404, "GOAL_NOT_FOUND")
    assert await refusal(minara, ":continue") == (400, "GOAL_NOT_ACTIVE")
    assert await refusal(minara, "", {"text": " "}) == (400, "GOAL_INVALID")
    assert await refusal(minara, "", GOAL | {"max_turns": 101}) == (400, "GOAL_INVALID")
    assert await refusal(minara, "", GOAL | {"max_turns": 2**40}) == (400, "REQUEST_INVALID")
    assert await refusal(minara, "", GOAL | {"owner": "me"}) == (400, "REQUEST_INVALID")
    for no_number in (True, "5", 5.0):
        misread = GOAL | {"max_turns": no_number}
        assert await refusal(minara, "", misread) == (400, "REQUEST_INVALID")
    await minara.client.call("POST", path_of(minara), GOAL)
    assert await refusal(minara, "", {"text": "another one"}) == (409, "GOAL_EXISTS")
    await minara.client.call("POST", path_of(minara, ":pause"))
    assert await refusal(minara, ":continue") == (400, "GOAL_NOT_ACTIVE")
    interject = {"double_texting": "interject"}
    assert await refusal(minara, ":continue", interject) == (400, "REQUEST_INVALID")


async def test_a_goal_may_be_read_without_the_scope_to_chat(with_session: Minara) -> None:
    async with holding_only(with_session, Scope.READ) as reader:
        assert await reader.client.call("GET", path_of(reader)) == {"goal": None}
        for step in ("", ":pause", ":resume", ":clear", ":continue"):
            body = GOAL if not step else {}
            assert await refusal(reader, step, body) == (403, "SCOPE_MISSING")


async def test_turn_after_turn_works_on_a_goal_until_it_is_met(tmp_path: Path) -> None:
    scripts = (says("ETH costs 2000."), CONTINUE, says("BTC costs more."), MET)
    async with judged_by_a_model(tmp_path, *scripts) as minara:
        first, second = await work(minara), await work(minara)
        assert text_of(first) == "ETH costs 2000."
        assert [told["verdict"] for told in named(first, "goal_judged")] == ["continue"]
        assert [told["verdict"] for told in named(second, "goal_judged")] == ["met"]
        assert finish_reason(second) == "stop"
        goal = (await minara.client.call("GET", path_of(minara)))["goal"]
        assert (goal["state"], goal["turns_used"]) == ("GOAL_STATE_MET", 2)
        assert await refusal(minara, ":continue") == (400, "GOAL_NOT_ACTIVE")
        rows = await minara.rows("orchestrator", "turns")
        assert {(row["origin"], row["input_text"]) for row in rows} == {("goal", GOAL_TURN_TEXT)}


async def test_a_turn_that_works_on_a_goal_moves_no_money(tmp_path: Path) -> None:
    model = ScriptedModel([calls(("buy_token", BUY)), says("I could not.")])
    async with a_minara(tmp_path, model=model) as minara:
        await begin(minara)
        await minara.client.call("POST", path_of(minara), {"text": "buy 50 USDC of ETH, yes"})
        events = await work(minara)
        assert not named(events, "approval_requested")
        assert "denial" in named(events, "tool_call_finished")[0]["result"]
        assert not await minara.rows("tools", "pending_actions")
        assert not await minara.rows("paper", "paper_orders")


async def test_the_same_key_is_the_same_turn(tmp_path: Path) -> None:
    async with judged_by_a_model(tmp_path, says("ETH costs 2000."), CONTINUE) as minara:
        minara.client.set_header("Idempotency-Key", "a-key")
        first, again = await work(minara), await work(minara)
        assert first == again
        started = named(first, "turn_started")[0]
        assert started["turn_id"] == turn_id_for(minara.user_id, "a-key")


async def test_a_persons_turn_is_judged_too(tmp_path: Path) -> None:
    async with judged_by_a_model(tmp_path, says("ETH costs 2000."), CONTINUE) as minara:
        body = {"message": "price of ETH", "session_id": minara.session_id}
        answer = await minara.client.call("POST", "/v1/chat", body)
        assert answer["goal_judged"] == {
            "verdict": "continue",
            "reason": "BTC was not looked at",
            "turns_used": 1,
            "max_turns": 5,
        }
