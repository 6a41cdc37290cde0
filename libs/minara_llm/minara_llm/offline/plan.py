"""What the offline model does about a message: the tool calls it asks for, and what it cannot do.

A plan is a function of the message alone, so that the step that answers sees the same one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

from minara_core.asks import Ask, asks, asks_to_cancel, is_put_off
from minara_core.clauses import Clause, clauses
from minara_core.lexicon import parse, typed_decision
from minara_core.lexicon_terms import AssetMention, MoveMention, Parsed, TopicMention
from minara_core.taxonomy import AssetClass, LifecycleStage
from minara_llm.offline.cancel import cancel, refuses_cancel, says_cancel
from minara_llm.offline.orders import PUT_OFF, order
from minara_llm.offline.steps import PlannedCall, PlanStep, Remark
from minara_llm.offline.words import beyond, halt_asked, shortfalls, small_talk

_MOST_PRICES = 5
_MOST_CALLS = 12
_SHORT_REST = 12
_CHARACTER_WEIGHT = 3
_LONGEST_QUERY = 64
_ANALYSIS = frozenset({"analysis", "safety"})
_BOOKS = MappingProxyType(
    {
        "total_balance": PlannedCall(name="minara_total_balance"),
        "accounts": PlannedCall(name="minara_account"),
        "pnl": PlannedCall(name="minara_pnl"),
        "fills": PlannedCall(name="get_fills"),
        "limits": PlannedCall(name="get_limits"),
        "trading_state": PlannedCall(name="get_trading_state"),
    }
)
"""Where one of these overlaps a wider topic, the wider one is not meant."""
_SIMPLE = MappingProxyType(
    {
        "trending": PlannedCall(name="get_trending"),
        "fear_greed": PlannedCall(name="get_fear_greed"),
        "portfolio": PlannedCall(name="get_portfolio"),
        **_BOOKS,
    }
)
_PAST_OR_RULES = frozenset({"fills", "limits", "trading_state", "accounts"})
"""A question that names a move beside one of these asks for no judgement."""
_OTHER_THAN_PRICE = frozenset({"trending", "portfolio", "orders", *_BOOKS})
_CANNOT = MappingProxyType(
    {
        "news": Remark(key="no_news"),
        "file_write": Remark(key="no_write"),
    }
)
_STOP = re.compile(r"stop ?loss|take ?profit|止損|止损|止盈|停損|停利|손절|익절")
_LISTS = re.compile(
    r"\b(?:my|open|pending|show|list|see|view|check|active|all|what|which|any)\b"
    r"|我的|掛單|挂单|未成交|查|看|列|顯示|显示|哪些|내\s|미체결|목록|내역|보여|확인|조회|있"
)
_RESULT = re.compile(r"result://[^\s/「」『』\"'“”]{1,100}/[0-9A-Za-z._-]{1,100}")
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
    """Steps in the order of the message. `is_analysis`: a judgement was asked for, which the
    offline model cannot give."""

    steps: tuple[PlanStep, ...]
    is_analysis: bool = False

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """What the message alone says is to be called."""
        return tuple(step for step in self.steps if isinstance(step, PlannedCall))

    @property
    def remarks(self) -> tuple[Remark, ...]:
        return tuple(step for step in self.steps if isinstance(step, Remark))


def _prices(assets: tuple[AssetMention, ...]) -> Iterator[PlanStep]:
    symbols = list(dict.fromkeys(a.symbol.removesuffix("-PERP") for a in assets if a.is_tradeable))
    for symbol in symbols:
        yield PlannedCall(name="get_price", arguments={"symbol": symbol})


def _worth_pricing(assets: tuple[AssetMention, ...]) -> tuple[AssetMention, ...]:
    """The coin that a question pays in is not what it asks about."""
    others = tuple(a for a in assets if a.asset_class is not AssetClass.STABLECOIN)
    return others or assets


def _in_dollars(assets: tuple[AssetMention, ...]) -> tuple[AssetMention, ...]:
    """A currency beside a coin is what its price was to be told in, and no price is told in it."""
    others = tuple(a for a in assets if a.is_tradeable and a.asset_class is not AssetClass.FX)
    return others or assets


def _short_of(parsed: Parsed, coins: tuple[AssetMention, ...]) -> Iterator[PlanStep]:
    """What the price of now does not answer; a currency alone is priced like a coin."""
    is_fx = all(asset.asset_class is AssetClass.FX for asset in coins)
    for name in shortfalls(parsed):
        if name == "currency" and is_fx:
            continue
        yield Remark(key=f"no_{name}")


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


def _meant(mentions: tuple[TopicMention, ...]) -> list[str]:
    """The topics in order, each once. Where a narrow one overlaps others, only it is meant; of two
    narrow ones the longer."""

    def yields_to(one: TopicMention, other: TopicMention) -> bool:
        if other.topic not in _BOOKS or other.end <= one.start or one.end <= other.start:
            return False
        return one.topic not in _BOOKS or other.end - other.start > one.end - one.start

    kept = [one for one in mentions if not any(yields_to(one, other) for other in mentions)]
    return list(dict.fromkeys(one.topic for one in kept))


class _Planner:
    """Goes through one message; lives for one call of `plan`."""

    def __init__(self, parsed: Parsed, ask: Ask) -> None:
        self._parsed = parsed
        self._ask = ask
        self._asks_to_cancel = asks_to_cancel(parsed)
        self._is_put_off = is_put_off(parsed)
        self._is_question = (
            not self._is_put_off
            and ask.stage is LifecycleStage.EVALUATE
            and bool(parsed.directions)
            and (ask.is_sure or (bool(parsed.assets) and "alert" not in shortfalls(parsed)))
            and not parsed.topics & _PAST_OR_RULES
        )
        self._subjects: tuple[AssetMention, ...] = ()
        self.is_analysis = self._is_question

    def steps(self) -> Iterator[PlanStep]:
        parsed = self._parsed
        if halt_asked(parsed):
            yield Remark(key="halt_yours")
        if kept := _RESULT.search(parsed.plain):
            yield PlannedCall(name="read_result", arguments={"uri": kept.group()})
            return
        found = clauses(parsed)
        uses = Counter(amount.start for clause in found for amount in clause.amounts)
        for clause in found:
            self._subjects = clause.subjects or self._subjects
            move = self._requested(clause)
            if self._is_cancel(clause):
                yield from [PUT_OFF] if parsed.conditions else cancel(parsed, clause)
            elif move is None and self._is_put_off and any(one.is_named for one in clause.moves):
                yield PUT_OFF
            elif move is None:
                yield from self._readings(clause)
            elif not parsed.conditions and any(uses[amount.start] > 1 for amount in clause.amounts):
                symbol = next((asset.symbol for asset in self._subjects), "ETH")
                yield Remark(key="unclear_amount", values={"symbol": symbol})
            else:
                yield order(parsed, clause, move, self._subjects)
        if self.is_analysis:
            yield from _prices(_worth_pricing(parsed.assets))
            yield _SIMPLE["fear_greed"]

    def _is_cancel(self, clause: Clause) -> bool:
        is_said = self._asks_to_cancel and says_cancel(self._parsed, clause)
        return is_said and not refuses_cancel(self._parsed)

    def _requested(self, clause: Clause) -> MoveMention | None:
        if not self._ask.is_trade_request:
            return None
        return next((move for move in clause.moves if move.is_request), None)

    def _readings(self, clause: Clause) -> Iterator[PlanStep]:
        topics = _meant(clause.topics)
        if "file_read" in topics or "file_write" in topics:
            yield _file(self._parsed, clause) if "file_read" in topics else _CANNOT["file_write"]
            return
        if "search" in topics:
            yield _query(self._parsed, clause, clause.start)
            return
        for topic in topics:
            yield from self._reading(clause, topic, topics)

    def _reading(self, clause: Clause, topic: str, topics: list[str]) -> Iterator[PlanStep]:
        if topic in _SIMPLE:
            yield _SIMPLE[topic]
        elif topic == "orders":
            yield from self._orders(clause)
        elif topic == "price" and not _OTHER_THAN_PRICE.intersection(topics):
            yield from self._price(clause)
        elif topic in _CANNOT and len(topics) == 1:
            yield _CANNOT[topic]
        elif topic in _ANALYSIS:
            self.is_analysis = True

    def _orders(self, clause: Clause) -> Iterator[PlanStep]:
        text = self._parsed.folded[clause.start : clause.end]
        if says_cancel(self._parsed, clause) and refuses_cancel(self._parsed):
            yield Remark(key="refused_move")
        elif _STOP.search(text):
            yield PUT_OFF
        elif clause.amounts and clause.subjects and not clause.moves:
            yield Remark(key="which_side", values={"symbol": clause.subjects[0].symbol})
        elif not self._ask.is_trade_request or _LISTS.search(text):
            yield PlannedCall(name="get_orders")

    def _price(self, clause: Clause) -> Iterator[PlanStep]:
        assets = clause.subjects or self._subjects or self._parsed.assets
        if any(asset.is_tradeable for asset in assets):
            coins = _in_dollars(assets)
            yield from _short_of(self._parsed, coins)
            yield from _prices(coins)
        elif not self._is_question:
            yield Remark(key="which_asset")


def _is_short_naming(parsed: Parsed) -> bool:
    """Whether the message is hardly more than the assets it names, such as "BTC?"."""
    rest = list(parsed.folded)
    for asset in parsed.assets:
        rest[asset.start : asset.end] = " " * (asset.end - asset.start)
    length = sum(1 if c.isascii() else _CHARACTER_WEIGHT for c in rest if c.isalnum())
    return bool(parsed.assets) and length <= _SHORT_REST


def _otherwise(parsed: Parsed, ask: Ask, text: str) -> Iterator[PlanStep]:
    """What is said of a message without a reading and without a move."""
    talk = small_talk(parsed)
    if any(move.is_negated for move in parsed.moves) and not parsed.directions:
        yield Remark(key="refused_move")
    elif typed_decision(text) is not None:
        yield Remark(key="nothing_pending")
    elif talk is not None:
        yield Remark(key=talk)
    elif ask.is_continuation:
        yield Remark(key="continuation")
    elif "alert" in (short := shortfalls(parsed)) or (parsed.assets and "why" in short):
        yield Remark(key="no_alert" if "alert" in short else "no_why")
    elif _is_short_naming(parsed) and not parsed.moves:
        yield from _prices(parsed.assets)
    else:
        yield Remark(key="cannot")


def _distinct(steps: Iterable[PlanStep]) -> list[PlanStep]:
    found: list[PlanStep] = []
    for step in steps:
        if step not in found:
            found.append(step)
    return found


def _within_limits(steps: list[PlanStep]) -> list[PlanStep]:
    kept: list[PlanStep] = []
    prices = calls = dropped = 0
    for step in steps:
        if isinstance(step, PlannedCall):
            prices += step.name == "get_price"
            if step.name == "get_price" and prices > _MOST_PRICES:
                dropped += 1
                continue
            calls += 1
            if calls > _MOST_CALLS:
                continue
        kept.append(step)
    if dropped:
        kept.append(Remark(key="at_most"))
    return kept


def plan(text: str) -> Plan:
    """The calls and remarks that answer a person's message. Never raises."""
    parsed = parse(text)
    ask = asks(parsed)
    planner = _Planner(parsed, ask)
    steps = _distinct(planner.steps())
    if steps and "alert" in shortfalls(parsed):
        steps = _distinct([*steps, Remark(key="no_alert")])
    if steps and (what := beyond(parsed)):
        steps.append(Remark(key="beyond", values={"what": what}))
    steps = _within_limits(steps or _distinct(_otherwise(parsed, ask, text)))
    return Plan(steps=tuple(steps or [Remark(key="cannot")]), is_analysis=planner.is_analysis)
