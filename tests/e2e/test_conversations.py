"""The conversations of the specification, over HTTP, through five services, in three languages."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import pytest

from support.eventually import eventually
from support.minara import (
    Minara,
    finish_reason,
    is_well_formed,
    named,
    text_of,
    tools_called,
)

ON_THE_PATH = Counter(
    {"RunTurn": 1, "PrepareTurn": 1, "SelectSkills": 1, "OpenTurn": 1, "CommitTurn": 1}
)


@dataclass(frozen=True)
class Words:
    """The same conversation in one language."""

    price: str
    buy: str
    yes: str
    no: str
    portfolio: str
    analysis: str


LANGUAGES = {
    "en": Words(
        price="price of BTC",
        buy="buy $50 of ETH",
        yes="yes",
        no="no",
        portfolio="show my portfolio",
        analysis="analyze BTC and tell me if I should long 5x",
    ),
    "zh": Words(
        price="比特幣現在多少錢？",
        buy="買 50 美元的以太坊",
        yes="確認",
        no="取消",
        portfolio="我的持倉",
        analysis="分析 BTC，告訴我該不該 5 倍做多",
    ),
    "ko": Words(
        price="비트코인 가격 알려줘",
        buy="이더리움 50달러 매수해줘",
        yes="네",
        no="아니요",
        portfolio="내 포트폴리오 보여줘",
        analysis="BTC 분석하고 5배 롱을 해야 할지 알려줘",
    ),
}


@pytest.fixture(params=LANGUAGES)
def words(request: pytest.FixtureRequest) -> Words:
    return LANGUAGES[request.param]


async def test_a_price_question_is_answered_from_one_read_tool(
    minara: Minara, words: Words
) -> None:
    events = await minara.say(words.price)
    assert is_well_formed(events)
    assert tools_called(events) == ["get_price"]
    price = named(events, "tool_call_finished")[0]["result"]["success"]["data_json"]
    assert '"source":"simulated"' in price
    assert finish_reason(events) == "stop"
    assert any(character.isdigit() for character in text_of(events))
    turn_id = named(events, "turn_started")[0]["turn_id"]
    assert await minara.rpcs(turn_id) == ON_THE_PATH + Counter({"ExecuteTools": 1})
    stored = await minara.rows("workspace", "turns", turn_id=turn_id)
    assert [(row["state"], row["message"]) for row in stored] == [("completed", words.price)]
    audited = await minara.rows("tools", "audit_records", turn_id=turn_id)
    assert [(row["kind"], row["subject"]) for row in audited] == [("tool_call", "get_price")]


async def test_a_purchase_waits_for_a_yes_and_is_executed_once(
    minara: Minara, words: Words
) -> None:
    asked = await minara.say(words.buy)
    assert is_well_formed(asked)
    assert tools_called(asked) == ["buy_token"]
    assert finish_reason(asked) == "approval_requested"
    requested = named(asked, "approval_requested")[0]
    assert "PAPER" in requested["rendered_preview"]
    action = requested["action"]
    assert action["state"] == "ACTION_STATE_PENDING"
    assert action["solicited"] is True
    assert Decimal(action["order"]["max_spend"]["value"]) == 50
    assert not await minara.rows("paper", "paper_orders")

    told = await minara.say(words.yes)
    assert is_well_formed(told)
    decided = named(told, "action_decided")[0]
    assert decided["decision"] == "DECISION_CONFIRM"
    assert decided["action"]["state"] == "ACTION_STATE_DONE"
    spent = Decimal(decided["action"]["outcome"]["spent"]["value"])
    assert 0 < spent <= 50
    assert tools_called(told) == []
    orders = await minara.rows("paper", "paper_orders")
    assert len(orders) == 1
    stored = await minara.rows("tools", "pending_actions")
    assert [row["state"] for row in stored] == ["done"]
    turn_id = named(told, "turn_started")[0]["turn_id"]
    assert await minara.rpcs(turn_id) == ON_THE_PATH

    again = await minara.say(words.yes)
    assert named(again, "action_decided") == []
    assert len(await minara.rows("paper", "paper_orders")) == 1

    held = await minara.say(words.portfolio)
    assert tools_called(held) == ["get_portfolio"]
    assert "ETH" in text_of(held)


async def test_a_refusal_rejects_for_good(minara: Minara, words: Words) -> None:
    asked = await minara.say(words.buy)
    action_id = named(asked, "approval_requested")[0]["action"]["pending_action_id"]
    told = await minara.say(words.no)
    assert named(told, "action_decided")[0]["decision"] == "DECISION_REJECT"
    revived = await minara.say(words.yes, shown_action_id=action_id)
    assert named(revived, "action_decided") == []
    assert not await minara.rows("paper", "paper_orders")


async def test_an_analysis_runs_no_money_tool(minara: Minara, words: Words) -> None:
    events = await minara.say(words.analysis)
    assert is_well_formed(events)
    assert set(tools_called(events)) <= {"get_price", "get_fear_greed", "get_trending"}
    assert "get_price" in tools_called(events)
    assert named(events, "approval_requested") == []
    assert finish_reason(events) == "stop"
    assert not await minara.rows("tools", "pending_actions")


async def test_every_event_can_be_read_again(minara: Minara, words: Words) -> None:
    events = await minara.say(words.price)
    turn_id = named(events, "turn_started")[0]["turn_id"]
    for after in (0, 1, len(events) - 1):
        path = f"/v1/chat/stream/resume?turn_id={turn_id}&after={after}"
        assert [event async for event in minara.client.stream(path)] == events[after:]


async def test_the_json_reply_of_a_parked_turn_is_its_preview(minara: Minara, words: Words) -> None:
    reply = await minara.client.call("POST", "/v1/chat", {"message": words.buy})
    assert reply["finish_reason"] == "approval_requested"
    assert reply["pending_actions"][0]["rendered_preview"] in reply["reply"]


async def test_a_repeated_post_with_its_key_is_the_same_turn(minara: Minara) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        headers = {"Idempotency-Key": "key-1"}
        body = {"message": "price of BTC"}
        first = await http.post("/v1/chat", json=body, headers=headers)
        second = await http.post("/v1/chat", json=body, headers=headers)
        other = await http.post("/v1/chat", json={"message": "price of ETH"}, headers=headers)
    assert first.json() == second.json()
    assert other.status_code == 409
    assert other.json()["reason"] == "IDEMPOTENCY_KEY_REUSED"
    assert len(await minara.rows("workspace", "turns")) == 1
    assert len(await minara.rows("workspace", "sessions")) == 1


async def test_the_heartbeat_page_follows_the_turn(minara: Minara) -> None:
    await minara.say("price of BTC")

    async def names_the_session() -> bool:
        return f"session_id: {minara.session_id}" in await minara.page("HEARTBEAT.md")

    await eventually(names_the_session, timeout=10, every=0.1)
