"""What the lexicon finds in a message. Positions are indices into `Parsed.folded`."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from minara_core.taxonomy import AssetClass


class Language(StrEnum):
    """The language of a message, judged by its script alone."""

    EN = "en"
    ZH = "zh"
    KO = "ko"


class Direction(StrEnum):
    """What a move does. CANCEL has no verb of its own among the mentions: "cancel" alone answers a
    preview (`minara_core.asks.asks_to_cancel`)."""

    BUY = "buy"
    SELL = "sell"
    LONG = "long"
    SHORT = "short"
    SWAP = "swap"
    TRANSFER = "transfer"
    WITHDRAW = "withdraw"
    CLOSE = "close"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetMention:
    """An asset by ticker, name, cashtag or contract address.

    `symbol` is the ticker, or the address as it was written, and then `chain` says of what shape
    it is (evm, solana, tron, bitcoin). `is_ambiguous`: the ticker names a stock and a token.
    """

    symbol: str
    asset_class: AssetClass
    start: int
    end: int
    is_ambiguous: bool = False
    chain: str = ""

    @property
    def is_tradeable(self) -> bool:
        return self.asset_class is not AssetClass.MACRO


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountMention:
    """A number with what it counts.

    `unit`: "usd", a currency code, "FIAT" (a local currency left unnamed), an asset's symbol,
    "percent", "all" (value 1), or None when the text does not say.
    """

    value: Decimal
    unit: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMention:
    """A word that names a move. `is_request`: its clause has the form of an order or of the
    speaker's own will; `is_quoted`: it stands inside quotation marks."""

    direction: Direction
    start: int
    end: int
    is_negated: bool = False
    is_quoted: bool = False
    is_request: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the speaker names the move themselves and does not refuse it."""
        return not self.is_negated and not self.is_quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMention:
    topic: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A message as the lexicon reads it.

    `plain` is the text after NFKC, `folded` the same case-folded, index by index. `prices` are
    numbers that set a price or trigger and no size. `conditions` are the spans of the words that
    put a move off: until something comes about, to a later time, or to many times.
    `has_unread_number`: a number was seen whose value is not certain (a range, a sign, odd
    separators), so nothing may be concluded from it.
    """

    language: Language
    plain: str
    folded: str
    assets: tuple[AssetMention, ...]
    moves: tuple[MoveMention, ...]
    amounts: tuple[AmountMention, ...]
    prices: tuple[AmountMention, ...]
    leverage: Decimal | None
    topic_mentions: tuple[TopicMention, ...]
    conditions: tuple[tuple[int, int], ...] = ()
    has_unread_number: bool = False

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The moves the speaker names, each once, in order."""
        return tuple(dict.fromkeys(move.direction for move in self.moves if move.is_named))

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(mention.topic for mention in self.topic_mentions)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The assets' symbols, each once, in order."""
        return tuple(dict.fromkeys(asset.symbol for asset in self.assets))
