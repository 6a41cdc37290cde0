"""A token with one scope alone does all that the routes of this scope do."""

import re

import pytest

from minara_core.taxonomy import Scope
from minara_gateway.client import ProblemError
from support.deployments import MinaraFactory
from support.further_tokens import holding_only
from support.minara import Minara, finish_reason, named, text_of

BUY = {"side": "buy", "symbol": "ETH", "amount": "50", "amount_unit": "quote"}


async def test_who_may_only_chat_goes_on_in_a_session_and_works_on_a_goal(
    minara_factory: MinaraFactory,
) -> None:
    chatter = await minara_factory(scopes=[Scope.CHAT])
    chatter.session_id = (await chatter.client.call("POST", "/v1/sessions", {}))["session_id"]
    assert finish_reason(await chatter.say("price of BTC")) == "stop"
    path = f"/v1/sessions/{chatter.session_id}/goal"
    await chatter.client.call("POST", path, {"text": "know ETH"})
    events = [event async for event in chatter.client.stream(f"{path}:continue", {})]
    assert finish_reason(events) == "stop"
    with pytest.raises(ProblemError) as refused:
        await chatter.client.call("GET", path)
    assert (refused.value.status, refused.value.reason) == (403, "SCOPE_MISSING")


async def test_who_may_only_chat_is_told_what_a_halt_left(minara: Minara) -> None:
    await minara.client.call("PATCH", "/v1/limits", {"preset": "standard"})
    await minara.say("buy $50 of ETH")
    await minara.say("yes")
    async with holding_only(minara, Scope.CHAT) as chatter:
        halted = await chatter.client.call("POST", "/v1/trading:halt", {"close_positions": True})
    assert "rendered_preview" in halted["closing"][0]


async def test_who_may_only_trade_sees_the_preview_of_their_order(
    minara_factory: MinaraFactory,
) -> None:
    trader = await minara_factory(scopes=[Scope.TRADE])
    answer = await trader.client.call("POST", "/v1/orders", BUY)
    assert "ETH" in answer["pending_action"]["rendered_preview"]


async def test_who_may_only_confirm_decides_by_the_code(minara: Minara) -> None:
    asked = named(await minara.say("buy $50 of ETH"), "approval_requested")[0]
    found = re.search(r"/confirm (\w{4})", asked["rendered_preview"])
    assert found is not None, asked["rendered_preview"]
    body = {"code": found[1], "session_id": minara.session_id}
    async with holding_only(minara, Scope.CONFIRM) as confirmer:
        done = await confirmer.client.call("POST", "/v1/approvals:confirmByCode", body)
    assert done["state"] == "ACTION_STATE_DONE"
    assert done["rendered_receipt"]
    assert text_of(await minara.say("price of BTC"))
