"""A money call against the model's own stated intent and against the person's words.

No model judges this: the rules of `minara_core.asks` do, on text whose hash the grant proves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from pydantic import BaseModel

from minara_core.asks import asks, contradiction, names_move
from minara_core.lexicon import parse, typed_decision
from minara_core.lexicon_terms import Direction
from minara_core.money import parse_amount
from minara_core.reasons import DenialReason
from minara_tools.domain.arguments import MoveArguments
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry

GATE = "intent"
REJECTIONS_IN_A_ROW = 2
"""After so many the session's money tools are off until a message asks for a move."""
REMEMBERED_MESSAGES = 3
"""A message older than this many human messages solicits nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMove:
    """A money call in the words of `minara_core.asks`. `amount` is None for "all"."""

    direction: Direction
    asset: str
    amount: Decimal | None
    amount_unit: str

    @property
    def sentence(self) -> str:
        """How a person would ask for it."""
        if self.amount is None:
            return f"{self.direction.value} all of my {self.asset}"
        if self.amount_unit == "quote":
            return f"{self.direction.value} {self.amount} USDC of {self.asset}"
        return f"{self.direction.value} {self.amount} {self.asset}"


def named_move(entry: ToolEntry, arguments: BaseModel) -> NamedMove | None:
    """What a money call would do; None when its tool or arguments do not say."""
    if entry.direction is None or not isinstance(arguments, MoveArguments):
        return None
    return NamedMove(
        direction=entry.direction,
        asset=_ticker(arguments.symbol),
        amount=None if arguments.amount is None else parse_amount(arguments.amount),
        amount_unit=arguments.amount_unit,
    )


def check_intent(entry: ToolEntry, arguments: BaseModel, message: str) -> None:
    """Raises ToolCallBlockedError (INTENT_MISMATCH) when a money call contradicts its own `intent`
    or the person's words of this turn, or cannot be compared with them."""
    if not entry.is_fund_moving:
        return
    move = named_move(entry, arguments)
    if move is None or not isinstance(arguments, MoveArguments):
        raise _mismatch("the tool does not say what it would do", {"field": "direction"})
    for source, text in (("intent", arguments.intent), ("message", message)):
        field = _contradiction(text, move) if text.strip() else None
        if field is not None:
            raise _mismatch(
                f"the {field} of this call is not that of the {source}",
                {"field": field, "source": source},
            )


def is_solicited(human_messages: Sequence[str], move: NamedMove | None) -> bool:
    """Whether one of the last human messages, newest first, names this move.

    A newer refusal, or newer words about another direction or amount, take it back.
    """
    if move is None:
        return False
    for text in human_messages[:REMEMBERED_MESSAGES]:
        if names_move(
            text,
            direction=move.direction,
            asset=move.asset,
            amount=move.amount,
            amount_unit=move.amount_unit,
        ):
            return True
        if typed_decision(text) == "no" or _contradiction(text, move) in {"direction", "amount"}:
            return False
    return False


def asks_for_a_move(human_messages: Sequence[str]) -> bool:
    """Whether one of the messages since the last decision asks for a move."""
    return any(asks(text).is_trade_request for text in human_messages[:REMEMBERED_MESSAGES])


def _contradiction(text: str, move: NamedMove) -> str | None:
    return contradiction(
        text,
        direction=move.direction,
        asset=move.asset,
        amount=move.amount,
        amount_unit=move.amount_unit,
    )


def _ticker(symbol: str) -> str:
    base = symbol.strip().partition("/")[0]
    found = parse(base).symbols
    return found[0] if len(found) == 1 else base.upper()


def _mismatch(message: str, metadata: dict[str, str]) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.INTENT_MISMATCH, gate=GATE, message=message, metadata=metadata
    )
