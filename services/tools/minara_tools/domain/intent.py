"""A money call against the model's own stated intent and against the person's words.

No model judges this: the rules of `minara_core.named_moves` do, on text whose hash the grant
proves.
"""

from collections.abc import Sequence

from pydantic import BaseModel

from minara_core.asks import asks, asks_to_cancel, is_put_off, is_question_about_doing
from minara_core.lexicon import parse, typed_decision
from minara_core.money import parse_amount
from minara_core.named_moves import NamedMove, contradiction, names_move
from minara_core.reasons import DenialReason
from minara_tools.domain.arguments import is_move, states_intent
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry

GATE = "intent"
REJECTIONS_IN_A_ROW = 2
"""After so many the session's money tools are off until a message asks for a move."""
REMEMBERED_MESSAGES = 3
"""A message older than this many human messages solicits nothing."""
_TAKEN_BACK = frozenset({"direction", "amount", "price", "reference"})
"""What a newer message says differently, so that an older one counts no more."""


def named_move(entry: ToolEntry, arguments: BaseModel) -> NamedMove | None:
    """What a money call would do; None when its tool or arguments do not say."""
    if entry.names is not None:
        return entry.names(arguments)
    if entry.direction is None or not is_move(arguments):
        return None
    return NamedMove(
        direction=entry.direction,
        asset=ticker_of(arguments.symbol),
        amount=None if arguments.amount is None else parse_amount(arguments.amount),
        amount_unit=arguments.amount_unit,
    )


def check_intent(entry: ToolEntry, arguments: BaseModel, words: Sequence[str]) -> None:
    """Raises ToolCallBlockedError (INTENT_MISMATCH) when a money call contradicts its own `intent`
    or the person's words of this turn, newest first, or cannot be compared with them.

    Words that name the move replace what was said before them in the turn; newer ones about another
    asset leave it standing, as with `is_solicited`.
    """
    if not entry.is_fund_moving:
        return
    move = named_move(entry, arguments)
    if move is None or not states_intent(arguments):
        raise _mismatch("the tool does not say what it would do", {"field": "direction"})
    own = _contradicted(arguments.intent, move)
    if own is not None:
        raise _not_that_of("intent", own)
    others: list[str] = []
    for text in words:
        field = _contradicted(text, move)
        if field in _TAKEN_BACK:
            raise _not_that_of("message", field)
        if field is not None:
            others.append(field)
        elif names_move(text, move):
            return
    if others:
        raise _not_that_of("message", others[0])


def is_solicited(human_messages: Sequence[str], move: NamedMove | None) -> bool:
    """Whether one of the last human messages, newest first, names this move.

    A newer refusal, or newer words about another direction, amount, price, order or time, take it
    back; a question whether to make a move does neither.
    """
    if move is None:
        return False
    for text in human_messages[:REMEMBERED_MESSAGES]:
        if is_question_about_doing(text):
            continue
        if names_move(text, move):
            return True
        if is_put_off(parse(text)):
            return False
        if typed_decision(text) == "no" or contradiction(text, move) in _TAKEN_BACK:
            return False
    return False


def asks_for_a_move(human_messages: Sequence[str]) -> bool:
    """Whether one of the messages since the last decision asks for a move."""
    return any(
        asks(text).is_trade_request or asks_to_cancel(text)
        for text in human_messages[:REMEMBERED_MESSAGES]
    )


def ticker_of(symbol: str) -> str:
    """The base asset that a symbol argument means, as the lexicon calls it.

    Only a whole name is one: "ETH 3X" may be a listing of its own, and is not what a person who
    says ETH asks for.
    """
    base = symbol.strip().partition("/")[0]
    parsed = parse(base)
    if len(parsed.assets) == 1:
        (found,) = parsed.assets
        rest = parsed.plain[: found.start] + parsed.plain[found.end :]
        if not rest.strip(" $"):
            return found.symbol
    return base.upper()


def _contradicted(text: str, move: NamedMove) -> str | None:
    return contradiction(text, move) if text.strip() else None


def _not_that_of(source: str, field: str) -> ToolCallBlockedError:
    return _mismatch(
        f"the {field} of this call is not that of the {source}", {"field": field, "source": source}
    )


def _mismatch(message: str, metadata: dict[str, str]) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.INTENT_MISMATCH, gate=GATE, message=message, metadata=metadata
    )
