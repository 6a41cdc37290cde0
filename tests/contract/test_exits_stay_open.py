"""A person can always get out: past every cap, lock and breaker, and while trading is halted."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.actions import ActionState, PendingAction, PlacedOrder, PlacedState, ResolvedOrder
from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import Unavailable
from minara_core.ids import UserId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import TradingState
from minara_core.tooling import ToolPending
from minara_tools.adapters.sql_limits import lock_pair
from minara_tools.adapters.sql_trading import SqlTradingStates
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.trading import INSTALLATION
from support.attacks.scene import Scene, a_buy, a_scene
from support.databases import Databases
from support.tools.house import a_call
from support.tools.money import Process, a_money
from support.tools.venue_facts import arrived

POSITION = Decimal(100)
ACCOUNT = "paper-local"
SELL_ALL = {"symbol": "ETH", "amount_unit": "all", "intent": "sell all of my ETH"}
TOOLS = ("buy_token", "sell_token", "place_limit_order", "cancel_order")


@pytest.fixture
async def scene(databases: Databases, tmp_path: Path) -> AsyncGenerator[Scene]:
    """Somebody with 100 ETH, worth fifty times what one move may have."""
    async with a_scene(databases, tmp_path) as made:
        await made.house.venue.accounts(UserId("local"))
        await made.house.venue.deposit(ACCOUNT, "ETH", POSITION)
        yield made


async def preview(
    scene: Scene, name: str, arguments: object, words: str, turn: str
) -> PendingAction:
    await scene.opens(words, turn)
    call = a_call(name, "1.0", json.dumps(arguments))
    (outcome,) = await scene.step(call, turn_id=turn, callable_tools=TOOLS)
    assert isinstance(outcome, ToolPending), outcome
    return outcome.action


async def sells_out(scene: Scene, turn: str = "turn-9") -> str:
    sale = await preview(scene, "sell_token", SELL_ALL, "sell all of my ETH", turn)
    return await scene.person_confirms(sale)


async def limit_preview(
    scene: Scene, side: str, price: str, turn: str, amount: str
) -> PendingAction:
    words = f"{side} {amount} ETH at {price} USDC"
    arguments = {
        "side": side,
        "symbol": "ETH",
        "amount": amount,
        "amount_unit": "base",
        "limit_price": price,
        "intent": words,
    }
    return await preview(scene, "place_limit_order", arguments, words, turn)


async def rests(scene: Scene, side: str, price: str, turn: str, amount: str = "1") -> PendingAction:
    """A limit order of the person that waits at the venue."""
    action = await limit_preview(scene, side, price, turn, amount)
    assert await scene.person_confirms(action) == "done"
    assert at_venue(scene, action).state is PlacedState.OPEN
    return action


def id_of(action: PendingAction) -> str:
    return client_order_id(action.pending_action_id)


def at_venue(scene: Scene, action: PendingAction) -> PlacedOrder:
    return scene.house.venue.orders[id_of(action)]


async def owned(scene: Scene, asset: str) -> Decimal:
    balances = await scene.house.venue.balances(ACCOUNT)
    return sum((b.available + b.held for b in balances if b.asset == asset), Decimal(0))


async def lower_limits(scene: Scene, **values: str) -> None:
    await scene.house.limits.UpdateLimits(
        limit_pb.UpdateLimitsRequest(values=values), metadata=scene.house.request_grant()
    )


async def reducing(scene: Scene) -> None:
    """What a circuit breaker sets."""
    now = scene.clock.now()
    audit = AuditRecord(
        user_id=UserId(INSTALLATION),
        kind=AuditKind.STATE_CHANGE,
        time=now,
        subject="trading",
        outcome=TradingState.REDUCING.value,
    )
    states = SqlTradingStates(scene.house.database, lambda: False)
    await states.set_installation(TradingState.REDUCING, "breaker", now=now, audit=audit)


async def halted(
    scene: Scene, *, cancel_protection: bool = False, close_positions: bool = False
) -> control_pb.HaltTradingResponse:
    return await scene.house.control.HaltTrading(
        control_pb.HaltTradingRequest(
            reason="stop", cancel_protection=cancel_protection, close_positions=close_positions
        ),
        metadata=scene.house.request_grant(),
    )


async def background(scene: Scene, data_dir: Path) -> Process:
    """What looks after moves beside the service's calls."""
    database, clock = scene.house.database, scene.clock
    money = await a_money(database, data_dir, scene.house.venue, clock, owner="background")
    return Process(money, clock, database)


async def test_selling_out_works_with_every_cap_lock_and_breaker_against_it(scene: Scene) -> None:
    await lower_limits(scene, max_day_usd="60", max_day_moves="1", max_move_usd="55")
    assert await scene.person_confirms(await scene.pending()) == "done"
    house = scene.house
    until = scene.clock.now() + timedelta(hours=1)
    await house.database.transaction(
        lambda c: lock_pair(c, "local", "paper", "ETH/USDC", until=until, reason="stop-outs")
    )
    await scene.opens("buy $50 of ETH", "turn-2")
    capped = await scene.calls("buy_token", a_buy(), turn_id="turn-2", call_id="2.0")
    assert capped == DenialReason.DAILY_CAP_REACHED
    await reducing(scene)
    stopped = await scene.calls("buy_token", a_buy(), turn_id="turn-2", call_id="2.1")
    assert stopped in {DenialReason.TRADING_REDUCING, DenialReason.TIER_EXCEEDS_CEILING}
    assert await sells_out(scene) == "done"
    assert await owned(scene, "ETH") == 0
    assert await owned(scene, "USDC") > 300_000


async def test_a_person_closes_and_cancels_while_halted(scene: Scene) -> None:
    protection = await rests(scene, "sell", "3000", "turn-1")
    await halted(scene)
    words = "cancel my ETH order"
    arguments = {"order_id": id_of(protection), "symbol": "ETH/USDC", "intent": words}
    cancel = await preview(scene, "cancel_order", arguments, words, "turn-2")
    assert await scene.person_confirms(cancel) == "done"
    assert at_venue(scene, protection).state is PlacedState.CANCELLED
    assert await sells_out(scene) == "done"
    assert await owned(scene, "ETH") == 0


async def test_a_stop_that_closes_leaves_previews_which_a_person_confirms(scene: Scene) -> None:
    report = await halted(scene, close_positions=True)
    closing = {action.pending_action_id: action for action in await scene.waiting()}
    assert set(report.closing_action_ids) == set(closing)
    (sale,) = closing.values()
    assert scene.house.venue.sent == []
    assert await scene.person_confirms(sale) == "done"
    assert await owned(scene, "ETH") == 0


async def test_protection_survives_a_stop(scene: Scene) -> None:
    protection = await rests(scene, "sell", "3000", "turn-1")
    report = await halted(scene)
    assert list(report.unsettled_action_ids) == [protection.pending_action_id]
    assert at_venue(scene, protection).state is PlacedState.OPEN
    scene.market.prices_usd["ETH"] = Decimal(3100)
    await scene.house.venue.balances(ACCOUNT)
    assert at_venue(scene, protection).state is PlacedState.FILLED


async def test_protection_ends_with_a_stop_that_says_so(scene: Scene) -> None:
    protection = await rests(scene, "sell", "3000", "turn-1")
    report = await halted(scene, cancel_protection=True)
    assert list(report.unsettled_action_ids) == []
    assert at_venue(scene, protection).state is PlacedState.CANCELLED


async def test_resting_purchases_are_cancelled_within_a_second(scene: Scene) -> None:
    buys = [await rests(scene, "buy", f"{2000 + n}", f"turn-{n}", "0.1") for n in range(5)]
    clock = asyncio.get_running_loop()
    begin = clock.time()
    report = await halted(scene)
    assert clock.time() - begin < 1.0
    assert list(report.unsettled_action_ids) == []
    assert {at_venue(scene, one).state for one in buys} == {PlacedState.CANCELLED}
    assert (await scene.stored(buys[0])).state is ActionState.DONE


async def test_a_purchase_that_turns_up_after_the_stop_is_cancelled_too(
    scene: Scene, tmp_path: Path
) -> None:
    def no_answer(order: ResolvedOrder, client_id: str) -> PlacedOrder:
        raise Unavailable("gone")

    action = await limit_preview(scene, "buy", "2000", "turn-1", "1")
    venue = scene.house.venue
    venue.answer = no_answer
    assert (await scene.person_confirms(action)).startswith("uncertain")
    venue.answer = None
    report = await halted(scene)
    assert list(report.unsettled_action_ids) == [action.pending_action_id]

    venue.take(action.order, arrived(action.order, id_of(action), scene.clock.now()))
    process = await background(scene, tmp_path)
    await process.settle()
    assert at_venue(scene, action).state is PlacedState.OPEN
    await process.money.sweep.run_once()
    assert at_venue(scene, action).state is PlacedState.CANCELLED
    assert await process.money.sweep.left_of(UserId("local")) == []
    assert await process.faults() == ()
