"""Every kind of move through HTTP: asked for, previewed, confirmed, at the venue, in the books."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from minara_gateway.client import ProblemError
from minara_tools.adapters.market_simulated import SimulatedMarket
from support.clock import FixedClock
from support.deployments import MinaraFactory
from support.eventually import eventually
from support.minara import Minara, named, tools_called
from support.tools.funds import EVM_ADDRESS

HOLDINGS = {"USDC": "100000", "ETH": "3", "BTC": "0.5", "PEPE": "100000000"}


def previewed(events: Any) -> dict[str, Any]:
    (requested,) = named(events, "approval_requested")
    return requested


def denied(events: Any) -> dict[str, Any]:
    return named(events, "tool_call_finished")[-1]["result"]["denial"]


async def confirm(minara: Minara, action: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/approvals/{action['pending_action_id']}:confirm"
    return await minara.client.call("POST", path, {"action_hash": action["action_hash"]})


async def orders(minara: Minara) -> dict[str, Any]:
    return await minara.client.call("GET", "/v1/orders")


async def balance(minara: Minara, asset: str, *, account: str = "") -> Decimal:
    rows = await minara.rows("paper", "paper_balances", asset=asset)
    return sum((row["available"] for row in rows if row["account"].endswith(account)), Decimal(0))


@pytest.mark.only("embedded", reason="it moves the clock")
async def test_a_limit_speaks_before_a_balance_and_says_how_to_change_it(
    minara_factory: MinaraFactory,
) -> None:
    clock = FixedClock()
    minara = await minara_factory(clock=clock)
    refused = denied(await minara.say("buy $8000 of ETH"))
    assert refused["reason"] == "DENIAL_REASON_NOTIONAL_EXCEEDS_MAX"
    told = refused["metadata"]
    assert (told["limit"], told["value"]) == ("max_move_usd", "5000")
    assert "minara limits set max_move_usd=" in told["change"]
    assert "PATCH /v1/limits" in told["change"]
    await minara.client.call("PATCH", "/v1/limits", {"preset": "standard"})
    raised = {"values": {"max_move_usd": "200000", "max_day_usd": "400000"}}
    await minara.client.call("PATCH", "/v1/limits", raised)
    assert denied(await minara.say("buy $8000 of ETH"))["reason"].endswith("EXCEEDS_MAX")
    clock.advance(timedelta(hours=1, seconds=1))
    refused = denied(await minara.say("buy $150000 of ETH"))
    assert refused["reason"] == "DENIAL_REASON_BALANCE_INSUFFICIENT"
    assert refused["metadata"]["asset"] == "USDC"


async def test_most_of_a_small_account_in_one_coin_is_warned_of(
    minara_factory: MinaraFactory,
) -> None:
    minara = await minara_factory(balances={"USDC": "1000"})
    preview = previewed(await minara.say("buy $700 of BTC"))["rendered_preview"]
    assert "Over 60 % of your account would be in BTC." in preview


async def test_coins_are_swapped_and_the_profit_is_told_apart_from_the_fee(
    minara_factory: MinaraFactory,
) -> None:
    minara = await minara_factory(balances=HOLDINGS)
    events = await minara.say("swap 0.5 ETH to BTC")
    assert tools_called(events) == ["swap_tokens"]
    requested = previewed(events)
    assert "Sell 0.5 ETH for at least" in requested["rendered_preview"]
    assert "answer yes or no" in requested["rendered_preview"]
    decided = await minara.say("yes")
    assert "executed: sold 0.5 ETH" in named(decided, "action_decided")[0]["rendered_receipt"]
    assert await balance(minara, "ETH") == Decimal("2.5")
    assert await balance(minara, "BTC") > Decimal("0.5")


@pytest.mark.only("embedded", reason="it moves the clock")
async def test_a_limit_order_rests_fills_later_and_is_told_in_the_next_turn(
    minara_factory: MinaraFactory,
) -> None:
    clock = FixedClock()
    market = SimulatedMarket(clock)
    minara = await minara_factory(clock=clock, balances=HOLDINGS)
    (point,) = await market.prices(("ETH",))
    limit = int(point.price * Decimal("0.995"))
    events = await minara.say(f"buy 0.1 ETH at {limit}")
    assert tools_called(events) == ["place_limit_order"]
    requested = previewed(events)
    assert f"Buy 0.1 ETH at {limit} USDC or less" in requested["rendered_preview"]
    decided = await minara.say("yes")
    assert "rests at the venue" in named(decided, "action_decided")[0]["rendered_receipt"]
    (resting,) = (await orders(minara))["open_orders"]
    assert (resting["quantity"], resting["limit_price"]) == ("0.1", str(limit))
    for _ in range(24 * 60):
        clock.advance(timedelta(minutes=10))
        (point,) = await market.prices(("ETH",))
        if point.price < limit:
            break
    path = f"/v1/approvals/{requested['action']['pending_action_id']}"

    async def is_filled() -> bool:
        await orders(minara)
        action = await minara.client.call("GET", path)
        return action["outcome"]["filled_quantity"]["value"] == "0.1"

    await eventually(is_filled, timeout=15, every=0.2)
    asked = {"message": "price of BTC", "session_id": minara.session_id}
    prompt = await minara.client.call("POST", "/v1/chat/prompt", asked)
    blocks = [block["text"].replace(" ", "") for block in prompt["blocks"]]
    assert any('"filled_quantity":"0.1"' in text for text in blocks)
    assert (await orders(minara))["recent_moves"][0]["end"] == "filled"


async def test_an_order_is_cancelled_by_a_move_of_its_own(minara_factory: MinaraFactory) -> None:
    minara = await minara_factory(balances=HOLDINGS)
    body = {"side": "buy", "symbol": "ETH", "amount": "0.1", "amount_unit": "base"}
    made = await minara.client.call("POST", "/v1/orders", body | {"limit_price": "1500"})
    action = made["pending_action"]
    assert "did not ask" not in action["rendered_preview"]
    assert "answer yes" not in action["rendered_preview"]
    await confirm(minara, action)
    before = await balance(minara, "USDC")
    (resting,) = (await orders(minara))["open_orders"]
    cancelling = await minara.client.call(
        "POST",
        "/v1/orders:cancel",
        {"order_id": resting["id"], "symbol": resting["instrument"]},
    )
    shown = cancelling["pending_action"]["rendered_preview"]
    assert f"Cancel the order {resting['id']}: buy 0.1 ETH at 1500 USDC" in shown
    told = await confirm(minara, cancelling["pending_action"])
    assert "the order was cancelled" in told["rendered_receipt"]
    assert (await orders(minara))["open_orders"] == []
    assert await balance(minara, "USDC") > before


async def test_an_order_with_the_same_key_is_the_same_order(minara: Minara) -> None:
    minara.client.set_header("Idempotency-Key", "key-1")
    body = {"side": "buy", "symbol": "ETH", "amount": "50", "amount_unit": "quote"}
    first = (await minara.client.call("POST", "/v1/orders", body))["pending_action"]
    again = (await minara.client.call("POST", "/v1/orders", body))["pending_action"]
    assert again["pending_action_id"] == first["pending_action_id"]
    await confirm(minara, first)
    decided = (await minara.client.call("POST", "/v1/orders", body))["pending_action"]
    assert "executed: bought" in decided["rendered_receipt"]
    assert len(await minara.rows("paper", "paper_orders")) == 1


async def test_an_order_over_a_limit_is_answered_with_its_denial(minara: Minara) -> None:
    body = {"side": "buy", "symbol": "ETH", "amount": "8000", "amount_unit": "quote"}
    refused = await minara.client.call("POST", "/v1/orders", body)
    assert refused["denial"]["reason"] == "NOTIONAL_EXCEEDS_MAX"
    assert refused["denial"]["metadata"]["limit"] == "max_move_usd"


async def test_money_moves_between_own_accounts(minara: Minara) -> None:
    requested = previewed(await minara.say("transfer 100 USDC to my perps account"))
    assert "Move 100 USDC between your own accounts" in requested["rendered_preview"]
    decided = await minara.say("yes")
    assert "moved: 100 USDC from" in named(decided, "action_decided")[0]["rendered_receipt"]
    assert await balance(minara, "USDC", account="-perps") == Decimal(100)


@pytest.mark.only("embedded", reason="it moves the clock")
async def test_a_withdrawal_is_filled_in_by_hand_and_never_by_the_model(
    minara_factory: MinaraFactory,
) -> None:
    clock = FixedClock()
    minara = await minara_factory(clock=clock)
    entry = {"name": "wallet", "chain": "base", "address": EVM_ADDRESS}
    entered = (await minara.client.call("POST", "/v1/addresses", entry))["address"]
    card = {
        "tool": "withdraw_token",
        "request_id": "form-0001",
        "arguments": {
            "symbol": "USDC",
            "amount": "50",
            "address": entered["address_id"],
            "last_six": EVM_ADDRESS[-6:],
        },
    }
    early = await minara.client.call("POST", "/v1/manual-actions", card)
    assert early["denial"]["reason"] == "ADDRESS_NOT_USABLE"
    clock.advance(timedelta(hours=24, minutes=1))
    made = await minara.client.call("POST", "/v1/manual-actions", card)
    again = await minara.client.call("POST", "/v1/manual-actions", card)
    action = made["pending_action"]
    assert again["pending_action"]["pending_action_id"] == action["pending_action_id"]
    preview = action["rendered_preview"]
    assert f"To: {EVM_ADDRESS}" in preview
    assert "Nothing was sent to this recipient before." in preview
    told = await confirm(minara, action)
    assert f"sent: 50 USDC to {EVM_ADDRESS}" in told["rendered_receipt"]
    assert await balance(minara, "USDC") == Decimal("99949.9")
    after = (await minara.client.call("POST", "/v1/manual-actions", card))["pending_action"]
    assert after["rendered_receipt"] == told["rendered_receipt"]
    (known,) = (await minara.client.call("GET", "/v1/addresses"))["addresses"]
    assert known["is_used"] is True


@pytest.mark.parametrize("tool", ["buy_token", "no_such_tool"])
async def test_no_other_tool_is_a_card(minara: Minara, tool: str) -> None:
    body = {"tool": tool, "arguments": {"symbol": "ETH"}}
    with pytest.raises(ProblemError) as refused:
        await minara.client.call("POST", "/v1/manual-actions", body)
    assert refused.value.status == 404


@pytest.mark.only("embedded", reason="it moves the clock")
async def test_a_price_that_moved_voids_the_move_and_shows_a_new_preview_at_once(
    minara_factory: MinaraFactory,
) -> None:
    clock = FixedClock(await a_fall("PEPE", Decimal("0.02"), timedelta(minutes=8)))
    minara = await minara_factory(clock=clock, balances=HOLDINGS)
    action = previewed(await minara.say("sell 1000000 PEPE"))["action"]
    clock.advance(timedelta(minutes=8))
    told = await confirm(minara, action)
    assert told["state"] == "ACTION_STATE_VOIDED"
    receipt = told["rendered_receipt"]
    assert "The price moved. This is the new preview; the old one is void." in receipt
    new = await minara.client.call("GET", f"/v1/approvals/{told['outcome']['replaced_by']}")
    assert new["rendered_preview"] in receipt
    done = await confirm(minara, new)
    assert done["state"] == "ACTION_STATE_DONE"
    assert await balance(minara, "PEPE") == Decimal(99_000_000)


async def a_fall(symbol: str, share: Decimal, within: timedelta) -> datetime:
    """A time after which the simulated price falls by at least this share."""
    clock = FixedClock(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
    market = SimulatedMarket(clock)
    for _ in range(50_000):
        (before,) = await market.prices((symbol,))
        start = clock.now()
        clock.advance(within)
        (after,) = await market.prices((symbol,))
        if after.price < before.price * (1 - share):
            return start
    raise AssertionError(f"{symbol} never falls that fast")


async def test_a_stop_shows_what_is_open_and_sells_all_on_a_yes(
    minara_factory: MinaraFactory,
) -> None:
    minara = await minara_factory(balances={"USDC": "1000", "ETH": "1"})
    body = {"side": "sell", "symbol": "ETH", "amount": "0.1", "amount_unit": "base"}
    made = await minara.client.call("POST", "/v1/orders", body | {"limit_price": "9000"})
    await confirm(minara, made["pending_action"])
    halted = await minara.client.call("POST", "/v1/trading:halt", {"close_positions": True})
    assert [one["rendered_receipt"] for one in halted["unsettled"]] != []
    (closing,) = halted["closing"]
    assert "Sell 0.9 ETH" in closing["rendered_preview"]
    assert (await confirm(minara, closing))["state"] == "ACTION_STATE_DONE"
    all_of_it = {"cancel_protection": True, "close_positions": True}
    await minara.client.call("POST", "/v1/trading:halt", all_of_it)
    assert (await orders(minara))["open_orders"] == []
