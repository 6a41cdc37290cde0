"""Previews and receipts as text, from typed fields alone and in the person's language.

Whatever a model or the orchestrator said about an action plays no part here.
"""

import tomllib
from decimal import Decimal
from functools import cache
from importlib import resources

from minara_core.actions import (
    ActionOutcome,
    ActionState,
    MoveKind,
    PendingAction,
    Side,
    TimeInForce,
)
from minara_core.ids import DIRECT_SESSION
from minara_core.money import canonical, multiply
from minara_gateway.outside import in_full, outside, outside_line

LANGUAGES = ("en", "zh-Hant", "zh-Hans", "ko")
_HUNDRED = Decimal(100)
_WIDEST_BOUND = Decimal("0.1")
_UNDECIDED = frozenset({ActionState.PENDING, ActionState.CONFIRMED, ActionState.EXECUTING})


@cache
def _phrases(language: str) -> dict[str, dict[str, str]]:
    chosen = language if language in LANGUAGES else "en"
    text = resources.files("minara_gateway").joinpath(f"phrases/{chosen}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _percent(fraction: Decimal) -> str:
    return canonical(multiply(fraction, _HUNDRED))


def _mode(action: PendingAction) -> str:
    return action.order.mode.value.upper()


def render_preview(action: PendingAction, *, code: str, language: str) -> str:
    """The preview of a stored action, headed LIVE, TESTNET or PAPER."""
    phrases = _phrases(language)["preview"]
    facts = _order_facts(action) | {
        "expire_time": f"{action.expire_time:%Y-%m-%d %H:%M:%S}",
        "code": code,
        "sources": ", ".join(outside(source) for source in action.read_sources),
    }
    how = "how" if answers_to_typed_words(action) else "how_code"
    lines = ["title", *_told_of(action), *_warnings(action)]
    shown = [phrases[line].format(**facts) for line in lines]
    shown += _told(action.preview.warnings, language)
    return "\n".join([*shown, *(phrases[line].format(**facts) for line in ("expires", how))])


def _order_facts(action: PendingAction) -> dict[str, str]:
    order, preview = action.order, action.preview
    return {
        "mode": _mode(action),
        "quantity": canonical(order.quantity),
        "base": outside(order.instrument.base),
        "quote": outside(order.instrument.quote),
        "symbol": outside(order.instrument.symbol),
        "chain": outside(order.instrument.chain),
        "venue": outside(order.venue),
        "account": outside(order.account),
        "recipient": in_full(order.recipient),
        "memo": in_full(order.memo),
        "cancels": outside(order.cancels),
        "max_spend": canonical(order.max_spend),
        "max_spend_asset": outside(order.max_spend_asset),
        "min_receipt": canonical(order.min_receipt),
        "min_receipt_asset": outside(order.min_receipt_asset),
        "price": canonical(preview.price),
        "limit_price": canonical(order.limit_price),
        "slippage_percent": _percent(preview.slippage_bound),
        "notional": canonical(preview.notional_usd),
        "receipt": canonical(preview.estimated_receipt),
        "receipt_asset": outside(preview.estimated_receipt_asset),
        "fee": canonical(preview.estimated_fee),
        "fee_asset": outside(preview.estimated_fee_asset),
        "max_fee": canonical(order.max_fee),
        "max_fee_asset": outside(order.max_fee_asset),
        "impact_percent": _percent(preview.price_impact),
        "source": outside(preview.source),
    }


def _told_of(action: PendingAction) -> list[str]:
    """The lines that say what the move is, by its kind."""
    order = action.order
    side = "buy" if order.side is Side.BUY else "sell"
    match order.kind:
        case MoveKind.TRADE if order.time_in_force is TimeInForce.GTC:
            first = f"{side}_limit"
            return [first, "venue", "price_limit", "value", "receipt", "fee", "source"]
        case MoveKind.TRADE:
            wider = ["wider"] if _has_wider_bound(action) else []
            return [side, "venue", "price", *wider, "value", "receipt", "fee", "impact", "source"]
        case MoveKind.CANCEL:
            return [f"cancel_{side}", "venue"]
        case MoveKind.TRANSFER:
            return ["transfer", "between", "value", "fee"]
        case MoveKind.WITHDRAWAL:
            memo = "memo" if order.memo else "no_memo"
            return ["withdrawal", "from", "recipient", memo, "value", "fee"]


def _has_wider_bound(action: PendingAction) -> bool:
    """Whether a person in a hurry may ask for the same sale with a wider bound (safety.md §3)."""
    return action.order.side is Side.SELL and action.preview.slippage_bound < _WIDEST_BOUND


def is_in_chat(action: PendingAction) -> bool:
    """Whether it was made in a conversation, and not by a direct route, a card or a halt."""
    return bool(action.session_id) and not action.session_id.startswith(DIRECT_SESSION)


def answers_to_typed_words(action: PendingAction) -> bool:
    """Whether a typed yes or no may decide it at all; else only a code or a button."""
    return is_in_chat(action) and action.solicited and not action.possible_duplicate


def _warnings(action: PendingAction) -> list[str]:
    warnings: list[str] = []
    if not action.solicited:
        warnings.append("unsolicited" if action.read_sources else "unsolicited_nothing")
    if action.possible_duplicate:
        warnings.append("duplicate")
    return warnings


def _told(warnings: tuple[str, ...], language: str) -> list[str]:
    """A warning is a code, with a detail after a colon; one without words is shown as it is."""
    words = _phrases(language)["warning"]
    lines: list[str] = []
    for warning in warnings:
        code, _, detail = warning.partition(":")
        is_known = code in words
        lines.append(words[code].format(detail=outside(detail)) if is_known else outside(warning))
    return lines


def render_undecided(*, code: str, language: str) -> str:
    """Why a typed word decided nothing although a preview waits."""
    return _phrases(language)["preview"]["no_typed_word"].format(code=code)


def render_end(limit: str, *, language: str) -> str:
    """Which limit ended a turn, and what to do; empty for a limit without a sentence."""
    return _phrases(language)["ended"].get(limit, "")


def render_missing(language: str) -> str:
    """What is shown in place of a preview whose action is not stored."""
    return _phrases(language)["preview"]["gone"]


def render_receipt(action: PendingAction, *, language: str, replacement: str = "") -> str:
    """What came of an action, as the tools service recorded it. `replacement` is the rendered
    preview that took the place of one whose price moved."""
    phrases = _phrases(language)["receipt"]
    outcome = action.outcome
    facts = _order_facts(action) | {"message": "", "replaced_by": ""}
    if outcome is not None:
        side = _phrases(language)["side"][action.order.side.value]
        facts |= _outcome_facts(outcome) | {"side": side}
    lines = [phrases[key].format(**facts) for key in _receipt_keys(action)]
    if outcome is not None and outcome.client_order_id:
        lines.append(phrases["ids"].format(**facts))
    if outcome is not None and outcome.replaced_by:
        key = "replaced" if replacement else "replaced_elsewhere"
        lines += [phrases[key].format(**facts), *([replacement] if replacement else [])]
    return "\n".join(lines)


def _outcome_facts(outcome: ActionOutcome) -> dict[str, str]:
    return {
        "message": outside_line(outcome.message),
        "filled": canonical(outcome.filled_quantity),
        "average_price": canonical(outcome.average_price),
        "spent": canonical(outcome.spent),
        "spent_asset": outside(outcome.spent_asset),
        "received": canonical(outcome.received),
        "received_asset": outside(outcome.received_asset),
        "fee": canonical(outcome.fee),
        "fee_asset": outside(outcome.fee_asset),
        "client_order_id": outside(outcome.client_order_id),
        "venue_order_id": outside(outcome.venue_order_id),
        "replaced_by": in_full(outcome.replaced_by),
    }


def _receipt_keys(action: PendingAction) -> list[str]:
    if action.state in _UNDECIDED:
        return ["executing"]
    if action.state is not ActionState.DONE or action.outcome is None:
        return [action.state.value]
    order, filled = action.order, action.outcome.filled_quantity
    match order.kind:
        case MoveKind.TRADE if not filled and order.time_in_force is TimeInForce.GTC:
            return ["noted"]
        case MoveKind.TRADE:
            rests = order.time_in_force is TimeInForce.GTC
            is_part = filled < order.quantity and bool(action.outcome.reason or rests)
            return ["done", "part"] if is_part else ["done"]
        case MoveKind.CANCEL:
            return ["noted"]
        case MoveKind.TRANSFER:
            return ["moved"]
        case MoveKind.WITHDRAWAL:
            return ["sent"]
