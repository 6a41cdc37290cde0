"""Previews and receipts as text, from typed fields alone and in the person's language.

Whatever a model or the orchestrator said about an action plays no part here. Strings from outside
are shown without control, bidirectional and escape characters, at most 32 characters long.
"""

import tomllib
import unicodedata
from decimal import Decimal
from functools import cache
from importlib import resources

from minara_core.actions import ActionState, PendingAction, Side
from minara_core.money import canonical

LANGUAGES = ("en", "zh-Hant", "zh-Hans", "ko")
_OUTSIDE_LIMIT = 32


@cache
def _phrases(language: str) -> dict[str, dict[str, str]]:
    chosen = language if language in LANGUAGES else "en"
    text = resources.files("minara_gateway").joinpath(f"phrases/{chosen}.toml").read_text("utf-8")
    return tomllib.loads(text)


def outside(text: str) -> str:
    """A string that others wrote, made harmless to show."""
    folded = unicodedata.normalize("NFKC", text)
    plain = "".join(c for c in folded if c.isprintable() and unicodedata.category(c)[0] != "M")
    return plain if len(plain) <= _OUTSIDE_LIMIT else plain[: _OUTSIDE_LIMIT - 1] + "…"


def _percent(fraction: Decimal) -> str:
    return canonical(fraction * 100)


def _mode(action: PendingAction) -> str:
    return action.order.mode.value.upper()


def render_preview(action: PendingAction, *, code: str, language: str) -> str:
    """The preview of a stored action, headed LIVE, TESTNET or PAPER."""
    phrases = _phrases(language)["preview"]
    order, preview = action.order, action.preview
    facts = {
        "mode": _mode(action),
        "quantity": canonical(order.quantity),
        "base": outside(order.instrument.base),
        "quote": outside(order.instrument.quote),
        "symbol": outside(order.instrument.symbol),
        "venue": outside(order.venue),
        "account": outside(order.account),
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
        "expire_time": f"{action.expire_time:%Y-%m-%d %H:%M:%S}",
        "code": code,
        "sources": ", ".join(outside(source) for source in action.read_sources),
    }
    lines = ["title", "buy" if order.side is Side.BUY else "sell", "venue", "price", "value"]
    lines += ["receipt", "fee", "impact", "source", *_warnings(action), "expires"]
    lines.append("how" if answers_to_typed_words(action) else "how_code")
    shown = [phrases[line].format(**facts) for line in lines]
    return "\n".join([*shown[:-2], *_told(preview.warnings, language), *shown[-2:]])


def answers_to_typed_words(action: PendingAction) -> bool:
    """Whether a typed yes or no may decide it at all; else only a code or a button."""
    return action.solicited and not action.possible_duplicate


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


def render_missing(language: str) -> str:
    """What is shown in place of a preview whose action is not stored."""
    return _phrases(language)["preview"]["gone"]


def render_receipt(action: PendingAction, *, language: str) -> str:
    """What came of an action, as the tools service recorded it."""
    phrases = _phrases(language)
    outcome, order = action.outcome, action.order
    facts = {
        "mode": _mode(action),
        "message": "" if outcome is None else outside_line(outcome.message),
    }
    if outcome is not None:
        facts |= {
            "side": phrases["side"][order.side.value],
            "filled": canonical(outcome.filled_quantity),
            "base": outside(order.instrument.base),
            "quote": outside(order.instrument.quote),
            "average_price": canonical(outcome.average_price),
            "spent": canonical(outcome.spent),
            "spent_asset": outside(outcome.spent_asset),
            "received": canonical(outcome.received),
            "received_asset": outside(outcome.received_asset),
            "fee": canonical(outcome.fee),
            "fee_asset": outside(outcome.fee_asset),
            "client_order_id": outside(outcome.client_order_id),
            "venue_order_id": outside(outcome.venue_order_id),
        }
    lines = [phrases["receipt"][_receipt_key(action)].format(**facts)]
    if outcome is not None and outcome.client_order_id:
        lines.append(phrases["receipt"]["ids"].format(**facts))
    return "\n".join(lines)


def outside_line(text: str) -> str:
    """A sentence that others wrote: one line, harmless to show, at most 200 characters."""
    folded = unicodedata.normalize("NFKC", text)
    return "".join(c for c in folded if unicodedata.category(c)[0] != "C")[:200]


def _receipt_key(action: PendingAction) -> str:
    if action.state in {ActionState.PENDING, ActionState.CONFIRMED, ActionState.EXECUTING}:
        return "executing"
    return action.state.value
