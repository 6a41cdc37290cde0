"""What a message asks for, by rules alone: its stage, and the move it requests.

A person who asks for a move is in stage `decide` by these rules, whatever a model thinks
(safety.md §1, skills.md §3).
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from minara_core.clauses import Clause, clauses
from minara_core.lexicon import parse
from minara_core.lexicon_tables import LanguagePatterns, move_table, stage_table
from minara_core.lexicon_terms import AmountMention, Direction, Language, MoveMention, Parsed
from minara_core.taxonomy import LifecycleStage

_QUESTION_END = re.compile(
    r"(?:[?？]|[嗎吗呢]|까요?|나요|[은는]가요|니까|려나|어때요?|어떨까요?)[\s.!。！~]*$"
)
_LONGEST_CONTINUATION = 40


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


def is_question_about_doing(message: str) -> bool:
    """Whether it asks what would come of a move, or whether to make it, and not for the move."""
    return _is_question_about_doing(parse(message))


def _requested(parsed: Parsed) -> MoveMention | None:
    has_object = any(asset.is_tradeable for asset in parsed.assets) or bool(
        parsed.amounts or parsed.leverage
    )
    for move in parsed.moves:
        if move.is_request and (has_object or move.direction is Direction.CLOSE):
            return move
    return None


def asks_to_cancel(message: str | Parsed) -> bool:
    """Whether a message asks to cancel an order at the venue. A bare "cancel" names no order: it
    answers a preview."""
    parsed = parse(message) if isinstance(message, str) else message
    folded = parsed.folded
    if _hits(stage_table().question, folded):
        return False
    if _QUESTION_END.search(folded) and not _is_polite(folded):
        return False
    table = move_table()
    return any(
        not table.negated_before.search(folded[: match.start()])
        for pattern in table.cancel.values()
        for match in pattern.finditer(folded)
    )


def is_put_off(parsed: Parsed) -> bool:
    """Whether it asks for a move at another moment than now: later, again and again, or only if
    something comes about. A question what would come of it asks for none."""
    if not parsed.conditions or not any(move.is_named for move in parsed.moves):
        return False
    is_ask = parsed.amounts or any(move.is_request for move in parsed.moves)
    is_question = _QUESTION_END.search(parsed.folded) and not _is_polite(parsed.folded)
    return bool(is_ask) and not is_question and not _asks_beside_conditions(parsed)


def _asks_beside_conditions(parsed: Parsed) -> bool:
    """Whether words of a question stand there that are not a condition's own, such as 如果."""
    return any(
        not any(start <= match.start() and match.end() <= end for start, end in parsed.conditions)
        for pattern in stage_table().question.values()
        for match in pattern.finditer(parsed.folded)
    )


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
    if _hits(table.manage, text) or asks_to_cancel(parsed):
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
