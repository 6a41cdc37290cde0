"""What a plan of the offline model is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ORDER_TOOLS = frozenset(
    {
        "buy_token",
        "sell_token",
        "swap_tokens",
        "place_limit_order",
        "cancel_order",
        "transfer_token",
    }
)
"""The tools whose calls wait for a person; all others that are planned only read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A tool call the message asks for, with the arguments of its schema."""

    name: str
    arguments: Mapping[str, str | int] = field(default_factory=dict[str, str | int])

    @property
    def is_order(self) -> bool:
        return self.name in ORDER_TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence to say, by its key in the phrases, and its values."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCancel:
    """The cancel of one open order, found in the answer of the `get_orders` call before it.

    `order_ids` are ids or beginnings of ids from the message, `symbol` and `side` what the order is
    to have; empty ones say nothing. `is_newest`: of several that fit, the newest is meant.
    """

    order_ids: tuple[str, ...] = ()
    symbol: str = ""
    side: str = ""
    is_newest: bool = False


PlanStep = PlannedCall | Remark | PlannedCancel
