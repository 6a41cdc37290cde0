"""From one clause that asks for a trade to one order tool call, or to the sentence why not."""

import re
from decimal import Decimal

from minara_core.clauses import Clause
from minara_core.errors import InvalidRequest
from minara_core.lexicon_tables import asset_table
from minara_core.lexicon_terms import AmountMention, AssetMention, Direction, MoveMention, Parsed
from minara_core.money import canonical, parse_amount
from minara_core.taxonomy import AssetClass
from minara_llm.offline.steps import PlannedCall, Remark

_OUTWARD = frozenset({Direction.TRANSFER, Direction.WITHDRAW})
_ACCOUNTS = re.compile(
    r"(?P<perps>\bperps?\b|\bperpetuals?\b|\bfutures\b|合約|合约|선물)"
    r"|(?P<spot>\bspot\b|現貨|现货|현물)"
)
_LIMIT_BEFORE = re.compile(r"(?:\bat|@)\s?$")
_LIMIT_ANYWHERE = re.compile(r"\blimit\b|限價|限价|지정가")
_LIMIT_IN_WORDS = re.compile(
    r"(?:\bat|@) (?:an? )?(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million)\b"
)
_TRIGGER = re.compile(r"\b(?:stop|below|above)\b|時|时|跌|漲|涨|손절|止損|止损")
_SPOT = frozenset({Direction.BUY, Direction.SELL, Direction.SWAP})


PUT_OFF = Remark(key="no_condition")
"""Said of every move that is not to be made now."""


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


def _coins(clause: Clause) -> tuple[AssetMention, AssetMention] | None:
    """Both ends of a swap of one coin for another, in the order of the words."""
    coins = [asset for asset in clause.assets if not _is_stable(asset)]
    ends = tuple({asset.symbol: asset for asset in coins}.values())
    return (ends[0], ends[1]) if len(ends) == 2 and len(coins) == len(clause.assets) else None


def _limit_price(parsed: Parsed, clause: Clause) -> str | None:
    """The price of an order that is to rest; None where the words set a condition instead."""
    prices = clause.prices or parsed.prices
    if len(prices) != 1 or len(clause.amounts) != 1 or _TRIGGER.search(parsed.folded):
        return None
    before = parsed.folded[: prices[0].start]
    is_limit = _LIMIT_BEFORE.search(before) or _LIMIT_ANYWHERE.search(parsed.folded)
    return _amount_text(prices[0].value) if is_limit else None


def _is_unread_limit(parsed: Parsed, clause: Clause) -> bool:
    """Whether the words want a limit whose price was not read, or is in another currency: then
    neither an order at the market nor one at that number is what they ask for."""
    prices = clause.prices or parsed.prices
    if prices:
        return any(not _is_in_dollars(price) for price in prices)
    text = parsed.folded
    return bool(_LIMIT_ANYWHERE.search(text) or _LIMIT_IN_WORDS.search(text))


def _is_in_dollars(price: AmountMention) -> bool:
    unit = price.unit
    return unit in {None, "usd"} or asset_table().classes.get(unit or "") is AssetClass.STABLECOIN


def _own_accounts(parsed: Parsed, clause: Clause) -> tuple[str, str] | None:
    """From which own account to which other one; None when the words name none."""
    text = parsed.folded[clause.start : clause.end]
    named = list(dict.fromkeys(match.lastgroup or "" for match in _ACCOUNTS.finditer(text)))
    if not named:
        return None
    to = named[-1]
    return ("spot" if to == "perps" else "perps"), to


def _refusal(parsed: Parsed, clause: Clause, move: MoveMention) -> Remark | None:
    if move.direction in _OUTWARD:
        return _remark("manual_only")
    if move.direction not in _SPOT or parsed.leverage is not None:
        return _remark("cannot_move", move=parsed.plain[clause.start : clause.end].strip()[:120])
    if parsed.conditions:
        return PUT_OFF
    is_trade = move.direction is not Direction.SWAP
    if (clause.prices or parsed.prices) and not (is_trade and _limit_price(parsed, clause)):
        return PUT_OFF
    if _is_unread_limit(parsed, clause):
        return _remark("which_limit")
    return None


def order(
    parsed: Parsed, clause: Clause, move: MoveMention, subjects: tuple[AssetMention, ...]
) -> PlannedCall | Remark:
    """What the clause's requested move comes to: one call, or the sentence why there is none."""
    accounts = _own_accounts(parsed, clause)
    if move.direction is Direction.TRANSFER and accounts is not None:
        if parsed.conditions:
            return PUT_OFF
        return _transfer(parsed, clause, accounts, subjects)
    if refusal := _refusal(parsed, clause, move):
        return refusal
    coins = _coins(clause)
    if move.direction is Direction.SWAP and coins is not None:
        return _swap(parsed, clause, *coins)
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
    if limit := _limit_price(parsed, clause):
        return _limit_order(direction, symbol, text, unit, limit)
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


def _limit_order(
    direction: Direction, symbol: str, text: str, unit: str, limit: str
) -> PlannedCall:
    counted = f"{text} {symbol}" if unit == "base" else f"{text} USDC of {symbol}"
    return PlannedCall(
        name="place_limit_order",
        arguments={
            "side": direction.value,
            "symbol": symbol,
            "amount": text,
            "amount_unit": unit,
            "limit_price": limit,
            "intent": f"{direction.value.capitalize()} {counted} at {limit}.",
        },
    )


def _swap(
    parsed: Parsed, clause: Clause, given: AssetMention, taken: AssetMention
) -> PlannedCall | Remark:
    ends = {"from_symbol": given.symbol, "to_symbol": taken.symbol}
    amount = next(iter(clause.amounts), None)
    if parsed.has_unread_number or len(clause.amounts) > 1:
        return _remark("unclear_amount", given.symbol)
    if amount is None:
        return _remark("which_amount", given.symbol)
    if amount.unit == "all":
        said = f"Swap all of my {given.symbol} to {taken.symbol}."
        return PlannedCall(
            name="swap_tokens", arguments={**ends, "amount_unit": "all", "intent": said}
        )
    unit = {given.symbol: "from", "usd": "usd"}.get(amount.unit or "")
    text = _amount_text(amount.value)
    if unit is None or text is None:
        return _remark("which_unit", given.symbol, amount=canonical(amount.value))
    counted = f"{text} {given.symbol}" if unit == "from" else f"{text} USD of {given.symbol}"
    said = f"Swap {counted} to {taken.symbol}."
    return PlannedCall(
        name="swap_tokens",
        arguments={**ends, "amount": text, "amount_unit": unit, "intent": said},
    )


def _transfer(
    parsed: Parsed,
    clause: Clause,
    accounts: tuple[str, str],
    subjects: tuple[AssetMention, ...],
) -> PlannedCall | Remark:
    if len(subjects) != 1:
        return _remark("which_trade_asset")
    symbol, amount = subjects[0].symbol, next(iter(clause.amounts), None)
    if parsed.has_unread_number or len(clause.amounts) > 1:
        return _remark("unclear_amount", symbol)
    if amount is None:
        return _remark("which_amount", symbol)
    told = {"symbol": symbol, "from_account": accounts[0], "to_account": accounts[1]}
    if amount.unit == "all":
        said = f"Transfer all of my {symbol} to {accounts[1]}."
        return PlannedCall(
            name="transfer_token", arguments={**told, "amount_unit": "all", "intent": said}
        )
    text = _amount_text(amount.value)
    if amount.unit != symbol or text is None:
        return _remark("which_unit", symbol, amount=canonical(amount.value))
    said = f"Transfer {text} {symbol} to {accounts[1]}."
    return PlannedCall(
        name="transfer_token",
        arguments={**told, "amount": text, "amount_unit": "base", "intent": said},
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
