"""Builders of operations and venue facts."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from minara_core.actions import PlacedOrder, PlacedState, ResolvedOrder, Side
from minara_tools.domain import operations
from minara_tools.domain.operations import Operation
from minara_tools.domain.venue_terms import FactKind, VenueFact
from support.actions import NOW, an_action, an_order
from support.tools.venue import placed

CLIENT = "c" * 32


def an_operation(
    operation_id: str = "action-1", *, order: ResolvedOrder | None = None, client: str = CLIENT
) -> Operation:
    """In `intent`: buys 0.02 ETH for at most 50 USDC."""
    action = replace(an_action(operation_id), order=order or an_order())
    return operations.begun(action, client_order_id=client, is_exit=False, sender="own", now=NOW)


def held(operation: Operation | None = None) -> Operation:
    return operations.held(operation or an_operation(), NOW)


def sent(operation: Operation | None = None, *, now: datetime = NOW) -> Operation:
    return operations.sent(
        operation or held(), sign_time=now, not_after=now + timedelta(seconds=5), now=now
    )


def a_fill(
    quantity: str = "0.02",
    price: str = "2500",
    *,
    trade: str = "t1",
    side: Side = Side.BUY,
    client: str = CLIENT,
    account: str = "paper-1",
    time: datetime = NOW,
) -> VenueFact:
    base = Decimal(quantity)
    money = base * Decimal(price)
    changes = {"ETH": base, "USDC": -money}
    if side is Side.SELL:
        changes = {"ETH": -base, "USDC": money}
    return VenueFact(
        kind=FactKind.FILL,
        account=account,
        instrument="ETH/USDC",
        trade_id=trade,
        venue_order_id="v1",
        client_order_id=client,
        changes=changes,
        time=time,
        quantity=base,
        price=Decimal(price),
    )


def a_fee(fill: VenueFact, amount: str = "0.05", asset: str = "USDC") -> VenueFact:
    return replace(
        fill,
        kind=FactKind.FEE,
        changes={asset: -Decimal(amount)},
        quantity=Decimal(0),
        price=Decimal(0),
    )


def an_answer(
    operation: Operation, *, state: PlacedState = PlacedState.FILLED, filled: str = "0.02"
) -> PlacedOrder:
    return placed(operation.order, operation.client_order_id, state=state, filled=filled)
