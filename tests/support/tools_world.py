"""The world that tools see, as fakes: a market with set prices, a venue in memory, a file box."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from minara_core.actions import (
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.clock import Clock
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_core.reasons import DenialReason
from minara_core.taxonomy import Origin
from minara_tools.app.ports import (
    Balance,
    FearGreed,
    InstrumentRules,
    PricePoint,
    TokenListing,
    VenueQuote,
)
from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed
from minara_tools.domain.registry import ToolContext

STARTING = {"USDC": Decimal(100_000)}
_STEP = Decimal("0.000001")
_FEE = Decimal("0.001")
_PRICES = {"BTC": "100000", "ETH": "2500", "DOGE": "0.2", "USDC": "1"}


def a_context(user_id: str = "local") -> ToolContext:
    return ToolContext(
        user_id=UserId(user_id),
        session_id=SessionId("session-1"),
        turn_id=TurnId("turn-1"),
        tool_call_id=ToolCallId("1.0"),
        origin=Origin.REPL,
        progress=lambda _, __: None,
    )


class FakeMarket:
    """Has the prices a test sets; `age` is how old they are."""

    def __init__(self, clock: Clock, prices: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self.prices_usd = {s: Decimal(p) for s, p in (prices or _PRICES).items()}
        self.age = timedelta()

    async def prices(self, symbols: tuple[str, ...]) -> tuple[PricePoint, ...]:
        if any(symbol not in self.prices_usd for symbol in symbols):
            raise ToolFailed(DenialReason.PRICE_UNAVAILABLE, "no such price")
        return tuple(self._point(symbol) for symbol in symbols)

    async def trending(self, limit: int) -> tuple[PricePoint, ...]:
        return tuple(self._point(symbol) for symbol in sorted(self.prices_usd))[:limit]

    async def fear_greed(self) -> FearGreed:
        return FearGreed(value=54, classification="Neutral", as_of=self._clock.now(), source="fake")

    async def search(self, query: str, limit: int) -> tuple[TokenListing, ...]:
        return tuple(
            TokenListing(symbol=s, name=s.title(), asset_class="crypto_alt", source="fake")
            for s in sorted(self.prices_usd)
            if query.upper() in s
        )[:limit]

    def _point(self, symbol: str) -> PricePoint:
        return PricePoint(
            symbol=symbol,
            name=symbol.title(),
            price=self.prices_usd[symbol],
            change_24h_percent=Decimal("-1.50"),
            as_of=self._clock.now() - self.age,
            source="fake",
        )


class FakeVenue:
    """Implements Venue: one price per instrument, endless depth, a fee of 0.1 %."""

    def __init__(
        self, market: FakeMarket, clock: Clock, starting: Mapping[str, Decimal] | None = None
    ) -> None:
        self._market = market
        self._clock = clock
        self._starting = dict(starting or STARTING)
        self._accounts: dict[str, dict[str, Decimal]] = {}
        self._orders: dict[tuple[str, str], tuple[ResolvedOrder, PlacedOrder]] = {}

    @property
    def name(self) -> str:
        return "fake"

    @property
    def mode(self) -> TradingMode:
        return TradingMode.PAPER

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return tuple(_rules(base) for base in sorted(self._market.prices_usd) if base != "USDC")

    async def account(self, user_id: UserId) -> str:
        account = f"fake-{user_id}"
        self._accounts.setdefault(account, dict(self._starting))
        return account

    async def balances(self, account: str) -> tuple[Balance, ...]:
        return tuple(
            Balance(asset=asset, available=amount, held=Decimal(0))
            for asset, amount in sorted(self._accounts.get(account, {}).items())
        )

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        price, is_buy = await self._price(symbol), side is Side.BUY
        turnover = _rounded(multiply(quantity, price), side)
        fee = quantize(multiply(turnover, _FEE), _STEP, Rounding.UP)
        return VenueQuote(
            instrument=symbol,
            side=side,
            quantity=quantity,
            average_price=price,
            best_price=price,
            cost=add(turnover, fee) if is_buy else quantity,
            receipt=quantity if is_buy else subtract(turnover, fee),
            receipt_asset=symbol.split("/")[0] if is_buy else "USDC",
            fee=fee,
            fee_asset="USDC",
            price_impact=Decimal(0),
            quote_time=self._clock.now(),
            source="fake",
        )

    async def place(self, order: ResolvedOrder, client_order_id: str) -> PlacedOrder:
        key = (order.account, client_order_id)
        if key in self._orders:
            known, placed = self._orders[key]
            if known == order:
                return placed
            return _ended(order, client_order_id, PlacedState.REJECTED, "DUPLICATE_CLIENT_ID")
        if order.account not in self._accounts or order.time_in_force is not TimeInForce.IOC:
            return _ended(order, client_order_id, PlacedState.REJECTED, "ORDER_UNSUPPORTED")
        placed = self._matched(order, client_order_id, await self._price(order.instrument.symbol))
        self._orders[key] = (order, placed)
        return placed

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        found = self._orders.get((account, client_order_id))
        return None if found is None else found[1]

    async def _price(self, symbol: str) -> Decimal:
        (point,) = await self._market.prices((symbol.split("/")[0],))
        return point.price

    def _matched(self, order: ResolvedOrder, client_order_id: str, price: Decimal) -> PlacedOrder:
        is_buy = order.side is Side.BUY
        balances = self._accounts[order.account]
        needed = order.max_spend if is_buy else order.quantity
        if balances.get(order.max_spend_asset, Decimal(0)) < needed:
            reason = DenialReason.BALANCE_INSUFFICIENT
            return _ended(order, client_order_id, PlacedState.REJECTED, reason)
        if price > order.limit_price if is_buy else price < order.limit_price:
            reason = DenialReason.SLIPPAGE_EXCEEDED
            return _ended(order, client_order_id, PlacedState.CANCELLED, reason)
        quantity = order.quantity
        if is_buy:
            rounding_room = subtract(order.max_spend, multiply(Decimal(3), _STEP))
            affordable = divide(rounding_room, multiply(price, add(Decimal(1), _FEE)))
            step = _rules(order.instrument.base).quantity_increment
            quantity = min(quantity, quantize(affordable, step, Rounding.DOWN))
        return self._booked(order, client_order_id, price, quantity)

    def _booked(
        self, order: ResolvedOrder, client_order_id: str, price: Decimal, quantity: Decimal
    ) -> PlacedOrder:
        turnover = _rounded(multiply(quantity, price), order.side)
        fee = quantize(multiply(turnover, _FEE), _STEP, Rounding.UP)
        is_buy = order.side is Side.BUY
        spent = add(turnover, fee) if is_buy else quantity
        received = quantity if is_buy else subtract(turnover, fee)
        balances = self._accounts[order.account]
        for asset, change in ((order.max_spend_asset, -spent), (order.min_receipt_asset, received)):
            balances[asset] = add(balances.get(asset, Decimal(0)), change)
        return PlacedOrder(
            client_order_id=client_order_id,
            venue_order_id=f"fake-{len(self._orders)}",
            state=PlacedState.FILLED,
            filled_quantity=quantity,
            average_price=price,
            spent=spent,
            spent_asset=order.max_spend_asset,
            received=received,
            received_asset=order.min_receipt_asset,
            fee=fee,
            fee_asset="USDC",
        )


class FakeFiles:
    """Implements FileBox in memory."""

    def __init__(self) -> None:
        self.content: dict[tuple[str, str], bytes] = {}

    async def read(self, user_id: UserId, path: str) -> bytes:
        self._check(path)
        if (user_id, path) not in self.content:
            raise ToolFailed("NOT_FOUND", "no such file")
        return self.content[user_id, path]

    async def write(self, user_id: UserId, path: str, content: bytes) -> str:
        self._check(path)
        self.content[user_id, path] = content
        return path

    def _check(self, path: str) -> None:
        if path.startswith("/") or ".." in path.split("/"):
            raise SandboxEscapeError(path)


def _rules(base: str) -> InstrumentRules:
    return InstrumentRules(
        symbol=f"{base}/USDC",
        base=base,
        quote="USDC",
        quantity_increment=Decimal("0.000001"),
        price_increment=Decimal("0.0001"),
        min_quantity=Decimal("0.000001"),
        min_notional=Decimal("0.5"),
    )


def _rounded(turnover: Decimal, side: Side) -> Decimal:
    return quantize(turnover, _STEP, Rounding.UP if side is Side.BUY else Rounding.DOWN)


def _ended(
    order: ResolvedOrder, client_order_id: str, state: PlacedState, reason: str
) -> PlacedOrder:
    zero = Decimal(0)
    return PlacedOrder(
        client_order_id=client_order_id,
        venue_order_id="fake",
        state=state,
        filled_quantity=zero,
        average_price=zero,
        spent=zero,
        spent_asset=order.max_spend_asset,
        received=zero,
        received_asset=order.min_receipt_asset,
        fee=zero,
        fee_asset="USDC",
        reason=reason,
    )
