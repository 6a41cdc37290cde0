"""The world that tools see, as fakes: a market with set prices, a file box."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from minara_core.clock import Clock
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import Origin
from minara_tools.app.ports import FearGreed, PricePoint, TokenListing
from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed
from minara_tools.domain.registry import ToolContext

STARTING = {"USDC": Decimal(100_000)}
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
