"""From one clause that asks for a trade to one order tool call, or to the sentence why not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from minara_core.clauses import Clause
from minara_core.errors import InvalidRequest
from minara_core.lexicon_terms import AmountMention, AssetMention, Direction, MoveMention, Parsed
from minara_core.money import canonical, parse_amount
from minara_core.taxonomy import AssetClass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A tool call the message asks for, with the arguments of its schema."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence to say, by its key in the phrases, and its values."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])


_OUTWARD = frozenset({Direction.TRANSFER, Direction.WITHDRAW})
_SPOT = frozenset({Direction.BUY, Direction.SELL, Direction.SWAP})


def _is_stable(asset: AssetMention) -> bool:
    return asset.asset_class is AssetClass.STABLECOIN


def _remark(key: str, symbol: str = "ETH", **values: str) -> Remark:
    return Remark(key=key, values={"symbol": symbol, **values})


def _swapped(clause: Clause) -> tuple[Direction, AssetMention] | None:
    """A swap against a stablecoin is a purchase or a sale of the other asset."""
    if len(clause.assets) <= 1:
        return None
    source, target = clause.assets[0], clause.assets[-1]
    if _is_stable(source) and not _is_stable(target):
        return Direction.BUY, target
    if _is_stable(target) and not _is_stable(source):
        return Direction.SELL, source
    return None


def _sides(
    clause: Clause, move: MoveMention, subjects: tuple[AssetMention, ...]
) -> tuple[Direction, tuple[AssetMention, ...]] | None:
    if move.direction is not Direction.SWAP:
        return move.direction, subjects
    swapped = _swapped(clause)
    return (swapped[0], (swapped[1],)) if swapped else None


def _refusal(parsed: Parsed, clause: Clause, move: MoveMention) -> Remark | None:
    if move.direction in _OUTWARD:
        return _remark("manual_only")
    if move.direction not in _SPOT or parsed.leverage is not None:
        return _remark("cannot_move", move=parsed.plain[clause.start : clause.end].strip()[:120])
    if clause.prices or parsed.prices:
        return _remark("no_condition")
    return None


def order(
    parsed: Parsed, clause: Clause, move: MoveMention, subjects: tuple[AssetMention, ...]
) -> PlannedCall | Remark:
    """What the clause's requested move comes to: one call, or the sentence why there is none."""
    if refusal := _refusal(parsed, clause, move):
        return refusal
    sides = _sides(clause, move, subjects)
    if sides is None:
        said = parsed.plain[clause.start : clause.end].strip()[:120]
        return _remark("cannot_move", move=said)
    direction, assets = sides
    if not assets:
        return _remark("which_trade_asset")
    asset, *others = assets
    if others:
        return _remark("unclear_amount", asset.symbol)
    return _order(parsed, clause, direction, asset.symbol)


def _order(
    parsed: Parsed, clause: Clause, direction: Direction, symbol: str
) -> PlannedCall | Remark:
    amount = next(iter(clause.amounts), None)
    if parsed.has_unread_number or len(clause.amounts) > 1:
        return _remark("unclear_amount", symbol)
    if amount is None:
        return _remark("which_amount", symbol)
    if amount.unit == "all":
        return _sell_all(direction, symbol)
    if amount.unit == "percent":
        return _remark("no_share", symbol)
    unit = _unit(amount, clause, symbol)
    text = _amount_text(amount.value)
    if unit is None or text is None:
        return _remark("which_unit", symbol, amount=canonical(amount.value))
    verb = direction.value.capitalize()
    counted = f"{text} {amount.unit.upper()} of {symbol}" if amount.unit else text
    return PlannedCall(
        name=f"{direction}_token",
        arguments={
            "symbol": symbol,
            "amount": text,
            "amount_unit": unit,
            "intent": f"{verb} {text} {symbol}." if unit == "base" else f"{verb} {counted}.",
        },
    )


def _sell_all(direction: Direction, symbol: str) -> PlannedCall | Remark:
    if direction is not Direction.SELL:
        return _remark("no_share", symbol)
    return PlannedCall(
        name="sell_token",
        arguments={"symbol": symbol, "amount_unit": "all", "intent": f"Sell all of my {symbol}."},
    )


def _unit(amount: AmountMention, clause: Clause, symbol: str) -> str | None:
    if amount.unit == symbol:
        return "base"
    stables = {asset.symbol for asset in clause.assets if _is_stable(asset)}
    if amount.unit in {"usd", "USDT"} or amount.unit in stables:
        return "quote"
    return None


def _amount_text(value: Decimal) -> str | None:
    text = canonical(value)
    try:
        parse_amount(text)
    except InvalidRequest:
        return None
    return text
