"""kill -9 between commit and answer: what was stored is told, and nothing runs twice.

Each test asserts that its point was really hit.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from minara_core.errors import MinaraError
from minara_core.ids import SINGLE_USER, turn_id_for
from minara_gateway.client import GatewayClient, StreamedEvent
from support.minara import finish_reason, is_well_formed, named
from support.process import a_process

KEY = "key-1"
TURN_POINTS = ["commit.recorded", "turn.committed"]
MONEY_POINTS = {
    "confirm.intent": "ACTION_STATE_PENDING",
    "confirm.held": "ACTION_STATE_VOIDED",
    "confirm.signed": "ACTION_STATE_VOIDED",
    "confirm.sent": "ACTION_STATE_UNCERTAIN",
    "confirm.accepted": "ACTION_STATE_DONE",
    "confirm.posted": "ACTION_STATE_DONE",
    "confirm.reply": "ACTION_STATE_DONE",
}
"""What a move is at the next start when its process was killed there. Absence after "sent" takes
longer to prove than this test lasts: `tests/faults` goes on from there."""


def rows(data_dir: Path, service: str, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(data_dir / f"{service}.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def resume(client: GatewayClient, turn_id: str, after: int = 0) -> list[StreamedEvent]:
    path = f"/v1/chat/stream/resume?turn_id={turn_id}&after={after}"
    return [event async for event in client.stream(path)]


async def watch(client: GatewayClient, seen: list[StreamedEvent]) -> None:
    """Ask for a price and keep what is seen, however the stream ends."""
    stream = client.stream("/v1/chat/stream", {"message": "price of BTC"})
    while (event := await anext(stream, None)) is not None:
        seen.append(event)


@pytest.mark.parametrize("point", TURN_POINTS)
async def test_a_turn_that_was_recorded_is_told_as_completed(tmp_path: Path, point: str) -> None:
    data_dir = tmp_path / "data"
    turn_id = turn_id_for(SINGLE_USER, KEY)
    seen: list[StreamedEvent] = []
    async with a_process(data_dir, failpoint=point) as dying:
        dying.client.set_header("Idempotency-Key", KEY)
        with pytest.raises(MinaraError):
            await watch(dying.client, seen)
        assert await dying.died_at(point)
    async with a_process(data_dir) as alive:
        again = await resume(alive.client, turn_id)
        assert again[: len(seen)] == seen
        assert is_well_formed(again)
        assert finish_reason(again) == "stop"
        assert await resume(alive.client, turn_id, after=len(seen)) == again[len(seen) :]
    assert len(rows(data_dir, "workspace", "SELECT * FROM turns")) == 1
    assert len(rows(data_dir, "tools", "SELECT * FROM tool_calls")) == 1


@pytest.mark.parametrize("point", MONEY_POINTS)
async def test_a_confirmed_move_happens_at_most_once_and_is_known(
    tmp_path: Path, point: str
) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir, failpoint=point) as dying:
        reply = await dying.client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
        action = reply["pending_actions"][0]
        path = f"/v1/approvals/{action['pending_action_id']}"
        body = {"action_hash": action["action_hash"]}
        with pytest.raises(MinaraError):
            await dying.client.call("POST", f"{path}:confirm", body)
        assert await dying.died_at(point)
    async with a_process(data_dir) as alive:
        after = await alive.client.call("GET", path)
        assert after["state"] == MONEY_POINTS[point]
        repeated = await alive.client.call("POST", f"{path}:confirm", body)
        is_undecided = after["state"] == "ACTION_STATE_PENDING"
        assert repeated["state"] == ("ACTION_STATE_DONE" if is_undecided else after["state"])
        assert is_undecided or repeated["outcome"] == after["outcome"]
    orders = rows(data_dir, "paper", "SELECT * FROM paper_orders")
    assert len(orders) == (1 if repeated["state"] == "ACTION_STATE_DONE" else 0)


async def test_an_outcome_nobody_was_told_is_told_by_the_next_turn(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with a_process(data_dir, failpoint="confirm.posted") as dying:
        reply = await dying.client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
        action = reply["pending_actions"][0]
        with pytest.raises(MinaraError):
            await dying.client.call(
                "POST",
                f"/v1/approvals/{action['pending_action_id']}:confirm",
                {"action_hash": action["action_hash"]},
            )
        assert await dying.died_at("confirm.posted")
    async with a_process(data_dir) as alive:
        body = {"message": "price of BTC", "session_id": reply["session_id"]}
        prompt = await alive.client.call("POST", "/v1/chat/prompt", body)
        outcome = [b["text"] for b in prompt["blocks"] if b["name"] == "action_outcome"]
        assert len(outcome) == 1
        assert '"state":"done"' in outcome[0]
        events = [e async for e in alive.client.stream("/v1/chat/stream", body)]
        assert named(events, "turn_completed")
