"""A typed answer whose reply was lost is sent again with its key: it is the same turn."""

from typing import Any

from minara_gateway.client import StreamedEvent
from support.minara import Minara, finish_reason, named


async def posted(minara: Minara, key: str, **body: Any) -> list[StreamedEvent]:
    minara.client.set_header("Idempotency-Key", key)
    return [event async for event in minara.client.stream("/v1/chat/stream", body)]


async def test_a_repeated_yes_is_told_as_what_it_decided(minara: Minara) -> None:
    await minara.say("buy $50 of ETH")
    yes = {
        "message": "yes",
        "session_id": minara.session_id,
        "shown_action_id": minara.shown_action_id,
    }
    first = await posted(minara, "key-yes", **yes)
    assert named(first, "action_decided")[0]["decision"] == "DECISION_CONFIRM"
    assert await posted(minara, "key-yes", **yes) == first
    assert len(await minara.rows("paper", "paper_orders")) == 1


async def test_a_repeated_no_is_told_as_what_it_decided(minara: Minara) -> None:
    await minara.say("buy $50 of ETH")
    no = {
        "message": "no",
        "session_id": minara.session_id,
        "shown_action_id": minara.shown_action_id,
    }
    first = await posted(minara, "key-no", **no)
    assert named(first, "action_decided")[0]["decision"] == "DECISION_REJECT"
    assert await posted(minara, "key-no", **no) == first


async def test_a_repeated_yes_that_decided_nothing_stays_a_message(minara: Minara) -> None:
    asked = await minara.say("buy $50 of ETH")
    action = named(asked, "approval_requested")[0]["action"]
    await minara.say("price of BTC")
    yes = {
        "message": "yes",
        "session_id": minara.session_id,
        "shown_action_id": action["pending_action_id"],
    }
    first = await posted(minara, "key-late", **yes)
    assert named(first, "action_decided") == []
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    await minara.client.call("POST", path, {"action_hash": action["action_hash"]})
    again = await posted(minara, "key-late", **yes)
    assert [event.name for event in again] == [event.name for event in first]
    assert finish_reason(again) == "stop"


async def test_another_yes_after_the_decision_is_a_message(minara: Minara) -> None:
    await minara.say("buy $50 of ETH")
    yes = {
        "message": "yes",
        "session_id": minara.session_id,
        "shown_action_id": minara.shown_action_id,
    }
    assert named(await posted(minara, "key-1", **yes), "action_decided")
    assert named(await posted(minara, "key-2", **yes), "action_decided") == []
