"""What a message asks for, by rules alone: its stage, and the move it requests, names or refuses.

A person who asks for a move is in stage `decide` by these rules, whatever a model thinks
(safety.md §1, skills.md §3).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from minara_core.clauses import Clause, clauses
from minara_core.lexicon import parse
from minara_core.lexicon_tables import LanguagePatterns, asset_table, move_table, stage_table
from minara_core.lexicon_terms import AmountMention, Direction, Language, MoveMention, Parsed
from minara_core.taxonomy import AssetClass, LifecycleStage

_QUESTION_END = re.compile(
    r"(?:[?？]|[嗎吗呢]|까요?|나요|[은는]가요|니까|려나|어때요?|어떨까요?)[\s.!。！~]*$"
)
_LONGEST_CONTINUATION = 40
_QUOTE_UNITS = frozenset({"quote", "usd"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a message asks for.

    `is_trade_request`: it asks for a move, in the form of an order or of the speaker's own will.
    `direction`, `assets` and `amount` are those of the requested move, else the first ones named.
    `is_continuation`: a reply without content of its own ("do it"), which takes its meaning from
    the turn before. `is_sure` is false where no rule spoke and the stage is the default.
    """

    stage: LifecycleStage
    is_sure: bool
    is_trade_request: bool
    is_continuation: bool
    language: Language
    direction: Direction | None
    assets: tuple[str, ...]
    amount: AmountMention | None
    leverage: Decimal | None


def _hits(patterns: LanguagePatterns, text: str) -> bool:
    return any(pattern.search(text) for pattern in patterns.values())


def _is_polite(folded: str) -> bool:
    return _hits(move_table().polite, folded)


def _is_question_about_doing(parsed: Parsed) -> bool:
    if not parsed.moves:
        return False
    if _hits(stage_table().question, parsed.folded):
        return True
    requested = any(move.is_request for move in parsed.moves)
    return bool(_QUESTION_END.search(parsed.folded)) and not (
        requested and _is_polite(parsed.folded)
    )


def _requested(parsed: Parsed) -> MoveMention | None:
    has_object = any(asset.is_tradeable for asset in parsed.assets) or bool(
        parsed.amounts or parsed.leverage
    )
    for move in parsed.moves:
        if move.is_request and (has_object or move.direction is Direction.CLOSE):
            return move
    return None


def is_continuation(text: str) -> bool:
    """Whether `text` has no content of its own: it only carries on or changes one number."""
    return _is_continuation(parse(text))


def _is_continuation(parsed: Parsed) -> bool:
    folded = parsed.folded.strip(" \t\n.!。！~")
    if not folded or len(folded) > _LONGEST_CONTINUATION:
        return False
    if any(asset.is_tradeable for asset in parsed.assets if not _is_unit(asset.symbol, parsed)):
        return False
    if any(move.is_request for move in parsed.moves) and not parsed.amounts:
        return not parsed.topics
    patterns = stage_table().continuation
    return not parsed.topics and any(pattern.fullmatch(folded) for pattern in patterns.values())


def _is_unit(symbol: str, parsed: Parsed) -> bool:
    return any(amount.unit == symbol for amount in parsed.amounts)


def _stage(parsed: Parsed, move: MoveMention | None) -> tuple[LifecycleStage, bool]:
    table, text = stage_table(), parsed.folded
    if _is_question_about_doing(parsed):
        return LifecycleStage.EVALUATE, True
    if move is not None:
        return LifecycleStage.DECIDE, True
    if _hits(table.manage, text):
        return LifecycleStage.MANAGE, True
    if _hits(table.evaluate, text):
        return LifecycleStage.EVALUATE, True
    readings = {"price", "news", "trending", "fear_greed", "search"}
    if _hits(table.discover, text) or parsed.topics & readings:
        return LifecycleStage.DISCOVER, True
    return LifecycleStage.EVALUATE, False


def asks(message: str | Parsed) -> Ask:
    """The ask of a message, by the ordered rules of skills.md §3; the first that matches wins."""
    parsed = parse(message) if isinstance(message, str) else message
    move = _requested(parsed)
    stage, is_sure = _stage(parsed, move)
    is_request = move is not None and stage is LifecycleStage.DECIDE
    named = next((one for one in parsed.moves if one.is_named), None)
    told = move if is_request else named
    clause = _clause_of(parsed, told)
    assets = [a.symbol for a in clause.subjects] if clause and clause.subjects else parsed.symbols
    amounts = clause.amounts if clause else parsed.amounts
    return Ask(
        stage=stage,
        is_sure=is_sure,
        is_trade_request=is_request,
        is_continuation=_is_continuation(parsed),
        language=parsed.language,
        direction=told.direction if told else None,
        assets=tuple(dict.fromkeys(assets)),
        amount=amounts[0] if amounts else None,
        leverage=parsed.leverage,
    )


def _clause_of(parsed: Parsed, move: MoveMention | None) -> Clause | None:
    if move is None:
        return None
    return next((c for c in clauses(parsed) if c.start <= move.start < c.end), None)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    direction: Direction
    asset: str
    amount: Decimal | None
    amount_unit: str | None


def _names(direction: Direction) -> dict[Direction, _Fits]:
    """Which words of a person name a call's direction."""
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
    """Which words do not contradict a call's direction."""
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
    """Whether a person's unit is that of the call; "quote" and "usd" stand for any stablecoin."""
    if unit == "base":
        return _same_asset(named, asset)
    if unit in _QUOTE_UNITS or named == "usd":
        return _is_quote(named) and _is_quote(unit)
    return named == unit or _same_asset(named, unit)


def _amount_fits(named: AmountMention, call: _Call) -> bool:
    unit = call.amount_unit
    if named.unit == "all" or unit == "all":
        return named.unit == unit
    if call.amount is None or call.amount != named.value:
        return False
    if named.unit == "percent" or unit == "percent":
        return named.unit == unit
    return named.unit is None or unit is None or _same_unit(named.unit, unit, call.asset)


def names_move(
    text: str,
    *,
    direction: str,
    asset: str,
    amount: Decimal | None,
    amount_unit: str | None,
) -> bool:
    """Whether a person's message names this move: the *solicited* rule of safety.md §2.

    `direction` is one of Direction's values, `asset` a ticker or address; `amount_unit` is "base",
    "quote", "all" (then `amount` is None), "percent", or a symbol. The amount must be equal if the
    text names any; refused, quoted and reported moves name nothing, nor does a text that
    contradicts the call elsewhere.
    """
    parsed = parse(text)
    call = _Call(
        direction=Direction(direction), asset=asset, amount=amount, amount_unit=amount_unit
    )
    told = _with_pronouns(clauses(parsed))
    if parsed.has_unread_number or _contradiction(told, call) is not None:
        return False
    return any(_clause_names(clause, subjects, call) for clause, subjects in told)


def _with_pronouns(found: Sequence[Clause]) -> list[_Told]:
    """Each clause with its subjects; "buy $50 of it" is about what was named before."""
    subjects: tuple[str, ...] = ()
    result: list[_Told] = []
    for clause in found:
        subjects = tuple(asset.symbol for asset in clause.subjects) or subjects
        result.append((clause, subjects))
    return result


def _clause_names(clause: Clause, subjects: Sequence[str], call: _Call) -> bool:
    fits = _names(call.direction)
    moves = [move for move in clause.moves if move.is_named and move.direction in fits]
    if any(move.is_negated and move.direction in fits for move in clause.moves):
        return False
    is_swap = any(move.direction is Direction.SWAP for move in moves)
    mentioned = [one.symbol for one in clause.assets] if is_swap else subjects
    if not any(_same_asset(symbol, call.asset) for symbol in mentioned):
        return False
    if not any(fits[move.direction](clause, call.asset) for move in moves):
        return False
    if not clause.amounts:
        return not clause.prices
    return any(_amount_fits(named, call) for named in clause.amounts)


def contradiction(
    text: str,
    *,
    direction: str,
    asset: str,
    amount: Decimal | None,
    amount_unit: str | None,
) -> str | None:
    """The field in which `text` contradicts the call, "direction", "asset" or "amount", else None.

    `text` is a model's intent sentence or a person's words; what it does not say contradicts
    nothing. The other arguments are those of `names_move`.
    """
    call = _Call(
        direction=Direction(direction), asset=asset, amount=amount, amount_unit=amount_unit
    )
    return _contradiction(_with_pronouns(clauses(parse(text))), call)


def _contradiction(told: Sequence[_Told], call: _Call) -> str | None:
    moving = [(c, subjects) for c, subjects in told if any(move.is_named for move in c.moves)]
    about = [c for c, subjects in told if _is_about(c, subjects, call.asset)]
    if not about and any(not _is_silent(c) for c, _ in (moving or told)):
        return "asset"
    acting = [c for c in about if any(move.is_named for move in c.moves)]
    if not acting and about and any(not _is_silent(c) for c, _ in moving):
        return "asset"
    relevant = about or [c for c, _ in told]
    if _directions_contradict(relevant, call.direction):
        return "direction"
    return "amount" if _amounts_contradict(acting or relevant, call) else None


def _amounts_contradict(relevant: Sequence[Clause], call: _Call) -> bool:
    amounts = [named for clause in relevant for named in clause.amounts]
    return any(_is_comparable(named, call) for named in amounts) and not any(
        _amount_fits(named, call) for named in amounts
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


def _is_comparable(named: AmountMention, call: _Call) -> bool:
    """A share of a holding and a number of coins cannot be compared without the holding."""
    is_share = named.unit in {"all", "percent"}
    if call.amount_unit in {"all", "percent"}:
        return call.amount_unit == "all" or is_share
    return call.amount is not None and not is_share
