"""An amount on its whole way: text, arguments, order, hold, venue, postings, stored and read back,
digit for digit, for assets of no decimals and of eighteen; and no float or NaN on any of it."""

import itertools
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minara.type.v1 import decimal_pb2 as decimal_pb
from minara_core.actions import PendingAction, PlacedState, Side
from minara_core.errors import InvalidRequest
from minara_core.ids import PendingActionId, UserId
from minara_core.money import Rounding, add, canonical, quantize, subtract
from minara_core.tooling import ToolPending
from minara_runtime.convert_actions import decimal_from_pb, decimal_to_pb
from minara_tools.adapters.sql_fund_rows import balances_of, operation_of
from minara_tools.adapters.sql_ledger_check import read_books
from minara_tools.domain.action_json import (
    action_hash,
    client_order_id,
    order_from_json,
    order_to_json,
)
from minara_tools.domain.ledger_check import check
from minara_tools.domain.limits import parse_changes
from minara_tools.domain.operations import hold_of
from minara_tools.domain.postings import LedgerAccount
from minara_tools.domain.venue_terms import InstrumentRules
from support.actions import an_action, an_order
from support.attacks.scene import Scene, a_scene
from support.databases import Databases
from support.tools.house import a_call
from support.tools.venue import FakeVenue

STEPS: Mapping[str, Decimal] = MappingProxyType(
    {"DOGE": Decimal(1), "BTC": Decimal("0.00000001"), "ETH": Decimal("0.000000000000000001")}
)
"""Quantity increments: none, eight and eighteen decimals."""
LARGEST: Mapping[str, int] = MappingProxyType({"DOGE": 20_000, "BTC": 0, "ETH": 1})
PLENTY = Decimal("99999.999999999999999999")
NUMBERS = itertools.count()

fractions = st.from_regex(r"[0-9]{1,18}", fullmatch=True).filter(str.isascii)
SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class FineVenue(FakeVenue):
    """Lists an asset that trades in whole units only, and one of eighteen decimals."""

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return tuple(
            replace(one, quantity_increment=STEPS[one.base], min_quantity=STEPS[one.base])
            for one in await super().instruments()
            if one.base in STEPS
        )


@st.composite
def amounts(draw: st.DrawFn) -> tuple[str, str]:
    """An asset, and the text of a quantity of it, mostly finer than it trades in."""
    asset = draw(st.sampled_from(sorted(STEPS)))
    whole = draw(st.integers(min_value=0, max_value=LARGEST[asset]))
    fraction = draw(fractions)
    if asset == "BTC":
        fraction = f"0{fraction}"[:18]  # a tenth of a coin is what a move may be worth
    return asset, f"{whole}.{fraction}"


@pytest.fixture
async def scene(databases: Databases, tmp_path: Path) -> AsyncGenerator[Scene]:
    async with a_scene(databases, tmp_path, kind=FineVenue) as made:
        yield made


async def parked(scene: Scene, user: str, side: Side, asset: str, text: str) -> PendingAction | str:
    """The preview that a model's text led to, or why there is none."""
    account = await scene.house.venue.account(UserId(user))
    if side is Side.SELL:
        await scene.house.venue.deposit(account, asset, PLENTY)
    words = f"{side.value} {asset}"
    await scene.opens(words, f"turn-{user}", user_id=user, session_id=f"session-{user}")
    arguments = f'{{"symbol":"{asset}","amount":"{text}","amount_unit":"base","intent":"{words}"}}'
    name = "buy_token" if side is Side.BUY else "sell_token"
    (outcome,) = await scene.step(a_call(name, "1.0", arguments), turn_id=f"turn-{user}")
    if isinstance(outcome, ToolPending):
        return outcome.action
    return str(cast("Any", outcome).reason)


@SETTINGS
@given(amount=amounts(), side=st.sampled_from(list(Side)))
async def test_an_amount_comes_back_digit_for_digit_from_everywhere(
    scene: Scene, amount: tuple[str, str], side: Side
) -> None:
    asset, text = amount
    user = f"user-{next(NUMBERS)}"
    action = await parked(scene, user, side, asset, text)
    if isinstance(action, str):
        assert action in {
            "QUANTITY_ROUNDS_TO_ZERO", "QUANTITY_BELOW_MIN", "NOTIONAL_EXCEEDS_MAX"
        }  # fmt: skip
        return
    order = action.order
    assert order.quantity == quantize(Decimal(text), STEPS[asset], Rounding.DOWN) <= Decimal(text)
    stored = await stored_action(scene, action)
    assert stored == action
    assert action_hash(stored.order, stored.preview) == action.action_hash

    assert await scene.person_confirms(action) == "done"
    placed = scene.house.venue.orders[client_order_id(action.pending_action_id)]
    assert placed.state is PlacedState.FILLED
    assert canonical(placed.filled_quantity) == canonical(order.quantity)
    _, most = hold_of(order)
    spent = placed.spent if side is Side.BUY else order.quantity
    assert spent <= most
    assert placed.fee <= order.max_fee
    assert placed.received >= order.min_receipt

    operation = await scene.house.database.read(
        lambda c: operation_of(c, PendingActionId(action.pending_action_id))
    )
    assert operation is not None
    assert canonical(operation.hold_amount) == canonical(most)
    assert canonical(operation.filled_quantity) == canonical(order.quantity)
    assert operation.hold_left == 0
    assert await own_balances(scene, order.account) == await venue_balances(scene, order.account)
    assert check(await scene.house.database.read(read_books)) == ()


async def stored_action(scene: Scene, action: PendingAction) -> PendingAction:
    return await scene.house.stored(action, user_id=action.user_id)


async def own_balances(scene: Scene, account: str) -> dict[str, str]:
    """What our books say is free, as text."""
    books = await scene.house.database.read(lambda c: balances_of(c, "paper", account))
    return {
        asset: canonical(amount)
        for (kind, asset), amount in books.items()
        if kind is LedgerAccount.AVAILABLE and amount
    }


async def venue_balances(scene: Scene, account: str) -> dict[str, str]:
    found = await scene.house.venue.balances(account)
    return {one.asset: canonical(one.available) for one in found if one.available}


@given(
    value=st.decimals(min_value=0, max_value=10**15, places=18),
    increment=st.sampled_from([*STEPS.values(), Decimal("0.000001"), Decimal("0.05")]),
)
def test_the_one_quantiser_never_rounds_in_favour_of_spending(
    value: Decimal, increment: Decimal
) -> None:
    taken = quantize(value, increment, Rounding.DOWN)
    paid = quantize(value, increment, Rounding.UP)
    assert taken <= value <= paid
    assert subtract(paid, taken) in {Decimal(0), increment}
    assert quantize(taken, increment, Rounding.UP) == taken
    assert quantize(paid, increment, Rounding.DOWN) == paid


POISON: tuple[object, ...] = (
    0.1,
    50.0,
    float("nan"),
    float("inf"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("-Infinity"),
)
GATES: Mapping[str, Callable[[Any], object]] = MappingProxyType(
    {
        "add": lambda value: add(value, Decimal(1)),
        "quantize": lambda value: quantize(value, Decimal(1), Rounding.UP),
        "an increment": lambda value: quantize(Decimal(1), value, Rounding.UP),
        "canonical": canonical,
        "the wire": decimal_to_pb,
        "an order's JSON": lambda value: order_to_json(replace(an_order(), quantity=value)),
        "an order's bound": lambda value: order_to_json(replace(an_order(), max_spend=value)),
        "a preview's hash": lambda value: action_hash(
            an_order(), replace(an_action().preview, notional_usd=value)
        ),
    }
)


@pytest.mark.parametrize("value", POISON, ids=repr)
@pytest.mark.parametrize("gate", GATES)
def test_no_float_and_no_nan_enters(gate: str, value: object) -> None:
    with pytest.raises(InvalidRequest):
        GATES[gate](value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-inf", "1e5", "", "0x1", "1_0", "１０"])
def test_no_text_of_another_grammar_enters_by_the_wire_or_a_limit(text: str) -> None:
    with pytest.raises(InvalidRequest):
        decimal_from_pb(decimal_pb.Decimal(value=text))
    with pytest.raises(InvalidRequest):
        parse_changes({"max_move_usd": text})


@pytest.mark.parametrize("number", ["0.1", "50", "1", "0.000000000000000001"])
async def test_a_number_in_json_is_taken_by_its_own_text(scene: Scene, number: str) -> None:
    account = await scene.house.venue.account(UserId("local"))
    await scene.house.venue.deposit(account, "ETH", PLENTY)
    await scene.opens("sell ETH")
    head = '"symbol":"ETH","amount_unit":"base","intent":"sell ETH"'
    codes = [
        await scene.calls("sell_token", f'{{{head},"amount":{written}}}', call_id=f"1.{at}")
        for at, written in enumerate((number, f'"{number}"'))
    ]
    assert codes[0] == codes[1]
    quantities = {one.order.quantity for one in await scene.waiting()}
    assert quantities in ({Decimal(number)}, set())


async def test_a_price_that_is_no_number_prices_nothing(scene: Scene) -> None:
    for poison in (Decimal("NaN"), Decimal("Infinity"), Decimal(-1), Decimal(0)):
        scene.market.prices_usd["ETH"] = poison
        found = await parked(scene, f"user-{next(NUMBERS)}", Side.BUY, "ETH", "0.1")
        assert found == "PRICE_UNAVAILABLE", poison


def test_an_order_survives_the_way_to_json_and_back() -> None:
    for step in STEPS.values():
        order = replace(an_order(), quantity=add(Decimal(3), step), max_spend=PLENTY)
        assert order_from_json(order_to_json(order)) == order
