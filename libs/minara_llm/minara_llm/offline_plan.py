"""What the offline model does about a message: the tool calls it asks for, and what it cannot do.

A plan is a function of the message alone, so that the step that answers sees the same one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from minara_core.asks import Ask, asks
from minara_core.clauses import Clause, clauses
from minara_core.lexicon import parse, typed_decision
from minara_core.lexicon_terms import AssetMention, MoveMention, Parsed
from minara_core.taxonomy import AssetClass, LifecycleStage
from minara_llm.offline_orders import PlannedCall, Remark, order

_MOST_PRICES = 5
_MOST_CALLS = 12
_SHORT_REST = 12
_CHARACTER_WEIGHT = 3
_LONGEST_QUERY = 64
_ANALYSIS = frozenset({"analysis", "safety"})
_SIMPLE = MappingProxyType(
    {
        "trending": PlannedCall(name="get_trending"),
        "fear_greed": PlannedCall(name="get_fear_greed"),
        "portfolio": PlannedCall(name="get_portfolio"),
    }
)
_CANNOT = MappingProxyType(
    {
        "news": Remark(key="no_news"),
        "orders": Remark(key="no_orders"),
        "file_write": Remark(key="no_write"),
    }
)
_PATH = re.compile(r"[A-Za-z0-9_~./\\-]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,4}(?![A-Za-z0-9])")
_BARE_PATH = re.compile(r"[A-Za-z0-9_~.-]*(?:/[A-Za-z0-9_.-]+)+")
_QUOTED = re.compile(r"[\"“「『']([^\"”」』']{1,64})[\"”」』']")
_QUERY_FILLER = re.compile(
    r"(?<![a-z0-9])(?:please|can you|could you|for|find|me|tokens?|coins?|assets?|named|called|like"
    r"|the|an?|any|all|is|there|about|with|name|of|in|symbol|ticker)(?![a-z0-9])"
    r"|請|请|幫我|帮我|一下|代幣|代币|幣種|币种|名為|名为|叫做|叫|相關|相关|有關|有关|的"
    r"|토큰|코인|해\s?줘|해주세요|좀|관련|이라는|라는|(?<=[a-z0-9가-힣])[을를](?=\s|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Calls in the order of the message. `is_analysis`: a judgement was asked for, which the
    offline model cannot give."""

    calls: tuple[PlannedCall, ...]
    remarks: tuple[Remark, ...]
    is_analysis: bool = False


def _prices(assets: tuple[AssetMention, ...]) -> Iterator[PlannedCall | Remark]:
    symbols = list(dict.fromkeys(a.symbol.removesuffix("-PERP") for a in assets if a.is_tradeable))
    for symbol in symbols:
        yield PlannedCall(name="get_price", arguments={"symbol": symbol})


def _worth_pricing(assets: tuple[AssetMention, ...]) -> tuple[AssetMention, ...]:
    """The coin that a question pays in is not what it asks about."""
    others = tuple(a for a in assets if a.asset_class is not AssetClass.STABLECOIN)
    return others or assets


def _query(parsed: Parsed, clause: Clause, start: int) -> PlannedCall | Remark:
    quoted = _QUOTED.search(parsed.plain, start, clause.end)
    named = [asset.symbol for asset in clause.assets]
    if quoted:
        query = quoted.group(1)
    elif named:
        query = named[0]
    else:
        spans = [(t.start, t.end) for t in clause.topics if clause.start <= t.start < clause.end]
        text = parsed.folded[clause.start : clause.end]
        for first, last in sorted(spans, reverse=True):
            text = text[: first - clause.start] + " " + text[last - clause.start :]
        query = " ".join(_QUERY_FILLER.sub(" ", text).split()).strip(" .,!?？。，！、")
    if not query:
        return Remark(key="which_query")
    return PlannedCall(name="search_tokens", arguments={"query": query[:_LONGEST_QUERY]})


def _file(parsed: Parsed, clause: Clause) -> PlannedCall | Remark:
    text = parsed.plain[clause.start : clause.end]
    match = _PATH.search(text) or _BARE_PATH.search(text)
    if match is None:
        return Remark(key="which_file")
    return PlannedCall(name="read_file", arguments={"path": match.group()})


class _Planner:
    """Goes through one message; lives for one call of `plan`."""

    def __init__(self, parsed: Parsed, ask: Ask) -> None:
        self._parsed = parsed
        self._ask = ask
        self._is_question = (
            ask.stage is LifecycleStage.EVALUATE
            and bool(parsed.directions)
            and (ask.is_sure or bool(parsed.assets))
        )
        self._subjects: tuple[AssetMention, ...] = ()
        self.is_analysis = self._is_question

    def steps(self) -> Iterator[PlannedCall | Remark]:
        found = clauses(self._parsed)
        uses = Counter(amount.start for clause in found for amount in clause.amounts)
        for clause in found:
            self._subjects = clause.subjects or self._subjects
            move = self._requested(clause)
            if move is None:
                yield from self._readings(clause)
            elif any(uses[amount.start] > 1 for amount in clause.amounts):
                symbol = next((asset.symbol for asset in self._subjects), "ETH")
                yield Remark(key="unclear_amount", values={"symbol": symbol})
            else:
                yield order(self._parsed, clause, move, self._subjects)
        if self.is_analysis:
            yield from _prices(_worth_pricing(self._parsed.assets))
            yield _SIMPLE["fear_greed"]

    def _requested(self, clause: Clause) -> MoveMention | None:
        if not self._ask.is_trade_request:
            return None
        return next((move for move in clause.moves if move.is_request), None)

    def _readings(self, clause: Clause) -> Iterator[PlannedCall | Remark]:
        topics = dict.fromkeys(mention.topic for mention in clause.topics)
        if topics.keys() & {"file_read", "file_write"}:
            yield _file(self._parsed, clause) if "file_read" in topics else _CANNOT["file_write"]
            return
        if "search" in topics:
            yield _query(self._parsed, clause, clause.start)
            return
        for topic in topics:
            if topic in _SIMPLE:
                yield _SIMPLE[topic]
            elif topic == "price" and not topics.keys() & {"portfolio", "trending"}:
                yield from self._price(clause)
            elif topic in _CANNOT and len(topics) == 1:
                yield _CANNOT[topic]
            elif topic in _ANALYSIS:
                self.is_analysis = True

    def _price(self, clause: Clause) -> Iterator[PlannedCall | Remark]:
        assets = clause.subjects or self._subjects or self._parsed.assets
        if any(asset.is_tradeable for asset in assets):
            yield from _prices(assets)
        elif not self._is_question:
            yield Remark(key="which_asset")


def _is_short_naming(parsed: Parsed) -> bool:
    """Whether the message is hardly more than the assets it names, such as "BTC?"."""
    rest = list(parsed.folded)
    for asset in parsed.assets:
        rest[asset.start : asset.end] = " " * (asset.end - asset.start)
    length = sum(1 if c.isascii() else _CHARACTER_WEIGHT for c in rest if c.isalnum())
    return bool(parsed.assets) and length <= _SHORT_REST


def _otherwise(parsed: Parsed, ask: Ask, text: str) -> Iterator[PlannedCall | Remark]:
    if any(move.is_negated for move in parsed.moves) and not parsed.directions:
        yield Remark(key="refused_move")
    elif ask.is_continuation or typed_decision(text) is not None:
        yield Remark(key="continuation")
    elif _is_short_naming(parsed) and not parsed.moves:
        yield from _prices(parsed.assets)
    else:
        yield Remark(key="cannot")


def _distinct(steps: Iterator[PlannedCall | Remark]) -> list[PlannedCall | Remark]:
    found: list[PlannedCall | Remark] = []
    for step in steps:
        if step not in found:
            found.append(step)
    return found


def _within_limits(calls: list[PlannedCall]) -> tuple[list[PlannedCall], list[Remark]]:
    prices = [call for call in calls if call.name == "get_price"]
    dropped = prices[_MOST_PRICES:]
    kept = [call for call in calls if call not in dropped][:_MOST_CALLS]
    if not dropped:
        return kept, []
    return kept, [Remark(key="at_most", values={"count": str(_MOST_PRICES)})]


def plan(text: str) -> Plan:
    """The calls and remarks that answer a person's message. Never raises."""
    parsed = parse(text)
    ask = asks(parsed)
    planner = _Planner(parsed, ask)
    steps = _distinct(planner.steps()) or _distinct(_otherwise(parsed, ask, text))
    calls, limits = _within_limits([step for step in steps if isinstance(step, PlannedCall)])
    remarks = [step for step in steps if isinstance(step, Remark)]
    if not calls and not remarks:
        remarks = [Remark(key="cannot")]
    return Plan(
        calls=tuple(calls),
        remarks=(*remarks, *limits),
        is_analysis=planner.is_analysis,
    )
