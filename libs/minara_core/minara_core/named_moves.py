"""Whether a person's words, or a model's stated intent, name a move or contradict it.

Rules alone, over the shared lexicon: what they do not say contradicts nothing (safety.md §2, §3).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from minara_core.asks import asks_to_cancel
from minara_core.clauses import Clause, clauses
from minara_core.lexicon import parse
from minara_core.lexicon_tables import asset_table
from minara_core.lexicon_terms import AmountMention, Direction, MoveMention, Parsed
from minara_core.taxonomy import AssetClass

_QUOTE_UNITS = frozenset({"quote", "usd"})
_REFERENCE = re.compile(
    r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{4,32}(?![0-9a-z])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMove:
    """A move in the words of a person.

    `asset` is a ticker or address; `amount_unit` is "base", "quote", "all" (then `amount` is None),
    "percent", or a symbol. `into` is what a swap ends in, `price` the limit of an order that rests,
    `reference` the id of the order that a cancel ends; a cancel has no amount.
    """

    direction: Direction
    asset: str
    amount: Decimal | None
    amount_unit: str | None
    into: str = ""
    price: Decimal | None = None
    reference: str = ""

    @property
    def sentence(self) -> str:
        """How a person would ask for it."""
        verb, asset = self.direction.value, self.asset
        if self.direction is Direction.CANCEL:
            return f"cancel my {asset} order {self.reference}"
        if self.amount is None:
            said = f"{verb} all of my {asset}"
        elif self.amount_unit in _QUOTE_UNITS:
            said = f"{verb} {self.amount} USDC of {asset}"
        else:
            said = f"{verb} {self.amount} {asset}"
        said += f" to {self.into}" if self.into else ""
        return f"{said} at {self.price}" if self.price is not None else said


def order_ids(folded: str) -> tuple[str, ...]:
    """What reads as the id of an order, or its beginning, in folded text."""
    return tuple(match.group() for match in _REFERENCE.finditer(folded))


def _same_asset(named: str, asset: str) -> bool:
    if named[:2].lower() == "0x":
        return named.lower() == asset.lower()
    return named == asset or (named == asset.upper() and named in asset_table().classes)


def _is_target(clause: Clause, asset: str) -> bool:
    return bool(clause.assets) and _same_asset(clause.assets[-1].symbol, asset)


def _is_source(clause: Clause, asset: str) -> bool:
    return bool(clause.assets) and _same_asset(clause.assets[0].symbol, asset)


def _always(clause: Clause, asset: str) -> bool:
    del clause, asset
    return True


_Fits = Callable[[Clause, str], bool]
_Told = tuple[Clause, tuple[str, ...]]


def _names(direction: Direction) -> dict[Direction, _Fits]:
    """Which words of a person name a move's direction."""
    match direction:
        case Direction.BUY:
            return {Direction.BUY: _always, Direction.SWAP: _is_target}
        case Direction.SELL:
            return {
                Direction.SELL: _always,
                Direction.CLOSE: _always,
                Direction.SWAP: _is_source,
            }
        case Direction.SWAP:
            return dict.fromkeys((Direction.SWAP, Direction.BUY, Direction.SELL), _always)
        case _:
            return {direction: _always}


def _agrees(direction: Direction) -> frozenset[Direction]:
    """Which words do not contradict a move's direction."""
    up = {Direction.BUY, Direction.LONG, Direction.SWAP}
    down = {Direction.SELL, Direction.SHORT, Direction.CLOSE, Direction.SWAP}
    out = {Direction.TRANSFER, Direction.WITHDRAW}
    match direction:
        case Direction.BUY | Direction.LONG:
            return frozenset(up)
        case Direction.SELL | Direction.SHORT:
            return frozenset(down)
        case Direction.CLOSE:
            return frozenset(down | {Direction.BUY})
        case Direction.SWAP:
            return frozenset({Direction.SWAP, Direction.BUY, Direction.SELL})
        case _:
            return frozenset(out)


def _is_quote(unit: str) -> bool:
    return unit in _QUOTE_UNITS or asset_table().classes.get(unit) is AssetClass.STABLECOIN


def _same_unit(named: str, unit: str, asset: str) -> bool:
    """Whether a person's unit is that of the move; "quote" and "usd" stand for any stablecoin."""
    if unit == "base":
        return _same_asset(named, asset)
    if unit in _QUOTE_UNITS or named == "usd":
        return _is_quote(named) and _is_quote(unit)
    return named == unit or _same_asset(named, unit)


def _amount_fits(named: AmountMention, move: NamedMove) -> bool:
    unit = move.amount_unit
    if named.unit == "all" or unit == "all":
        return named.unit == unit
    if move.amount is None or move.amount != named.value:
        return False
    if named.unit == "percent" or unit == "percent":
        return named.unit == unit
    return named.unit is None or unit is None or _same_unit(named.unit, unit, move.asset)


def names_move(text: str, move: NamedMove) -> bool:
    """Whether a person's message names this move: the *solicited* rule of safety.md §2.

    The amount, the price and the order's id must be equal if the text names any; a move with a
    price is named by a text with that price alone. Refused, quoted and reported moves name nothing,
    nor does a text that contradicts the move elsewhere. What is put off to a later moment, or made
    to depend on one, is not asked for now.
    """
    parsed = parse(text)
    if parsed.conditions:
        return False
    told = _with_pronouns(clauses(parsed))
    if move.direction is Direction.CANCEL:
        return asks_to_cancel(parsed) and _contradiction(parsed, told, move) is None
    if parsed.has_unread_number or _contradiction(parsed, told, move) is not None:
        return False
    if move.price is None and parsed.prices:
        return False  # "buy $50 of ETH at 2000" asks for no order at the market
    if move.price is not None and not _names_price(parsed, move.price):
        return False
    return any(_clause_names(clause, subjects, move) for clause, subjects in told)


def _with_pronouns(found: Sequence[Clause]) -> list[_Told]:
    """Each clause with its subjects; "buy $50 of it" is about what was named before."""
    subjects: tuple[str, ...] = ()
    result: list[_Told] = []
    for clause in found:
        subjects = tuple(asset.symbol for asset in clause.subjects) or subjects
        result.append((clause, subjects))
    return result


def _clause_names(clause: Clause, subjects: Sequence[str], move: NamedMove) -> bool:
    fits = _names(move.direction)
    moves = [one for one in clause.moves if one.is_named and one.direction in fits]
    if any(one.is_negated and one.direction in fits for one in clause.moves):
        return False
    is_swap = any(one.direction is Direction.SWAP for one in moves)
    mentioned = [one.symbol for one in clause.assets] if is_swap or move.into else subjects
    if not any(_same_asset(symbol, move.asset) for symbol in mentioned):
        return False
    if not any(fits[one.direction](clause, move.asset) for one in moves):
        return False
    if move.into and not _names_both(clause, moves, move):
        return False
    if not clause.amounts:
        return not clause.prices
    return any(_amount_fits(named, move) for named in clause.amounts)


def _names_both(clause: Clause, moves: Sequence[MoveMention], move: NamedMove) -> bool:
    """Whether both ends of a swap are named, in the order that its verb has them."""
    first, last = clause.assets[0].symbol, clause.assets[-1].symbol
    if any(one.direction is Direction.BUY for one in moves):
        first, last = last, first  # "buy BTC with 1 ETH"
    return _same_asset(first, move.asset) and _same_asset(last, move.into)


def _names_price(parsed: Parsed, price: Decimal) -> bool:
    """Whether a text has this price; one that is not marked as a price counts where no unit says
    that it is an amount."""
    unmarked = (amount for amount in parsed.amounts if amount.unit is None)
    return any(named.value == price for named in (*parsed.prices, *unmarked))


def contradiction(text: str, move: NamedMove) -> str | None:
    """The field in which `text` contradicts the move, "direction", "asset", "amount", "price" or
    "reference", else None.

    `text` is a model's intent sentence or a person's words; what it does not say contradicts
    nothing.
    """
    parsed = parse(text)
    return _contradiction(parsed, _with_pronouns(clauses(parsed)), move)


def _contradiction(parsed: Parsed, told: Sequence[_Told], move: NamedMove) -> str | None:
    if move.direction is Direction.CANCEL:
        return _contradiction_of_cancel(parsed, move)
    found = _contradiction_of_trade(told, move)
    if found is not None:
        return found
    if move.into and _ends_elsewhere(told, move):
        return "asset"
    is_priced = move.price is not None and bool(parsed.prices)
    return "price" if is_priced and not _names_price(parsed, move.price or Decimal(0)) else None


def _contradiction_of_cancel(parsed: Parsed, move: NamedMove) -> str | None:
    """A cancel is told by its own words: what its order was to do plays no part."""
    if not asks_to_cancel(parsed):
        return "direction" if any(one.is_named for one in parsed.moves) else None
    named = [one.symbol for one in parsed.assets if one.is_tradeable]
    if named and not any(_same_asset(symbol, move.asset) for symbol in named):
        return "asset"
    ids = order_ids(parsed.folded)
    is_meant = any(one.startswith(move.reference) or move.reference.startswith(one) for one in ids)
    return "reference" if ids and not is_meant else None


def _ends_elsewhere(told: Sequence[_Told], move: NamedMove) -> bool:
    """Whether a swap is told that ends in something else."""
    for clause, _ in told:
        symbols = [one.symbol for one in clause.assets]
        is_swap = any(one.is_named and one.direction is Direction.SWAP for one in clause.moves)
        if is_swap and len(set(symbols)) > 1 and not _same_asset(symbols[-1], move.into):
            return True
    return False


def _contradiction_of_trade(told: Sequence[_Told], move: NamedMove) -> str | None:
    moving = [(c, subjects) for c, subjects in told if any(one.is_named for one in c.moves)]
    about = [c for c, subjects in told if _is_about(c, subjects, move.asset)]
    if not about and any(not _is_silent(c) for c, _ in (moving or told)):
        return "asset"
    acting = [c for c in about if any(one.is_named for one in c.moves)]
    if not acting and about and any(not _is_silent(c) for c, _ in moving):
        return "asset"
    relevant = about or [c for c, _ in told]
    if _directions_contradict(relevant, move.direction):
        return "direction"
    return "amount" if _amounts_contradict(acting or relevant, move) else None


def _amounts_contradict(relevant: Sequence[Clause], move: NamedMove) -> bool:
    amounts = [named for clause in relevant for named in clause.amounts]
    return any(_is_comparable(named, move) for named in amounts) and not any(
        _amount_fits(named, move) for named in amounts
    )


def _is_silent(clause: Clause) -> bool:
    """Whether a clause leaves open which asset it is about."""
    return not clause.subjects or clause.pays_only


def _is_about(clause: Clause, subjects: Sequence[str], asset: str) -> bool:
    named = [*subjects, *(one.symbol for one in clause.assets)]
    return any(_same_asset(symbol, asset) for symbol in named)


def _directions_contradict(relevant: Sequence[Clause], direction: Direction) -> bool:
    moves = [move for clause in relevant for move in clause.moves if not move.is_quoted]
    agreeing = _agrees(direction)
    if any(move.is_named and move.direction in agreeing for move in moves):
        return False
    return any(not move.is_negated or move.direction in agreeing for move in moves)


def _is_comparable(named: AmountMention, move: NamedMove) -> bool:
    """A share of a holding and a number of coins cannot be compared without the holding."""
    is_share = named.unit in {"all", "percent"}
    if move.amount_unit in {"all", "percent"}:
        return move.amount_unit == "all" or is_share
    return move.amount is not None and not is_share
