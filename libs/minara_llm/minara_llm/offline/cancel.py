"""A cancel in two steps: what the words ask for, then which open order that is."""

import re
from collections.abc import Iterator

from minara_core.clauses import Clause
from minara_core.lexicon_terms import Direction, Parsed
from minara_core.named_moves import order_ids
from minara_core.taxonomy import AssetClass
from minara_llm.offline.fields import Fields, rows_of, text_of
from minara_llm.offline.steps import PlannedCall, PlannedCancel, PlanStep, Remark

OPEN_ORDERS = PlannedCall(name="get_orders", arguments={"recent": 0})
"""Reads the open orders alone; what it finds is told only if no cancel comes of it."""

_CANCEL = re.compile(r"\bcancel|\bpull\b|取消|撤|취소|철회")
_REFUSED = re.compile(
    r"\b(?:don.?t|do not|dont|never|not) (?:\S+ ){0,2}cancel"
    r"|(?:別|别|不要|勿|不用)\s?(?:再|幫我|帮我)?\s?(?:取消|撤)|취소\s?(?:하지\s?(?:마|말|않)|안\s?해)"
)
_NEWEST = re.compile(
    r"\b(?:last|latest|newest|most recent|recent)\b|最後|最后|最近|最新|上一|剛才|刚才|剛剛|刚刚"
    r"|마지막|최근|방금"
)


def says_cancel(parsed: Parsed, clause: Clause) -> bool:
    """Whether the clause has a word for ending an order."""
    return _CANCEL.search(parsed.folded, clause.start, clause.end) is not None


def refuses_cancel(parsed: Parsed) -> bool:
    """Whether the message says not to cancel."""
    return _REFUSED.search(parsed.folded) is not None


def cancel(parsed: Parsed, clause: Clause) -> Iterator[PlanStep]:
    """The steps of a cancel that the clause asks for."""
    coins = [a for a in clause.assets if a.is_tradeable]
    named = [a for a in coins if a.asset_class is not AssetClass.STABLECOIN]
    sides = {move.direction for move in clause.moves} & {Direction.BUY, Direction.SELL}
    yield OPEN_ORDERS
    yield PlannedCancel(
        order_ids=order_ids(parsed.folded[clause.start : clause.end]),
        symbol=named[0].symbol if named else "",
        side=next(iter(sides)).value if len(sides) == 1 else "",
        is_newest=_NEWEST.search(parsed.folded, clause.start, clause.end) is not None,
    )


def resolved(wanted: PlannedCancel, fields: Fields) -> PlannedCall | Remark:
    """The one cancel that is meant among the `open_orders` of a `get_orders` answer, else the
    sentence why there is none."""
    found = [row for row in rows_of(fields, "open_orders") if _fits(wanted, row)]
    if not found:
        return Remark(key="no_open_order")
    if len(found) > 1 and not wanted.is_newest:
        return Remark(key="which_order")
    _, row = max(enumerate(found), key=_age)
    order_id, instrument = str(row["id"]), str(row["instrument"])
    return PlannedCall(
        name="cancel_order",
        arguments={
            "order_id": order_id,
            "symbol": instrument,
            "intent": f"Cancel my {instrument.partition('/')[0]} order {order_id}.",
        },
    )


def _age(placed: tuple[int, Fields]) -> tuple[str, int]:
    """Later orders are greater; a list has the newest last."""
    place, row = placed
    return text_of(row, "create_time"), place


def _fits(wanted: PlannedCancel, row: Fields) -> bool:
    order_id, instrument = text_of(row, "id"), text_of(row, "instrument")
    if not order_id or not instrument:
        return False
    if wanted.order_ids and not any(order_id.startswith(one) for one in wanted.order_ids):
        return False
    if wanted.symbol and instrument.partition("/")[0] != wanted.symbol:
        return False
    return not wanted.side or text_of(row, "side") == wanted.side
