"""Books and a venue's snapshot become the one value that all stages judge by."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from minara_core.actions import MoveKind, Side
from minara_core.ids import UserId
from minara_core.taxonomy import TradingState
from minara_tools.app.fund_ledger import LedgerStanding
from minara_tools.app.gather_funds import VenueSnapshot, context_of
from minara_tools.domain import operations
from minara_tools.domain.limits import STANDARD
from minara_tools.domain.operations import Operation, OperationEnd, OperationState
from minara_tools.domain.trading import TradingStanding
from support.actions import NOW, an_order
from support.tools.operations import an_operation, held, sent

SNAPSHOT = VenueSnapshot(
    account="paper-1", balances={}, accounts=(), networks=(), listings={}, prices={}
)


def standing(*all_operations: Operation) -> LedgerStanding:
    return LedgerStanding(
        time=NOW,
        user_id=UserId("local"),
        venue="paper",
        account="paper-1",
        is_open=True,
        balances={},
        operations=all_operations,
        pending=(),
        trading=TradingStanding(
            state=TradingState.ACTIVE,
            reason="",
            update_time=None,
            etag="1",
            is_installation_wide=False,
        ),
        limits=STANDARD,
        addresses=(),
        pair_locks={},
        latest_time=None,
    )


def uncertain(**changes: Any) -> Operation:
    order = replace(an_order(), **changes)
    return operations.uncertain(sent(held(an_operation(order=order))), "UNKNOWN", NOW)


def test_an_uncertain_purchase_may_bring_all_of_its_quantity() -> None:
    (move,) = context_of(standing(uncertain()), SNAPSHOT).uncertain
    assert move.takes == {"USDC": Decimal(50)}
    assert move.brings == {"ETH": Decimal("0.02")}


@pytest.mark.parametrize("kind", [MoveKind.TRADE, MoveKind.TRANSFER])
def test_an_uncertain_move_of_another_kind_brings_the_least(kind: MoveKind) -> None:
    move = uncertain(
        kind=kind,
        side=Side.SELL,
        max_spend=Decimal("0.02"),
        max_spend_asset="ETH",
        min_receipt=Decimal(49),
        min_receipt_asset="USDC",
    )
    assert context_of(standing(move), SNAPSHOT).uncertain[0].brings == {"USDC": Decimal(49)}


def test_an_order_that_still_rests_counts_against_the_cap_however_old_it_is() -> None:
    old = replace(sent(held(an_operation())), create_time=NOW - timedelta(days=3))
    resting = operations.moved(old, OperationState.OPEN, NOW)
    ended = replace(resting, state=OperationState.CLOSED, end=OperationEnd.FILLED)
    assert context_of(standing(resting), SNAPSHOT).moved_usd == 50
    assert context_of(standing(resting), SNAPSHOT).open_orders == 1
    assert context_of(standing(ended), SNAPSHOT).moved_usd == 0
