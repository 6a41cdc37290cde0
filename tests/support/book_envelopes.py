"""What tools answer of a person's own books, for models that must put it into words."""

from typing import Any

from minara_core.tooling import ok

AS_OF = "2026-01-02T03:04:05Z"
ORDER_ID = "01a22e4aa9c87656ac258deb6e49cd60"
NEWER_ID = "02b22e4aa9c87656ac258deb6e49cd61"


def an_order(**changes: Any) -> dict[str, Any]:
    """An open order as `get_orders` lists it."""
    return {
        "id": ORDER_ID,
        "instrument": "ETH/USDC",
        "side": "buy",
        "quantity": "0.1",
        "filled_quantity": "0",
        "limit_price": "1000",
        "create_time": AS_OF,
        **changes,
    }


def orders(*resting: dict[str, Any], moves: tuple[dict[str, Any], ...] = ()) -> str:
    return ok(
        {
            "mode": "paper",
            "venue": "paper",
            "open_order_count": len(resting),
            "open_orders": list(resting),
            "recent_moves": list(moves),
        }
    )


def a_move(**changes: Any) -> dict[str, Any]:
    """One of the latest moves as `get_orders` lists it."""
    return {
        "id": ORDER_ID,
        "kind": "trade",
        "instrument": "ETH/USDC",
        "side": "sell",
        "order_type": "market",
        "quantity": "0.25",
        "filled_quantity": "0.25",
        "limit_price": "2000",
        "state": "closed",
        "end": "filled",
        "time": AS_OF,
        **changes,
    }


FILLS = ok(
    {
        "fills": [
            {
                "order_id": ORDER_ID,
                "instrument": "ETH/USDC",
                "side": "buy",
                "quantity": "0.0205",
                "price": "2429.33",
                "fee": {"USDC": "0.04995"},
                "venue": "paper",
                "account": "spot",
                "time": AS_OF,
            }
        ]
    }
)
PNL = ok(
    {
        "realised_usd": "12.5",
        "unrealised_usd": "-3.25",
        "assets": [
            {
                "asset": "ETH",
                "quantity_with_cost": "0.5",
                "cost_usd": "1000.01",
                "price_usd": None,
                "realised_usd": "12.5",
                "unrealised_usd": None,
            }
        ],
        "fees": {"USDC": "1.75"},
        "basis": "Average cost.",
        "is_complete": False,
        "as_of": AS_OF,
    }
)
TOTAL = ok(
    {
        "mode": "paper",
        "venue": "paper",
        "total_usd": "228279.45",
        "accounts": [{"account": "spot-1", "purpose": "spot", "value_usd": "228279.45"}],
        "unpriced_assets": ["XYZ"],
        "as_of": AS_OF,
    }
)
ACCOUNT = ok(
    {
        "mode": "live",
        "venue": "somewhere",
        "accounts": [
            {"account": "spot-1", "purpose": "spot", "is_primary": True},
            {"account": "perps-1", "purpose": "perps", "is_primary": False},
        ],
        "withdrawal_chains": {"USDC": ["arbitrum", "base"], "ETH": ["base"]},
    }
)
ON_PAPER = ok(
    {
        "mode": "paper",
        "venue": "paper",
        "accounts": [{"account": "spot-1", "purpose": "spot", "is_primary": True}],
        "withdrawal_chains": {},
    }
)
LIMITS = ok(
    {
        "limits": {"max_move_usd": "5000", "max_day_moves": "20"},
        "pending_raises": [{"limit": "max_move_usd", "value": "7000", "effective_time": AS_OF}],
        "is_chosen": True,
        "change": "minara limits set NAME=VALUE",
    }
)
HALTED = ok(
    {
        "state": "halted",
        "reason": "by hand",
        "is_installation_wide": True,
        "since": AS_OF,
        "change": "minara resume",
    }
)
PART = ok(
    {
        "uri": "result://turn-1/1.0",
        "tool": "get_price",
        "offset": 0,
        "part": '{"price":"90000"}',
        "next_offset": 17,
        "total_length": 99,
    }
)
CUT = ok(
    {
        "is_cut": True,
        "notice": "the result was 90000 bytes; its middle is left out",
        "whole": "result://turn-1/1.0",
        "how": "read_result reads the whole in parts",
        "beginning": '{"open_orders":[',
        "end": "]}",
    }
)
