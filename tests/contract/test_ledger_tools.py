"""The tools over our own books, through a running service, on SQLite and PostgreSQL."""

import json
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.reasons import DenialReason
from minara_core.taxonomy import LifecycleStage
from minara_core.tooling import ToolDenial, ToolPending, ToolSuccess, dump_json
from minara_runtime.convert import result_from_pb
from minara_tools.domain.permission import MANUAL_ROUTE
from minara_tools.main import VERSIONS
from minara_tools.toolsets.catalog import builtin_tools
from support.databases import Databases
from support.grants import an_installation
from support.tools.funds import EVM_ADDRESS
from support.tools.house import SETS, ToolsHouse, a_call, a_house
from support.tools.venue import FakeVenue
from support.tools_world import FakeFiles, FakeMarket

HELD = {"USDC": Decimal(100_000), "ETH": Decimal(2)}
CALLABLE = (
    "buy_token", "sell_token", "place_limit_order", "cancel_order", "swap_tokens",
    "transfer_token", "withdraw_token", "send_external",
)  # fmt: skip


class Desk:
    """A house with the tools that ship, and what its tests say most."""

    def __init__(self, house: ToolsHouse, market: FakeMarket) -> None:
        self.house = house
        self.market = market
        self._turn = 0

    async def asked(self, message: str, tool: str, **arguments: str) -> Any:
        """The outcome of one call in a turn in which the person said this."""
        self._turn += 1
        turn_id = f"turn-{self._turn}"
        await self.house.open(turn_id, message)
        told = {"intent": message} | arguments
        results = await self.house.execute(
            a_call(tool, arguments=dump_json(told)),
            turn_id=turn_id,
            stage=LifecycleStage.DECIDE,
            callable_tools=CALLABLE,
        )
        return results["1.0"].outcome

    async def done(self, message: str, tool: str, **arguments: str) -> Any:
        outcome = await self.asked(message, tool, **arguments)
        assert isinstance(outcome, ToolPending), outcome
        await self.house.confirm(outcome.action)
        return await self.house.stored(outcome.action)

    async def read(self, tool: str, **arguments: int) -> dict[str, Any]:
        self._turn += 1
        turn_id = f"turn-{self._turn}"
        await self.house.open(turn_id, "and now?")
        call = a_call(tool, arguments=dump_json(arguments))
        outcome = (await self.house.execute(call, turn_id=turn_id))["1.0"].outcome
        assert isinstance(outcome, ToolSuccess), outcome
        assert not outcome.is_untrusted
        return json.loads(outcome.data_json)

    async def buy(self, dollars: str = "500") -> Any:
        return await self.done(
            f"buy ${dollars} of ETH", "buy_token",
            symbol="ETH", amount=dollars, amount_unit="quote",
        )  # fmt: skip

    async def rest(self, price: str = "2000") -> Any:
        return await self.done(
            f"buy 0.1 ETH at {price}", "place_limit_order",
            side="buy", symbol="ETH", amount="0.1", amount_unit="base", limit_price=price,
        )  # fmt: skip


@pytest.fixture
async def desk(databases: Databases, tmp_path: Path) -> AsyncGenerator[Desk]:
    installation = an_installation()
    clock = installation.clock
    market = FakeMarket(clock)
    venue = FakeVenue(market, clock, HELD, name="paper")
    entries = builtin_tools(market=market, venue=venue, files=FakeFiles(), clock=clock)
    database = await databases.open(VERSIONS)
    async with a_house(
        database, tmp_path, venue=venue, market=market, entries=entries, installation=installation
    ) as house:
        yield Desk(house, market)


async def test_a_resting_order_is_listed_until_a_cancel_ends_it(desk: Desk) -> None:
    placed = await desk.rest()
    listed = await desk.read("get_orders")
    (resting,) = listed["open_orders"]
    assert resting["id"] == placed.outcome.client_order_id
    assert (resting["side"], resting["quantity"], resting["limit_price"]) == ("buy", "0.1", "2000")
    assert listed["recent_moves"][0]["state"] == "open"
    cancelled = await desk.done(
        "cancel my ETH order", "cancel_order", order_id=resting["id"][:8], symbol="ETH"
    )
    assert cancelled.solicited
    assert cancelled.outcome.message == "the order was cancelled"
    after = await desk.read("get_orders", recent=1)
    assert after["open_orders"] == []
    assert after["recent_moves"][0]["kind"] == "cancel"


async def test_halted_takes_the_cancel_of_a_sale_and_no_new_limit_order(desk: Desk) -> None:
    placed = await desk.done(
        "sell 0.1 ETH at 3000", "place_limit_order",
        side="sell", symbol="ETH", amount="0.1", amount_unit="base", limit_price="3000",
    )  # fmt: skip
    await desk.house.halt()
    state = await desk.read("get_trading_state")
    assert (state["state"], state["is_installation_wide"]) == ("halted", False)
    refused = await desk.asked(
        "buy 0.1 ETH at 2000", "place_limit_order",
        side="buy", symbol="ETH", amount="0.1", amount_unit="base", limit_price="2000",
    )  # fmt: skip
    assert isinstance(refused, ToolDenial)
    assert refused.reason is DenialReason.TRADING_HALTED
    order_id = placed.outcome.client_order_id
    cancelled = await desk.done(
        "cancel my ETH order", "cancel_order", order_id=order_id, symbol="ETH"
    )
    assert cancelled.outcome.message == "the order was cancelled"


async def test_fills_are_told_with_their_fees_newest_first(desk: Desk) -> None:
    await desk.buy()
    await desk.done(
        "sell 0.1 ETH", "sell_token", symbol="ETH", amount="0.1", amount_unit="base"
    )  # fmt: skip
    fills = (await desk.read("get_fills"))["fills"]
    assert [one["side"] for one in fills] == ["sell", "buy"]
    assert (fills[0]["quantity"], fills[0]["price"]) == ("0.1", "2500")
    assert fills[0]["fee"] == {"USDC": "0.25"}
    assert (await desk.read("get_fills", limit=1))["fills"] == fills[:1]


async def test_profit_is_counted_from_the_books_and_says_how(desk: Desk) -> None:
    await desk.buy("2500")
    desk.market.prices_usd["ETH"] = Decimal(3000)
    told = await desk.read("minara_pnl")
    (eth,) = told["assets"]
    bought = Decimal(eth["quantity_with_cost"])
    assert eth["asset"] == "ETH"
    assert Decimal("0.99") < bought < 1
    assert abs(Decimal(told["unrealised_usd"]) - bought * 500) < Decimal("0.02")
    assert told["realised_usd"] == "0"
    assert Decimal(told["fees"]["USDC"]) > Decimal("2.4")
    assert "Average cost" in told["basis"]
    assert told["is_complete"] is True


async def test_the_persons_limits_are_read(desk: Desk) -> None:
    assert (await desk.read("get_limits"))["limits"]["max_move_usd"] == "5000"


@pytest.mark.parametrize("arguments", [{}, {"symbol": "USDC", "address": EVM_ADDRESS}])
@pytest.mark.parametrize("tool", ["withdraw_token", "send_external"])
async def test_a_model_that_withdraws_is_denied_with_an_empty_card(
    desk: Desk, tool: str, arguments: dict[str, str]
) -> None:
    await desk.house.open("withdrawing", "withdraw 50 USDC", sets=(*SETS, "transfer"))
    call = a_call(tool, arguments=dump_json(arguments))
    results = await desk.house.execute(call, turn_id="withdrawing", callable_tools=CALLABLE)
    outcome = results["1.0"].outcome
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.MANUAL_ONLY
    assert dict(outcome.metadata) == {"card": tool, "route": MANUAL_ROUTE}


async def test_a_card_that_a_person_filled_in_waits_for_their_yes(desk: Desk) -> None:
    card = {
        "symbol": "USDC",
        "amount": "50",
        "chain": "base",
        "address": EVM_ADDRESS,
        "last_six": EVM_ADDRESS[-6:],
    }
    response = await desk.house.control.RunManualAction(
        control_pb.RunManualActionRequest(
            tool_name="send_external", arguments_json=dump_json(card), request_id="form-0001"
        ),
        metadata=desk.house.request_grant(),
    )
    outcome = result_from_pb(response.result).outcome
    assert isinstance(outcome, ToolPending), outcome
    assert outcome.action.order.recipient == EVM_ADDRESS
    assert outcome.action.preview.warnings == ("RECIPIENT_NEW",)
    await desk.house.confirm(outcome.action)
    sent = (await desk.house.stored(outcome.action)).outcome
    assert sent is not None
    assert (sent.spent, sent.received) == (Decimal("50.1"), Decimal(50))
